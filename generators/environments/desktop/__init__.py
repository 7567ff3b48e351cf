"""A real Linux desktop as a world: an X session with programs from Debian, reached over SSH.

`session` starts one with `programs`, `keeper` holds its processes, `tree` reads AT-SPI, `home` resets and reads the
home folder, `world` is the World over the SSH driver. `task` says what a task and its checks are, `plan` carries
one out, `tasks` lists all families (`tasks_*.py`). `on_desktop_*.py` run on the desktop's side.
"""
