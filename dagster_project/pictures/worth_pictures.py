"""Points of sources, rules and mixtures with their intervals, a picture for each kind of comparison."""

import base64

from pipelines.store import Store
from pipelines.store.manifest import Manifest
from trainer.worth.page import by_kind, worth_svg


def pictures(manifest: Manifest, store: Store) -> dict[str, str]:
    """Kind → Markdown with an SVG inside."""
    drawn = {kind: worth_svg(rows) for kind, rows in by_kind(manifest.read("worth").to_pylist())}
    return {
        kind: f"![{kind}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"
        for kind, svg in drawn.items()
    }
