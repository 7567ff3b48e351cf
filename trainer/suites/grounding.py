"""Grounding benchmarks: point in box (borders included), point in polygon, refusal; beside what needs no sight.

A hit is scored as the authors score it: the point lies in the target box, borders included; where the target is a
polygon (OSWorld-G), in it or on its border; where the element isn't there, the reply is [-1,-1]. Every figure has a
95 % interval (bootstrap over screens), and stands beside

* `blind`: the usual place of these words in the *training* data (`trainer.evaluation.controls.BlindTable`), if that is
  given;
* `blind_suite`: the mean place of the benchmark's own targets on *other* screens, by words, else by platform: what its
  layout habits alone are worth;
* `random_element`: the chance of a random one of the screen's annotated elements (the target's area where it is alone);
* `swapped`: the same model asked the same on another screen of the benchmark.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from pipelines.mapping.adapter import Raw
from pipelines.prompts import grounding_text, messages
from pipelines.store.images import image_size
from schemas.action_types import REFUSED
from schemas.actions import parse_reply
from schemas.coordinates import centre, contains
from trainer.evaluation.controls import BlindTable, random_element, swap_screens
from trainer.modeling.generation import GROUNDING_TOKENS
from trainer.rl.reply_forms import Frame, ReplyPoint, frame_of, in_thousandths, read_point
from trainer.rl.rewards import ReplyTarget, r_format
from trainer.rl.unreadable import unreadable_figures
from trainer.runtime.tracking import OnEvent
from trainer.statistics import difference, interval, macro_interval, over
from trainer.suites.answering import Answerer, SuiteAnswer
from trainer.suites.reading import Benchmark, GroundingQuestion, Read, questions

CONTROLS = ("blind", "blind_suite", "random_element", "swapped")


@dataclass(frozen=True, slots=True)
class GroundingConfig:
    """`limit`: at most so many questions, chosen by hash; `chunk`: questions (with pictures) in memory at once;
    `frame`: what the model's numbers count (None: found from its replies, see `trainer.rl.reply_forms`)."""

    limit: int | None = None
    seed: int = 0
    swapped: bool = True
    chunk: int = 128
    max_new_tokens: int = GROUNDING_TOKENS
    frame: Frame | None = None

    def __post_init__(self) -> None:
        if self.chunk < 2 or self.max_new_tokens < 1:
            raise ValueError(f"grounding: expected a chunk of 2 or more and 1 or more new tokens, found {self}")


def evaluate_grounding(
    benchmark: Benchmark,
    raw: Raw,
    answers: Answerer,
    config: GroundingConfig | None = None,
    *,
    blind: BlindTable | None = None,
    on_event: OnEvent | None = None,
    progress: bool = False,
) -> dict[str, object]:
    """Native files → `{"suite", "title", "summary", "read", "records", "config"}` (see `summarise`).

    A record holds a question's id, labels, screen, reply, `hit`, `format`, and its controls; a question without a reply
    (`why`) isn't scored but counted under `not_answered`. Raises `ValueError` where no question can be asked.
    """
    from tqdm import tqdm

    config = config or GroundingConfig()
    read = Read()
    records: list[dict[str, Any]] = []
    waiting = questions(benchmark, raw, read, config.limit, config.seed)
    with tqdm(desc=benchmark.name, unit="question", disable=not progress, mininterval=2) as bar:
        while chunk := list(islice(waiting, config.chunk)):
            records += list(_ask(benchmark, chunk, answers, config, blind))
            bar.update(len(chunk))
            if on_event:
                on_event({"kind": "suite", "suite": benchmark.name, "done": len(records)})
    if not records:
        raise ValueError(f"{benchmark.name}: none of the rows can be asked: {dict(read.not_asked)}")
    frame = _score(records, config.frame)
    _elements(records)
    _usual_places(records)
    return {
        "suite": benchmark.name,
        "title": benchmark.title,
        "policy": answers.name,
        "read": read.plain(),
        "summary": summarise(records, benchmark) | {"frame": frame},
        "records": records,
        "config": asdict(config),
    }


def row_of(benchmark: Benchmark, question: GroundingQuestion) -> dict[str, object]:
    """A question as a row like those of the shards; the answer stays empty."""
    return {
        "sample_id": question.id,
        "source": benchmark.name,
        "platform": question.platform,
        "objective": "grounding",
        "goal": question.instruction,
        "messages": messages("grounding", grounding_text(question.instruction)),
        "images": [question.picture],
        "answer": "",
    }


def _ask(
    benchmark: Benchmark,
    chunk: Sequence[GroundingQuestion],
    answers: Answerer,
    config: GroundingConfig,
    blind: BlindTable | None,
) -> Iterator[dict[str, Any]]:
    rows = [row_of(benchmark, question) for question in chunk]
    others = swap_screens(rows) if config.swapped else [None] * len(rows)
    # Both in one call, so that batches are full.
    asked = [*rows, *(row for row in others if row is not None)]
    replies = answers(asked, config.max_new_tokens)
    if len(replies) != len(asked):
        raise RuntimeError(f"{answers.name}: expected {len(asked)} answers, found {len(replies)}")
    swapped = iter(replies[len(rows) :])
    # `rows` are answered first, the swapped screens after them.
    for question, row, other, reply in zip(chunk, rows, others, replies, strict=False):
        wrong = next(swapped) if other is not None else SuiteAnswer("", "no_other_screen")
        record = {
            "id": question.id,
            "instruction": question.instruction,
            "screen": question.screen,
            "platform": question.platform,
            "labels": {k: list(v) for k, v in question.labels.items()},
            "box": None if question.box is None else list(question.box),
            "polygon": [list(p) for p in question.polygon],
            "refusal": float(question.refusal),
            "reply": reply.raw,
            "why": reply.why,
            "size_px": image_size(question.picture),
            "read": None if reply.why else _numbers(read_point(reply.text)),
            # a profile has judged the form already: what it could read has it
            "format": None if reply.why else float(bool(reply.text)) if reply.profiled else well_formed(reply.text),
            "swapped_read": None if wrong.why else _numbers(read_point(wrong.text)),
            "swapped_why": wrong.why,
        }
        if blind is not None:
            point = parse_reply(blind.reply(row)).point
            record["blind"] = float(right(point, question.box, question.polygon, question.refusal))
        yield record


def _numbers(point: ReplyPoint | None) -> list[Any] | None:
    return None if point is None else [point.x, point.y, point.form, point.refused]


def _score(records: Sequence[dict[str, Any]], frame: Frame | None) -> Frame:
    """Fill in `hit`, `refused_it` and `swapped`: what the model's numbers count is known once all replies are there.
    Returns the frame."""
    said = [None if r["read"] is None else ReplyPoint(*r["read"]) for r in records]
    # one reply may be ambiguous; all together show what the numbers count
    frame = frame or frame_of(said, [record["size_px"] for record in records])
    for record, point in zip(records, said, strict=True):
        found = None if point is None else in_thousandths(point, frame, record["size_px"])
        record["hit"] = None if record["why"] else _right(found, record)
        record["refused_it"] = found == REFUSED
        other = record.pop("swapped_read")
        swapped = None if other is None else in_thousandths(ReplyPoint(*other), frame, record["size_px"])
        record["swapped"] = None if record.pop("swapped_why") else _right(swapped, record)
    return frame


def _right(point: tuple[float, float] | None, record: Mapping[str, Any]) -> float:
    return float(right(point, record["box"], record["polygon"], bool(record["refusal"])))


def right(
    point: tuple[float, float] | None, box: Sequence[float] | None, polygon: Sequence[Sequence[float]], refusal: bool
) -> bool:
    """Whether a point (0..1000, or (-1, -1)) is right for a box, a polygon (which wins) or a refusal."""
    if point is None:
        return False
    # A point is wrong where refusing is right, and a refusal wrong where a point is.
    if refusal or point == REFUSED:
        return refusal and point == REFUSED
    if polygon:
        return in_polygon(point, polygon)
    return box is not None and contains(list(box), point)


def in_polygon(point: tuple[float, float], polygon: Sequence[Sequence[float]]) -> bool:
    """Even-odd rule, borders included (a point on an edge or a corner is inside)."""
    x, y = point
    inside = False
    for (x1, y1), (x2, y2) in zip(polygon, [*polygon[1:], polygon[0]], strict=True):
        # twice the area of the triangle: 0 on the line through both corners
        cross = (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)
        within = min(x1, x2) <= x <= max(x1, x2) and min(y1, y2) <= y <= max(y1, y2)
        if within and abs(cross) <= 1e-9 * max(1.0, abs(x2 - x1) + abs(y2 - y1)):
            return True
        # half-open in y, so that a corner between two edges is crossed once
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) * (x2 - x1) / (y2 - y1):
            inside = not inside
    return inside


def well_formed(reply: str) -> float:
    """1 if a reply is a point `[x,y]` and nothing else."""
    return r_format(reply, ReplyTarget("grounding", boxes=((0.0, 0.0, 0.0, 0.0),)))


def _elements(records: Sequence[dict[str, Any]]) -> None:
    """Fill in `random_element`, the screen's elements being all targets that the benchmark has on it."""
    known: dict[str, set[tuple[float, ...]]] = defaultdict(set)
    for record in records:
        if record["box"] is not None:
            known[record["screen"]].add(tuple(record["box"]))
    for record in records:
        if record["refusal"]:
            record["random_element"], record["elements"] = 0.0, len(known[record["screen"]])
            continue
        elements = sorted(known[record["screen"]])
        record["elements"] = len(elements)
        # a target that is alone would be hit for certain: its area counts instead
        record["random_element"] = random_element([record["box"]], elements if len(elements) > 1 else [])


class _Places:
    """Sums of target places over screens, from which any one screen's share can be taken out."""

    def __init__(self) -> None:
        self.whole = [0.0, 0.0, 0, 0]  # x, y, targets, refusals
        self.own: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0, 0])

    def add(self, record: Mapping[str, Any]) -> None:
        x, y = (0.0, 0.0) if record["refusal"] else centre(record["box"])
        for sums in (self.whole, self.own[record["screen"]]):
            for place, value in enumerate((x, y, 1 - record["refusal"], record["refusal"])):
                sums[place] += value

    def without(self, screen: str) -> tuple[float, float] | None:
        """Mean place on other screens; (-1, -1) if most were refusals; None if there is nothing."""
        x, y, count, refused = (a - b for a, b in zip(self.whole, self.own.get(screen, [0.0] * 4), strict=True))
        # sums of whole numbers, compared with a half against rounding
        if count + refused < 0.5:
            return None
        return REFUSED if refused > count else (x / count, y / count)


def _usual_places(records: Sequence[dict[str, Any]]) -> None:
    """Fill in `blind_suite` (see the module)."""
    tables: dict[tuple[str, ...], _Places] = defaultdict(_Places)
    for record in records:
        for key in _keys(record):
            tables[key].add(record)
    for record in records:
        found = (tables[key].without(record["screen"]) for key in _keys(record))
        # from the same words on this platform to anything anywhere
        point = next((place for place in found if place is not None), None)
        record["blind_suite"] = float(right(point, record["box"], record["polygon"], bool(record["refusal"])))


def _keys(record: Mapping[str, Any]) -> list[tuple[str, ...]]:
    words = record["instruction"].casefold()
    return [("words", record["platform"], words), ("words", words), ("platform", record["platform"]), ("all",)]


def summarise(records: Sequence[Mapping[str, object]], benchmark: Benchmark) -> dict[str, object]:
    """Intervals over the questions that were answered: `headline` (what the benchmark is known by), `all`, `present`
    (the element is there), `absent` (refusals), `format`; `breakdown` by the authors' labels; `controls`, and paired
    differences to them, over present elements."""
    answered = [record for record in records if record["hit"] is not None]
    there = [record for record in answered if not record["refusal"]]
    return {
        "headline": _headline(answered, benchmark),
        "headline_of": benchmark.headline or "all questions",
        "all": over(answered, "hit", "screen"),
        "present": over(there, "hit", "screen"),
        "absent": over([record for record in answered if record["refusal"]], "hit", "screen"),
        "refused": _refusals(there),
        "format": over(answered, "format", "screen"),
        **unreadable_figures([(str(r["reply"]), r["read"] is None) for r in answered], benchmark.name),
        "forms": dict(Counter(str(read[2]) for record in answered if isinstance(read := record["read"], list))),
        "breakdown": {" x ".join(names): _breakdown(answered, names) for names in benchmark.breakdowns},
        "mean_of_cells": {" x ".join(names): _macro(answered, names) for names in benchmark.breakdowns[:1]},
        "controls": {name: over(there, name, "screen") for name in CONTROLS},
        "minus_controls": {name: difference(there, "hit", name, "screen") for name in CONTROLS},
        "screens": len({record["screen"] for record in answered}),
        "questions": len(answered),
        "not_answered": len(records) - len(answered),
    }


def _headline(records: Sequence[Mapping[str, object]], benchmark: Benchmark) -> dict[str, Any]:
    return over(records, "hit", "screen") if benchmark.headline is None else _macro(records, (benchmark.headline,))


def _macro(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    pairs = [(record, cell) for record in records for cell in cells(record, names)]
    found = macro_interval([r["hit"] for r, _ in pairs], [cell for _, cell in pairs], [r["screen"] for r, _ in pairs])
    return found.plain()


def _breakdown(records: Sequence[Mapping[str, object]], names: Sequence[str]) -> dict[str, Any]:
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        for cell in cells(record, names):
            groups[cell].append(record)
    return {cell: over(group, "hit", "screen") for cell, group in sorted(groups.items())}


def cells(record: Mapping[str, Any], names: Sequence[str]) -> Iterable[str]:
    """The cells of a breakdown that a record counts in: one of each combination of its labels' values."""
    found = [""]
    for name in names:
        values = record["labels"].get(name) or ["unknown"]
        found = [f"{before}/{value}" if before else value for before in found for value in values]
    return found


def _refusals(there: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Share of present elements that were refused: a model that refuses everything is seen."""
    refused = [float(record["refused_it"]) for record in there]
    return interval(refused, [record["screen"] for record in there]).plain()
