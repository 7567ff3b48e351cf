"""Dagster's own UI over a small bakery's assets, jobs, schedules and a sensor. `definitions.txt` and `history.txt` are
Python that only Dagster's processes run; nothing here imports it."""
