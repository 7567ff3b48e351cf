"""The truth of what refinement built from a corpus: whether each gold item is what the world says it should be.

A step is true if it stands on the screen of the sound trace, hits the same element (or types, scrolls, opens the same),
follows the kept step before it as in the sound trace, and its instruction is the trace's own, or one that the world's
oracle carries out to the same state and that names no less. What can't be verified counts as low.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from quality.items.item import provenance
from schemas.action_types import Click, Scroll
from schemas.actions import Action, direction_of, parse
from schemas.coordinates import contains, iou
from schemas.ids import item_episode, item_sample, item_step, split_json_lines

Row = Mapping[str, Any]
Both = tuple[list[Row], list[Row]]
Accepts = Callable[[Row, str], bool]
"""(line of `episodes.jsonl`, rewritten instruction) → whether the oracle, given it, reaches the trace's end state."""
SAME_BOX = 0.5
CREDENTIAL = "credential: "
"""In the reason of a reject (`quality.judges.cleaning`)."""


@dataclass(frozen=True)
class Verified:
    """`planted`: share of items that belong to something damaged. `before`, `after`: share of items that are true,
    in the corpus and in gold (in a damaged trace single steps may be true: those before the first error). `clean_kept`:
    share of the sound items that are in gold and true, those aside that are `withheld`: sound ones that hold a password
    or key, which no corpus keeps whatever a judge says of them. `whole_kept`: the same share of those alone that stand
    in no damaged trace: a damaged one may lose sound steps with its bad one, whose goal or end no longer fits."""

    items: int
    gold: int
    planted: float
    before: float
    after: float
    clean_kept: float
    whole_kept: float
    withheld: int
    left: dict[str, int]
    """Defect → untrue items of it in gold."""
    repaired: dict[str, int]
    """Defect → items that are true in gold though they were damaged."""
    true: dict[str, bool]
    """Gold item (without its version) → whether it is true."""

    def as_json(self) -> dict[str, Any]:
        """The figures, without the items."""
        return {name: value for name, value in asdict(self).items() if name != "true"}


def verify(corpus: Path, gold: Path, accepts: Accepts | None = None) -> Verified:
    """Compare gold tables (`vesper refine`) with a corpus of `generators.proving.judge_bench.build`.

    `accepts` runs the worlds' oracles on rewritten instructions; None = none is accepted. Raises `ValueError` for
    folders that aren't these.
    """
    truth, episodes, (steps, samples), (retained, kept_samples) = _read(corpus, gold)
    damage = _damage(steps, samples, truth)
    true = dict(_true_steps(retained, episodes, accepts)) | dict(_true_samples(kept_samples, samples, truth))
    # Without `accepts`: a corpus holds no rewritten instructions before refinement.
    first = dict(_true_steps(steps, episodes, None)) | dict(_true_samples(samples, samples, truth))
    left: dict[str, int] = defaultdict(int)
    repaired: dict[str, int] = defaultdict(int)
    for item_id, is_true in true.items():
        kind = damage.get(item_id, "")
        if not is_true:
            left[kind or "sound"] += 1
        elif kind:
            repaired[kind] += 1
    withheld = _withheld(gold)
    sound = [item_id for item_id in damage if not damage[item_id] and item_id not in withheld]
    planted = sum(bool(kind) for kind in damage.values())
    # One damaged step breaks its whole trace, for `whole_kept` only.
    broken = {_trace_of(item_id) for item_id in damage if damage[item_id]}
    whole = [item_id for item_id in sound if _trace_of(item_id) not in broken]
    return Verified(
        len(damage),
        len(true),
        planted / len(damage),
        sum(first.values()) / len(first),
        sum(true.values()) / len(true) if true else 0.0,
        _share(true, sound),
        _share(true, whole),
        sum(not damage.get(item_id, "x") for item_id in withheld),
        dict(sorted(left.items())),
        dict(sorted(repaired.items())),
        true,
    )


def _trace_of(item_id: str) -> str:
    """What the steps of a trace have in common; a sample is by itself."""
    return item_id.rpartition("/")[0] or item_id


def _share(true: Mapping[str, bool], items: Sequence[str]) -> float:
    return sum(true.get(item_id, False) for item_id in items) / len(items) if items else 0.0


def _read(corpus: Path, gold: Path) -> tuple[dict[str, Row], dict[str, Row], Both, Both]:
    """(truth by item, episodes by id, steps and samples of the corpus, and of its gold). Raises `ValueError`."""
    try:
        episodes: dict[str, Row] = {row["episode_id"]: row for row in _lines(corpus / "episodes.jsonl")}
        truth: dict[str, Row] = {row["item_id"]: row for row in pq.read_table(corpus / "truth.parquet").to_pylist()}
        return truth, episodes, _tables(corpus), _tables(gold)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"verify: expected a corpus in {corpus} and its gold in {gold}: {error}") from error


def _withheld(gold: Path) -> set[str]:
    """Items that cleaning keeps out of every corpus because they hold a credential, true or not."""
    path = gold / "rejects.parquet"
    rows = pq.read_table(path, columns=["item_id", "reason"]).to_pylist() if path.is_file() else []
    # Rejects carry a version after "@"; the truth doesn't.
    return {row["item_id"].partition("@")[0] for row in rows if CREDENTIAL in row["reason"]}


def _tables(folder: Path) -> Both:
    steps, samples = (pq.read_table(folder / f"{name}.parquet").to_pylist() for name in ("steps", "samples"))
    return steps, samples


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in split_json_lines(path.read_text(encoding="utf-8")):
        yield json.loads(line)


def _damage(steps: Sequence[Row], samples: Sequence[Row], truth: Mapping[str, Row]) -> dict[str, str]:
    """Item → its defect, "" for sound ones; a defect of a whole trace damages all of its steps."""
    found: dict[str, str] = {}
    for row in steps:
        item_id = item_step(row["source"], row["episode_id"], row["step_index"])
        labels = [truth.get(item_id), truth.get(item_episode(row["source"], row["episode_id"]))]
        # A step's own defect is named before its episode's.
        bad = [label["kind"] for label in labels if label is not None and label["label"] in ("planted", "natural")]
        found[item_id] = bad[0] if bad else ""
    for row in samples:
        item_id = item_sample(row["sample_id"])
        label = truth.get(item_id)
        if label is not None:  # one that was moved with the others and still lies on its element is neither
            found[item_id] = label["kind"] if label["label"] == "planted" else ""
    return found


def _true_steps(
    rows: Sequence[Row], episodes: Mapping[str, Row], accepts: Accepts | None
) -> Iterator[tuple[str, bool]]:
    """Item id and truth of every gold step with an action."""
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["action_text"] is not None:
            grouped[row["episode_id"]].append(row)
    for name, retained in grouped.items():
        episode = episodes[name]
        said = {}
        # Once for each wording: the oracle performs a whole trace for it.
        for text in {str(row["instruction"]) for row in retained}:
            said[text] = text == episode["goal"] or (accepts is not None and accepts(episode, text))
        before: tuple[int, int] | None = None
        broken = False
        for row in sorted(retained, key=lambda row: row["step_index"]):
            index = int(row["step_index"])
            at = _place(row, episode["sound"], before[1] + 1 if before else 0)
            # Only between neighbours: where steps were cut out between
            # them, a gap in the sound trace is right.
            if before is not None and index == before[0] + 1:
                broken = broken or (at is not None and at != before[1] + 1)
            item_id = item_step(row["source"], name, index)
            yield item_id, at is not None and not broken and said[str(row["instruction"])]
            # An untrue step still takes its place, so that the next one is looked for where it would stand.
            before = (index, at if at is not None else (before[1] + 1 if before else 0))


def _place(row: Row, sound: Sequence[Row], expected: int) -> int | None:
    """Which step of the sound trace a row is, the expected one first; None if it is none of them."""
    # The expected step first: a screen may occur twice in a trace, with the same action on it.
    order = [expected, *(at for at in range(len(sound)) if at != expected)]
    action = parse(row["action_text"])
    for at in order:
        if at >= len(sound) or sound[at]["screenshot"] != row["screenshot_sha256"]:
            continue
        if _same(action, sound[at]) and (row["thought"] or "") in ("", sound[at]["thought"]):
            return at
    return None


def _same(action: Action, sound: Row) -> bool:
    """Whether an action does what the sound step did."""
    right = parse(sound["action"])
    if type(action) is not type(right):
        return False
    # A click is true anywhere within the element: its centre is one of many right points.
    if isinstance(action, Click) and sound["box"] is not None:
        return contains(sound["box"], action.box)
    # How far is not compared: distances differ between sources, the direction is what was meant.
    if isinstance(action, Scroll) and isinstance(right, Scroll):
        return direction_of(action) == direction_of(right)
    return action == right


def _true_samples(gold: Sequence[Row], samples: Sequence[Row], truth: Mapping[str, Row]) -> Iterator[tuple[str, bool]]:
    """Item id and truth of every native gold sample: its box is the element's."""
    native = {row["sample_id"]: row for row in samples}
    for row in gold:
        first = native.get(row["sample_id"])
        if first is None or "native_index" not in provenance(row):
            continue
        label = truth.get(item_sample(row["sample_id"]))
        if label is None:
            continue  # moved with the others, but still on its element: neither true nor untrue
        # Truth holds the box from before it was moved; without one the corpus's own is the right one.
        right = json.loads(label["original"]).get("box") or first["target_boxes"][0]
        yield item_sample(row["sample_id"]), iou(right, row["target_boxes"][0]) >= SAME_BOX
