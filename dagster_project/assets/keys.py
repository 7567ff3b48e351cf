"""Keys of stages as Dagster has them."""

import dagster as dg


def asset_key(key: str) -> dg.AssetKey:
    """`unified/aitw` → AssetKey(["unified", "aitw"])."""
    return dg.AssetKey(key.split("/"))
