"""The graph as Dagster sees it, and the `vesper` command. Imports nothing heavy: commands start without Dagster.

The package `vesper` comes first: it refuses to go on where another's package stands in the place of one of ours.
"""

from vesper import __version__ as __version__
