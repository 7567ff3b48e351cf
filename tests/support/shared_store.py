"""A small asset, made through any store the same way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipelines.store import Check, PartSpec, PartWriter, Store
from pipelines.store.images import encode_png
from pipelines.store.manifest import Manifest
from pipelines.store.object_store.binding import copies_at


def picture(seed: int) -> bytes:
    return encode_png(np.random.default_rng(seed).integers(0, 255, (30, 40, 3), np.uint8))


def commit(
    store: Store,
    asset: str = "unified/x",
    content: str = "a",
    inputs: dict[str, str] | None = None,
    ran: list[str] | None = None,
    checks: list[Check] | None = None,
    pictures: Sequence[int] = range(3),
) -> Manifest:
    """A version of parts with a picture each, and a side file."""
    specs = [PartSpec(f"p{n}", f"{content}{n}") for n in range(len(pictures))]

    def write(out: PartWriter, n: int) -> dict[str, int]:
        if ran is not None:
            ran.append(f"p{n}")
        sha = store.put_screen(picture(pictures[n])).sha256
        out.table("steps", pa.table({"text": [f"{content} {k}" for k in range(50)], "screenshot_sha256": [sha] * 50}))
        out.side("ids", f"{content}{n}".encode())
        return {"rows": 50}

    with store.build(asset, code_version="1", inputs=inputs, parts=specs) as build:
        rows = sum(
            build.run_part(spec, lambda out, n=n: write(out, n)).counts["rows"]  # type: ignore[misc]
            for n, spec in enumerate(specs)
        )
        return build.commit(counts={"rows": rows}, checks=checks or [])


def text_of(store: Store, manifest: Manifest) -> str:
    return (store.root(manifest.asset) / manifest.version / "manifest.json").read_text()


def objects_of(store: Store) -> set[str]:
    copies = copies_at(store.home)
    assert copies is not None
    return set(copies.objects.listing(""))
