"""Tasks: what a world and a task are, the task pool of online training, and how batches are drawn from it.

Plain types at the bottom; nothing here knows of devices or of any particular world.
"""
