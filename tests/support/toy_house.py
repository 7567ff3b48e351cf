"""A code location with two sources of one asset each and the shipped sensor that starts the corpus after them."""

from __future__ import annotations

import dagster as dg

from dagster_project.automation.corpus_after_refresh import corpus_sensor


@dg.asset(key=["gold", "one"])
def one() -> None: ...


@dg.asset(key=["gold", "two"])
def two() -> None:
    raise dg.Failure("this source is broken")


@dg.asset(key=["mid_training", "shards"], deps=[dg.AssetKey(["gold", "one"]), dg.AssetKey(["gold", "two"])])
def shards() -> None: ...


refresh = dg.define_asset_job("refresh_sources", dg.AssetSelection.assets(["gold", "one"], ["gold", "two"]))
corpus = dg.define_asset_job("build_corpus", dg.AssetSelection.assets(["mid_training", "shards"]))


@dg.definitions
def defs() -> dg.Definitions:
    sensors = [corpus_sensor(refresh, corpus)]
    return dg.Definitions([one, two, shards], jobs=[refresh, corpus], sensors=sensors, executor=dg.in_process_executor)
