"""A real Linux desktop as a world: an X session with programs from Debian, reached over SSH.

`session` starts one with `programs`, `keeper` holds its processes, `desktop_world` is the World over the SSH driver
(which reads AT-SPI and the home folder, see `devices.desktop`). `desktop_task` says what a task and its checks are,
`plan` carries one out, `desktop_tasks` lists all families (`tasks_*.py`).
"""
