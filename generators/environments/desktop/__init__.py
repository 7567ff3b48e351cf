"""A real Linux desktop as a world: an X session with programs from Debian, reached over SSH.

`session` starts one, `keeper` holds its processes, `tree` reads AT-SPI, `home` resets and reads the home folder,
`world` is the World over the SSH driver, `tasks` are tasks with rules. `on_desktop_*.py` run on the desktop's side.
"""
