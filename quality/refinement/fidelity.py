"""High-fidelity share before and after refinement: by the judge, and by the planted truth.

The truth (`$VESPER_HOME/raw/_truth/<source>.jsonl`) is written by the generator of the embedded data and read here
alone, for the report; no stage sees it. An item is found by the native id of its record and its native index, both in
the provenance. Lines with `low_fidelity: false` (unreadable items, copies) say nothing about fidelity and are left out.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pipelines.store import Store
from pipelines.store.manifest import Manifest
from quality.evidence.samples import expression_of
from quality.evidence.words import holds, plain
from quality.items.item import Row, Sample, provenance
from quality.items.screens import ScreenBank
from quality.judges.judge import KEEP_FROM
from schemas.action_types import Finished, Launch, Scroll, Type, scroll_direction
from schemas.actions import parse
from schemas.coordinates import OffScreen, box_to_unit, contains
from schemas.ids import item_sample, item_step, split_json_lines
from schemas.tables import Samples, Screens, Steps, Verdicts

Key = tuple[str, int | None]
SAME_POINT = 20.0
"""Units: a true point without a true box is met within this distance (on a 360 px screen about 7 px)."""


@dataclass
class KindScore:
    """One planted kind: items planted, of them found (judged below 7 in round 0), left as they were in gold, and
    repaired to the original."""

    planted: int = 0
    found: int = 0
    left_in_gold: int = 0
    repaired: int = 0

    @property
    def recall(self) -> float | None:
        return self.found / self.planted if self.planted else None


@dataclass
class Fidelity:
    """Shares in 0..1, None where there is nothing to count.

    `judge_before` = items judged ≥ 7 in round 0 ÷ judged items; `judge_after` = gold ÷ what the pool still holds (see
    `quality.refinement.gold.summary`). `truth_before` = truly clean ÷ native items; `truth_after` = truly clean ÷ gold
    items. `precision` = truly bad ÷ judged below 7; `false_alarms` = truly clean judged below 7 ÷ truly clean.
    """

    source: str
    items: int
    gold: int
    judge_before: float | None
    judge_after: float | None
    truth_before: float | None = None
    truth_after: float | None = None
    precision: float | None = None
    recall: float | None = None
    false_alarms: float | None = None
    gold_yield: float | None = None
    kinds: dict[str, KindScore] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain data for a report."""
        plain_self = asdict(self)
        plain_self["kinds"] = {name: {**asdict(kind), "recall": kind.recall} for name, kind in self.kinds.items()}
        return plain_self


@dataclass(frozen=True)
class FidelityDefect:
    """A truth line that concerns fidelity."""

    defect: str
    original: Mapping[str, Any]


class SourceTruth:
    """The planted defects of a source. Raises `ValueError` on a line that isn't one."""

    def __init__(self, path: Path) -> None:
        self._items: dict[Key, FidelityDefect] = {}
        for number, line in enumerate(split_json_lines(path.read_text(encoding="utf-8")), 1):
            try:
                entry = json.loads(line)
                key = (str(entry["record"]), entry["item"])
                planted = FidelityDefect(entry["defect"], entry["original"])
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path.name}:{number}: expected a truth line, found {line[:80]!r}") from error
            # Unreadable items and copies were planted as well, and say nothing about fidelity.
            if entry.get("low_fidelity", True):
                self._items[key] = planted

    def of(self, row: Row) -> FidelityDefect | None:
        """What was planted on the native item of a row, itself or with its whole record."""
        where = provenance(row)
        record, index = str(where.get("record")), where.get("native_index")
        # The item itself, else a defect of its whole record.
        return self._items.get((record, index)) or self._items.get((record, None))


def fidelity(store: Store, source: str, truth_path: Path | None = None) -> Fidelity:
    """Compare a source's judge with the truth. Without a truth file the truth figures are None.

    Raises `StoreError` unless unified, verdicts and gold are committed.
    """
    unified = store.require(f"unified/{source}")
    verdicts, gold = store.require(f"verdicts/{source}"), store.require(f"gold/{source}")
    counts = gold.counts
    result = Fidelity(
        source,
        counts["items"],
        counts["gold"],
        counts["share_before"],
        counts["share_after"],
        gold_yield=counts["yield"],
    )
    if truth_path is not None and truth_path.exists():
        _compare(result, SourceTruth(truth_path), unified, verdicts, gold, store)
    return result


def _compare(
    result: Fidelity, truth: SourceTruth, unified: Manifest, verdicts: Manifest, gold: Manifest, store: Store
) -> None:
    scores = {row["item_id"]: row["score"] for row in verdicts.read("verdicts", Verdicts.schema).to_pylist()}
    tally: Counter[str] = Counter()
    for item_id, row in _native_rows(unified):
        planted, score = truth.of(row), scores.get(item_id)
        flagged = score is not None and score < KEEP_FROM
        tally["items"] += 1
        tally["bad"] += planted is not None
        tally["flagged"] += flagged
        tally["hits"] += flagged and planted is not None
        if planted is not None:
            kind = result.kinds.setdefault(planted.defect, KindScore())
            kind.planted += 1
            kind.found += flagged
    # Pictures are opened by their size alone here: to turn true pixels into units.
    bank = ScreenBank(unified.read("screens", Screens.schema), store)
    ended = _records_that_end(gold)
    for _, row in _native_rows(gold):
        planted = truth.of(row)
        tally["gold"] += 1
        # An item without a planted defect is clean, whatever was done to it.
        if planted is None:
            tally["gold_clean"] += 1
        elif equals_original(row, planted, bank, ended):
            tally["gold_clean"] += 1
            result.kinds[planted.defect].repaired += 1
        else:
            result.kinds[planted.defect].left_in_gold += 1
    clean = tally["items"] - tally["bad"]
    result.truth_before = _share(clean, tally["items"])
    result.truth_after = _share(tally["gold_clean"], tally["gold"])
    result.precision = _share(tally["hits"], tally["flagged"])
    result.recall = _share(tally["hits"], tally["bad"])
    result.false_alarms = _share(tally["flagged"] - tally["hits"], clean)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _native_rows(manifest: Manifest) -> Iterator[tuple[str, Row]]:
    """Rows that stand for a native item: steps with an action and samples that weren't derived."""
    for row in manifest.read("steps", Steps.schema).to_pylist():
        if row["action_text"] is not None and provenance(row).get("native_index") is not None:
            yield item_step(row["source"], row["episode_id"], row["step_index"]), row
    for row in manifest.read("samples", Samples.schema).to_pylist():
        if provenance(row).get("native_index") is not None:
            yield item_sample(row["sample_id"]), row


def _records_that_end(gold: Manifest) -> set[str]:
    """Records of which a Finished is in gold."""
    return {
        str(provenance(row).get("record"))
        for row in gold.read("steps", Steps.schema).to_pylist()
        if row["action_type"] == "Finished"
    }


def equals_original(row: Row, planted: FidelityDefect, bank: ScreenBank, ended: set[str]) -> bool:
    """Whether a gold row is what it was before the defect was planted.

    Points are equal if the point lies in the true element's box; text and directions must be the same. A screenshot
    that was exchanged is lost with the defect, so such an item never counts as repaired. A prefix of a trace that
    stopped early equals the original once it no longer claims to be finished.
    """
    # A trace that stopped early needs no repair to be true: it need only not claim to be finished.
    if not provenance(row).get("repairs"):
        return planted.defect == "premature_finish" and _has_not_ended(row, ended)
    if planted.defect == "premature_finish":
        return _has_not_ended(row, ended)
    original = planted.original
    if "goal" in original:
        return _same_goal(str(row["instruction"]), original)
    # The right screenshot is lost with the defect, so nothing can restore it.
    if planted.defect == "off_by_one_screenshot":
        return False
    if "action_text" in row:
        return _same_action(row, original)
    return _same_sample(row, original, bank)


def _has_not_ended(row: Row, ended: set[str]) -> bool:
    return str(provenance(row).get("record")) not in ended


def _same_goal(instruction: str, original: Mapping[str, object]) -> bool:
    if plain(instruction) == plain(str(original["goal"])):
        return True
    true, untrue = plain(str(original.get("true", ""))), plain(str(original.get("untrue", "")))
    text = f" {plain(instruction)} "
    # A goal in other words is right if it has the true value and not the planted one.
    return bool(true) and f" {true} " in text and f" {untrue} " not in text


def _same_action(row: Row, original: Mapping[str, object]) -> bool:
    action = parse(row["action_text"])
    # A step too many is right only when it is gone.
    if original.get("extra_step"):
        return False
    if isinstance(action, Type):
        return action.content == original.get("text")
    if isinstance(action, Launch):
        return original.get("text") in (action.app, action.url)
    if isinstance(action, Scroll):
        word = action.direction or scroll_direction(action.start, action.end)  # type: ignore[arg-type]
        return word == original.get("direction")
    if isinstance(action, Finished):
        return original.get("kind") == "done"
    point = getattr(action, "box", None)
    size = (row["width_px"], row["height_px"])
    return point is not None and None not in size and _same_point(point, original, size)


def _same_point(point: tuple[int, int], original: Mapping[str, Any], size: tuple[int, int]) -> bool:
    box, true = original.get("box"), original.get("point")
    # No true box: a point near the true one is as good.
    if box is None and true is not None:
        reach_x, reach_y = SAME_POINT * size[0] / 1000, SAME_POINT * size[1] / 1000
        box = (true[0] - reach_x, true[1] - reach_y, true[0] + reach_x, true[1] + reach_y)
    if box is None:
        return False
    try:
        left, top, right, bottom = box_to_unit(tuple(box), size)
    except OffScreen:
        return False
    # One unit for rounding.
    return contains((left - 1, top - 1, right + 1, bottom + 1), point)


def _same_sample(row: Row, original: Mapping[str, Any], bank: ScreenBank) -> bool:
    """Every field that the truth line gives must agree: box, expression, question, answer."""
    checks: list[bool] = []
    screens = [screen for sha in row["images"] if (screen := bank.screen(sha)) is not None]
    sample = Sample(row, "", screens, bank)
    if original.get("box") is not None:
        size = bank.size(row["images"][0]) if row["images"] else None
        checks.append(
            size is not None and bool(row["target_boxes"]) and _same_box(row["target_boxes"][0], original["box"], size)
        )
    requested = [str(original[name]) for name in ("expression", "text", "instruction", "name") if original.get(name)]
    if requested and row["objective"] == "grounding":
        checks.append(any(holds(text, expression_of(sample)) for text in requested))  # an adapter may drop "click on"
    answer = original.get("answer", original.get("text"))
    if answer and row["objective"] in ("vqa", "perception"):
        checks.append(plain(str(answer)) == plain(row["answer"]))
    return bool(checks) and all(checks)


def _same_box(found: list[float], true_px: list[float], size: tuple[int, int]) -> bool:
    """Each side within 1 % of the screen."""
    try:
        true = box_to_unit(tuple(true_px), size)  # type: ignore[arg-type]
    except OffScreen:
        return False
    return all(abs(one - two) <= 10 for one, two in zip(found, true, strict=True))
