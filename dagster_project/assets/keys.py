"""Keys of stages as Dagster has them."""

from __future__ import annotations

import dagster as dg


def asset_key(key: str) -> dg.AssetKey:
    """`unified/aitw` → AssetKey(["unified", "aitw"])."""
    return dg.AssetKey(key.split("/"))
