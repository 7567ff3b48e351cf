"""Two mixtures of the same shards, and two judges of the same items, beside each other as two checkpoints are."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.prompts import prompt_text
from pipelines.store import Store, StoreError
from pipelines.store.manifest import Manifest
from pipelines.training_data.chat_turns import with_prompts
from pipelines.training_data.mixture import shards_of
from schemas.ids import item_sample, item_step
from trainer.modeling.batches import row_images
from trainer.stages.compared import SAMPLES, Comparison, DifferingSample, Figure, SideWords, picture_url
from trainer.statistics import over, paired

MIXTURES = SideWords("answer", "taken more often", "less often")
_NOTHING = np.zeros(0, np.int16)
VERDICTS = SideWords("data", "kept", "not kept")
MEASURES = ("kept", "score", "judged")
"""Of verdicts: the share that a judge keeps, its mean score as a share of 10, and the share that it has a score for."""
MEASURED = 20_000
"""Items of a kind that figures are of: the bootstrap takes memory by the item."""

Sides = tuple[str, str]
Pair = tuple[Manifest, Manifest]


def compare_mixtures(store: Store, stage: str, sides: Sides, versions: Pair) -> Comparison:
    """Token shares of two mixtures by objective, source, platform and action type (exact, so without intervals; `n`
    is the tokens that there are), and samples that they take a different number of times."""
    one, other = ({(row["group"], row["name"]): row for row in read.read("shares").to_pylist()} for read in versions)
    figures = []
    for group, name in dict.fromkeys((*one, *other)):
        both = [shares.get((group, name)) for shares in (one, other)]
        reached = [row["reached_share"] if row else 0.0 for row in both]
        count = [row["available_tokens"] if row else 0 for row in both]
        exact = [_exact(*pair) for pair in (*zip(reached, count, strict=True), (reached[1] - reached[0], min(count)))]
        # An objective that nothing is there of says nothing.
        if max(count):
            figures.append(Figure(group, name, exact[0], exact[1], exact[2]))
    taken = [_repeats_by_shard(read) for read in versions]
    unlike = [
        (shard, int(row), (int(first[row]), int(second[row])))
        for shard in sorted(taken[0].keys() | taken[1].keys())
        for first, second in [_alike([side.get(shard, _NOTHING) for side in taken])]
        for row in np.flatnonzero(first != second)
    ]
    samples = [_mixed(store, versions, *unlike[at]) for at in _evenly(len(unlike))]
    return Comparison(stage, sides, versions, tuple(figures), {}, tuple(samples), len(unlike), MIXTURES)


def _exact(mean: float, count: int) -> dict[str, Any]:
    return {"mean": mean, "low": None, "high": None, "n": count}


def _repeats_by_shard(mixture: Manifest) -> dict[str, np.ndarray]:
    """Shard → how often each of its rows trains in an epoch, up to the last that does."""
    found = {}
    for row in _scalars(mixture.read("mixture", columns=["shard", "rows", "repeats"])):
        rows = row["rows"].values.to_numpy()
        found[row["shard"].as_py()] = dense = np.zeros(int(rows.max(initial=-1)) + 1, np.int16)
        dense[rows] = row["repeats"].values.to_numpy()
    return found


def _alike(sides: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same lengths for both: rows behind the last that trains don't."""
    length = max(map(len, sides))
    return [np.pad(side, (0, length - len(side))) for side in sides]


def _scalars(table: Any) -> list[dict[str, Any]]:
    """Rows of Arrow's scalars: lists of a million numbers aren't made Python's one by one."""
    return [
        dict(zip(table.column_names, row, strict=True)) for row in zip(*(c for c in table.itercolumns()), strict=True)
    ]


def _evenly(count: int) -> list[int]:
    """At most `SAMPLES` places over all of `count`, so that no shard or source hides the others."""
    return sorted(set(np.linspace(0, count - 1, min(count, SAMPLES)).astype(int).tolist())) if count else []


def _mixed(store: Store, versions: Pair, shard: str, row: int, times: tuple[int, int]) -> DifferingSample:
    # By the side that takes it: the other one may have been made of other shards.
    [path] = shards_of(store, versions[0 if times[0] else 1], [shard])
    sample = _row_of(path, row)
    images = row_images(sample)
    return DifferingSample(
        str(sample["sample_id"]),
        prompt_text(sample["messages"])[-300:],
        str(sample["answer"]),
        (f"{times[0]} times an epoch", f"{times[1]} times an epoch"),
        (times[0] > times[1], times[1] > times[0]),
        picture_url(images[-1]) if images else "",
    )


def _row_of(path: Path, row: int) -> dict[str, Any]:
    """A row of a shard; reads the row group that holds it."""
    file, columns = pq.ParquetFile(path), ["sample_id", "messages", "answer", "images"]
    for group in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        if row < count:
            read = with_prompts(file.read_row_group(group, columns=columns).slice(row, 1))
            return dict(read.to_pylist()[0])
        row -= count
    raise StoreError(f"{path.name}: expected a row {row} more, found the file's end; build the mixture again")


def compare_verdicts(store: Store, stage: str, sides: Sides, versions: Pair) -> Comparison:
    """What two judges say of the items that both were asked about: how much each keeps, its scores, and items that one
    alone keeps, with both reasons."""
    columns = ["item_id", "score", "disposition", "reason"]
    one, other = (
        {row["item_id"]: row for row in read.read("verdicts", columns=columns).to_pylist()} for read in versions
    )
    # In the order of their ids, so that the choice of those that are measured is the same each time.
    both = sorted(one.keys() & other.keys())
    figures = []
    for kind in sorted({name.partition(":")[0] for name in both}):
        named = [name for name in both if name.startswith(f"{kind}:")]
        named = named[:: -(-len(named) // MEASURED)]
        first, second = ([_measured(side[name]) for name in named] for side in (one, other))
        figures += [_figure(kind, measure, first, second) for measure in MEASURES]
    unlike = [name for name in both if _kept(one[name]) != _kept(other[name])]
    shown = [unlike[at] for at in _evenly(len(unlike))]
    items = _items(store, versions, set(shown))
    samples = [_judged(store, items.get(name, {}), one[name], other[name]) for name in shown]
    return Comparison(stage, sides, versions, tuple(figures), {}, tuple(samples), len(unlike), VERDICTS)


def _kept(verdict: Mapping[str, Any]) -> bool:
    return bool(verdict["disposition"] == "keep")


def _measured(verdict: Mapping[str, Any]) -> dict[str, Any]:
    name, score = verdict["item_id"], verdict["score"]
    return {
        "kept": float(_kept(verdict)),
        "score": None if score is None else score / 10,
        "judged": float(score is not None),
        # Steps of an episode aren't independent of each other.
        "cluster": name.rpartition("/")[0] if name.startswith("step:") else name,
    }


def _figure(kind: str, measure: str, first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> Figure:
    """Over the items that both have the measure of: where one abstains, neither score counts."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if None not in (a[measure], b[measure])]
    one, other = ([pair[side] for pair in pairs] for side in (0, 1))
    gap = paired([b[measure] for b in other], [a[measure] for a in one], [a["cluster"] for a in one]).plain()
    return Figure(kind, measure, over(one, measure, "cluster"), over(other, measure, "cluster"), gap)


def _items(store: Store, versions: Pair, wanted: Collection[str]) -> dict[str, dict[str, Any]]:
    """Item id → its row of steps or samples, as it was judged; without those of versions that were collected."""
    asset, version = next((a, v) for a, v in versions[1].inputs.items() if a.startswith("unified/"))
    try:
        unified = store.version(asset, version)
    except StoreError:
        return {}
    found = {}
    for table in ("steps", "samples"):
        for path in unified.paths(table):
            rows = pq.read_table(path)
            # Few of many: looked for by column, not by a row at a time.
            key, names = ("sample_id", [n.removeprefix("sample:") for n in wanted if n.startswith("sample:")])
            if table == "steps":
                source = asset.partition("/")[2]
                steps = [n.removeprefix(f"step:{source}/") for n in wanted if n.startswith("step:")]
                key, names = "episode_id", [n.rpartition("/")[0] for n in steps]
            for row in rows.filter(pc.is_in(rows[key], pc.unique(pc.cast(names, "string")))).to_pylist():
                name = item_sample(row["sample_id"]) if key == "sample_id" else _step(row)
                if name in wanted:
                    found[name] = row
    return found


def _step(row: Mapping[str, Any]) -> str:
    return item_step(row["source"], row["episode_id"], row["step_index"])


def _judged(store: Store, row: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any]) -> DifferingSample:
    asked = prompt_text(row["messages"]) if "messages" in row else row.get("step_instruction") or row.get("instruction")
    screens = row.get("images") or [row.get("screenshot_sha256")]
    try:
        picture = picture_url(store.screen_bytes(screens[-1])) if screens[-1] else ""
    # Collected, or taken down since: the words of both judges stand without it.
    except StoreError:
        picture = ""
    first, second = (f"{verdict['score']} {verdict['disposition']}: {verdict['reason']}" for verdict in (one, other))
    return DifferingSample(
        str(one["item_id"]),
        str(asked or one["item_id"])[-300:],
        str(row.get("answer") or row.get("action_text") or ""),
        (first, second),
        (_kept(one), _kept(other)),
        picture,
    )
