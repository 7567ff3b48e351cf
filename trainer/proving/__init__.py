"""What proves the trainer: the staircase (the whole way in miniature), and how nano-base was built.

Nothing of the product stands on it; `dagster_project` wires the staircase as an asset and a command.
"""
