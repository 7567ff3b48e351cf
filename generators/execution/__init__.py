"""Executions of tasks: pools of devices, worker pools, scheduling, and the journal of what was done."""
