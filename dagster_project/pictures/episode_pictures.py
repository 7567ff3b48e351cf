"""Episodes of an agent as metadata: animated, with what was asked and how it ended."""

import base64
import json
from typing import Any

from pipelines.markdown_text import markdown_text
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from trainer.stages.episodes import SHOWN


def shown(manifest: Manifest) -> dict[str, tuple[bytes, dict[str, Any]]]:
    """Verdict → (animated WebP, the episode as `FilmedEpisode.plain` has it), of those that a version shows."""
    there = {entry.path.rpartition("/")[2] for entry in manifest.files}
    return {
        name: (manifest.file(f"{name}.webp").read_bytes(), json.loads(manifest.file(f"{name}.json").read_text("utf-8")))
        for name in SHOWN
        if f"{name}.webp" in there
    }


def of(manifest: Manifest, store: Store) -> dict[str, str]:
    """Verdict → Markdown of the episode."""
    return {name: _markdown(name, animation, plain) for name, (animation, plain) in shown(manifest).items()}


def _markdown(name: str, animation: bytes, plain: dict[str, Any]) -> str:
    picture = f"![a {name} episode](data:image/webp;base64,{base64.b64encode(animation).decode()})"
    asked = markdown_text(plain["task"]["instruction"], 300)
    return f"{picture}\n\n**{name}** after {len(plain['steps'])} steps: {asked}\n\n{markdown_text(plain['why'], 300)}"
