"""`episodes/unified` by name, with what is checked of it: apart from what makes it, for the graph to read."""

from pipelines.store.manifest import CheckSpec

AGENT, ASSET, CODE_VERSION = "checkpoints/unified", "episodes/unified", "1"
PLAYED = CheckSpec("episodes decided", "No episode came to an end that its rule could decide")
BOTH = CheckSpec(
    "one solved and one failed", "All tasks that were tried ended alike: one of the two can't be shown", blocking=False
)
CHECKS = (PLAYED, BOTH)
SHOWN = ("solved", "failed")
"""Names of the episodes' files: solved.webp, solved.png and solved.json, and the same of one that failed."""
