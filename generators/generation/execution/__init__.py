"""Executions of tasks: devices, crews, scheduling, and the journal of what was done."""
