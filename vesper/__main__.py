"""`vesper`, and `python -m vesper`."""

import sys

from dagster_project.cli import main

if __name__ == "__main__":
    sys.exit(main())
