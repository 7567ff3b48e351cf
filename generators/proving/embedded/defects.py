"""Planted defects: what is wrong with real GUI data, put into sound recordings at known rates.

Every defect is fixed by the seed and leaves a truth line, so that a judge can be judged. Kinds that make an item
*low-fidelity* (it seems whole but is untrue) and kinds that make it *unreadable* (ingestion must set it aside) are
separate; duplicates are neither.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from generators.worlds.pages.own_pages import PageElement
from generators.worlds.pages.recording import DONE, Point, RecordedAct, RecordedEpisode, RecordedStep

LOW_ITEM = ("shifted_point", "wrong_element", "off_by_one_screenshot", "flipped_scroll", "wrong_text", "repeated_click")
LOW_RECORD = ("near_miss_instruction", "premature_finish")
UNREADABLE = ("off_screen", "unknown_action", "empty_text", "corrupt_picture")
COPY_SEEDS = 50_000_000  # far from every seed that is recorded


@dataclass(frozen=True)
class DefectRates:
    """Shares of all items (`low`, `unreadable`) or of all records (the rest).

    low: the report's corpus before refinement has 69.7 % high-fidelity items, so 30.3 % are planted low.
    near_miss and premature are whole records; their items count towards `low`.
    """

    low: float = 0.303
    near_miss: float = 0.10
    premature: float = 0.06
    unreadable: float = 0.02
    duplicate: float = 0.03
    paraphrase: float = 0.08
    splits: tuple[str, ...] = ("train", "validation", "test")  # a real source's test split is no cleaner

    def __post_init__(self) -> None:
        if not 0 <= self.near_miss + self.premature <= self.low < 1:
            raise ValueError(f"expected 0 <= near_miss + premature <= low < 1, found {self}")


@dataclass(frozen=True)
class PlantedDefect:
    """One planted defect. `item` is the native index within the record, None for the record as a whole."""

    record: str
    item: int | None
    defect: str
    original: dict[str, Any]

    @property
    def low_fidelity(self) -> bool:
        return self.defect in LOW_ITEM or self.defect in LOW_RECORD

    def line(self) -> dict[str, object]:
        unit = "record" if self.item is None else "item"
        return {
            "unit": unit,
            "record": self.record,
            "item": self.item,
            "defect": self.defect,
            "low_fidelity": self.low_fidelity,
            "original": self.original,
        }


def write_truth(path: Path, truths: Sequence[PlantedDefect]) -> None:
    """One JSON line per defect, in the order of the records. Pipeline stages never read this file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(truth.line(), sort_keys=True, ensure_ascii=False) for truth in truths]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


@dataclass
class Marked:
    """A recorded episode on its way to a writer, with its marks: step → (defect, original)."""

    episode: RecordedEpisode
    marks: dict[int, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    whole: tuple[str, dict[str, Any]] | None = None

    def truths(self) -> list[PlantedDefect]:
        found = [PlantedDefect(self.episode.uid, None, *self.whole)] if self.whole else []
        return found + [PlantedDefect(self.episode.uid, item, *self.marks[item]) for item in sorted(self.marks)]


def act_json(act: RecordedAct) -> dict[str, object]:
    """The true action, with what a repair is judged by."""
    return {
        "kind": act.kind,
        "point": act.point,
        "end": act.end,
        "text": act.text,
        "direction": act.direction,
        "box": act.box,
        "name": act.name,
    }


# --- single defects: each returns the damaged step, or None where it doesn't apply ------------------------------------
def shift_point(point: Point, box: Sequence[float], size: tuple[int, int], rng: Random) -> Point | None:
    """A point 0.5 to 2 sizes of the element beside its box, still on the screen; None if no side has room."""
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    far = rng.uniform(0.5, 2.0)
    options = [
        (point[0], round(bottom + far * height)),
        (point[0], round(top - far * height)),
        (round(right + far * width), point[1]),
        (round(left - far * width), point[1]),
    ]
    # A point off the screen would be unreadable, which is another defect.
    options = [p for p in options if 0 <= p[0] < size[0] and 0 <= p[1] < size[1]]
    return rng.choice(options) if options else None


def _shifted(step: RecordedStep, episode: RecordedEpisode, rng: Random) -> RecordedStep | None:
    act = step.act
    if act.point is None or act.box is None or act.kind not in ("tap", "type", "select"):
        return None
    height = step.web.height if step.web else episode.height
    point = shift_point(act.point, act.box, (episode.width, height), rng)
    if point is None:
        return None
    dx, dy = point[0] - act.point[0], point[1] - act.point[1]
    # The box goes along: a source that states boxes states the wrong one, too.
    moved = (act.box[0] + dx, act.box[1] + dy, act.box[2] + dx, act.box[3] + dy)
    return replace(step, act=replace(act, point=point, box=moved))


def other_targets(step: RecordedStep) -> list[PageElement]:
    """Elements of the screen that could be hit instead of the right one and don't lie around it."""
    act = step.act
    if act.point is None:
        return []
    x, y = act.point
    found = []
    for e in step.elements:
        around = e.box[0] <= x <= e.box[2] and e.box[1] <= y <= e.box[3]
        # Another name, or a judge couldn't tell that it is the wrong one.
        if e.clickable and not e.system and e.key and e.key != act.key and not around and e.name != act.name:
            found.append(e)
    return found


def _wrong_element(step: RecordedStep, episode: RecordedEpisode, rng: Random) -> RecordedStep | None:
    options = other_targets(step)
    if step.act.kind not in ("tap", "type", "select") or step.act.point is None or not options:
        return None
    other = rng.choice(options)
    x, y = other.centre
    return replace(step, act=replace(step.act, point=(int(x), int(y)), key=other.key, name=other.name, box=other.box))


def _flipped(step: RecordedStep, episode: RecordedEpisode, rng: Random) -> RecordedStep | None:
    act = step.act
    if act.kind not in ("swipe", "wheel"):
        return None
    other = {"up": "down", "down": "up"}[act.direction]
    if act.kind == "wheel":
        return replace(step, act=replace(act, direction=other))
    return replace(step, act=replace(act, point=act.end, end=act.point, direction=other))


WRONG_WORDS = ("Hello there", "Test", "Bananas", "Tomorrow", "No idea", "Blue sky")


def _wrong_text(step: RecordedStep, episode: RecordedEpisode, rng: Random) -> RecordedStep | None:
    act = step.act
    if act.kind not in ("type", "select") or not act.text:
        return None
    slots = [v for values in episode.task.others.values() for v in values]
    # Not contained in the right text: a part of it might still be right.
    options = [w for w in dict.fromkeys((*slots, *WRONG_WORDS)) if w.lower() not in act.text.lower()]
    return replace(step, act=replace(act, text=rng.choice(options)))


def _apply(kind: str, marked: Marked, i: int, rng: Random) -> bool:
    """Put one low-fidelity defect on step i; False if it doesn't apply there."""
    episode, steps = marked.episode, list(marked.episode.steps)
    step = steps[i]
    new: RecordedStep | None = None
    if kind == "off_by_one_screenshot":
        # Equal pictures would make the defect invisible, to judges as well.
        if i + 1 < len(steps) and steps[i + 1].png != step.png:
            after = steps[i + 1]
            if step.web is None or after.web is None:
                new = replace(step, png=after.png, elements=after.elements)
            elif after.web.height == step.web.height:
                # its HTML is recorded by itself, only its picture is the next step's; a page of another height shows
                new = replace(step, png=after.png)
    elif kind == "repeated_click":
        return _repeat(marked, i)
    else:
        maker = {
            "shifted_point": _shifted,
            "wrong_element": _wrong_element,
            "flipped_scroll": _flipped,
            "wrong_text": _wrong_text,
        }
        new = maker[kind](step, episode, rng)
    if new is None:
        return False
    steps[i] = new
    marked.episode = replace(episode, steps=tuple(steps))
    marked.marks[i] = (kind, {**act_json(step.act), "instruction": step.instruction})
    return True


def _repeat(marked: Marked, i: int) -> bool:
    """The click of step i once more on the screen that follows, which it no longer changes."""
    steps = list(marked.episode.steps)
    if steps[i].act.kind != "tap" or i + 1 >= len(steps) or i + 1 in marked.marks:
        return False
    after = steps[i + 1]
    if after.web and not any(e.key == steps[i].act.key for e in after.elements):
        return False  # a web action names a node, and there is none on the page that follows
    extra = replace(after, act=steps[i].act, instruction=steps[i].instruction)
    steps.insert(i + 1, extra)
    # Marks behind the inserted step move with their steps.
    marked.marks = {(at + 1 if at > i else at): mark for at, mark in marked.marks.items()}
    marked.marks[i + 1] = (
        "repeated_click",
        {**act_json(after.act), "instruction": after.instruction, "extra_step": True},
    )
    marked.episode = replace(marked.episode, steps=tuple(steps))
    return True


def _unreadable(kind: str, marked: Marked, i: int) -> bool:
    steps = list(marked.episode.steps)
    step, act = steps[i], steps[i].act
    if kind == "off_screen" and act.point is not None and act.kind == "tap":
        # Far outside: rounding doesn't explain 1.4 times the width.
        new = replace(step, act=replace(act, point=(round(marked.episode.width * 1.4), act.point[1])))
    elif kind == "unknown_action" and act.kind in ("tap", "back", "wait", "enter"):
        new = replace(step, act=replace(act, kind="unknown"))
    elif kind == "empty_text" and act.kind == "type":
        new = replace(step, act=replace(act, text=""))
    elif kind == "corrupt_picture":
        # A third of the bytes: the header is there, the picture isn't.
        new = replace(step, png=step.png[: len(step.png) // 3])
    else:
        return False
    steps[i] = new
    marked.episode = replace(marked.episode, steps=tuple(steps))
    marked.marks[i] = (kind, {**act_json(act), "instruction": step.instruction})
    return True


def _whole(kind: str, marked: Marked, rng: Random) -> bool:
    """Damage a record as a whole: its goal names another thing, or it stops early and says that it is done."""
    episode = marked.episode
    if kind == "near_miss_instruction":
        changed = episode.task.near_miss(rng)
        if changed is None or changed[0] == episode.goal:
            return False
        marked.episode = replace(episode, goal=changed[0])
        marked.whole = (kind, {"goal": episode.goal, "true": changed[1], "untrue": changed[2]})
        return True
    body = len(episode.steps) - 1
    if body < 2:
        return False
    # One or two steps short: nearly done is what such records look like.
    keep = rng.randint(max(1, body - 2), body - 1)
    last = replace(episode.steps[keep], act=DONE, instruction=episode.steps[-1].instruction)
    marked.episode = replace(episode, steps=(*episode.steps[:keep], last))
    cut = [act_json(step.act) for step in episode.steps[keep:-1]]
    marked.whole = (kind, {"goal": episode.goal, "steps_cut": len(cut), "cut": cut})
    return True


def plant(
    episodes: Sequence[RecordedEpisode],
    rates: DefectRates,
    seed: int,
    *,
    kinds: Sequence[str] = LOW_ITEM,
    done_is_item: bool = True,
    uid_of: Callable[[int], str] = str,
) -> tuple[list[RecordedEpisode], list[PlantedDefect]]:
    """Damaged episodes (copies stand after the rest) and the truth about them, a pure function of the arguments.

    `kinds` names what low-fidelity items the source's native form can carry; `done_is_item` says whether its closing
    step is a native item (it is in AITW, it isn't in AndroidControl).
    """
    rng = Random(f"defects/{seed}")
    marked = [Marked(episode) for episode in episodes]
    open_to = [m for m in marked if m.episode.split in rates.splits]
    _plant_whole(open_to, rates, rng)
    tail = 0 if done_is_item else 1
    _plant_items(open_to, rates, rng, kinds, tail)
    _plant_unreadable(open_to, rates, rng, tail)
    copies = _copies(open_to, rates, rng, uid_of)
    truths = [truth for m in marked for truth in m.truths()]
    return [m.episode for m in marked] + [c for c, _ in copies], truths + [t for _, t in copies]


def _plant_whole(marked: list[Marked], rates: DefectRates, rng: Random) -> None:
    # Records in random order, the rarer kind first where both apply.
    order = rng.sample(marked, len(marked))
    for kind, rate in (("near_miss_instruction", rates.near_miss), ("premature_finish", rates.premature)):
        wanted = round(rate * len(marked))
        for m in order:
            if wanted and m.whole is None and _whole(kind, m, rng):
                wanted -= 1


def _plant_items(marked: list[Marked], rates: DefectRates, rng: Random, kinds: Sequence[str], tail: int) -> None:
    """Fill up to the target share of low-fidelity items, rarer kinds first where they apply."""
    total = sum(len(m.episode.steps) - tail for m in marked)
    low = sum(len(m.episode.steps) - tail for m in marked if m.whole)
    # Items of spoiled records count towards the share already.
    wanted = round(rates.low * total) - low
    places = [(m, i) for m in marked if not m.whole for i in range(len(m.episode.steps) - 1)]
    rng.shuffle(places)
    # a later insertion moves the steps behind it, so an episode's places are worked on from its end
    places.sort(key=lambda place: -place[1])
    # Twice as many as needed: many kinds don't apply to a given step.
    chosen = places if wanted >= len(places) else rng.sample(places, min(len(places), max(0, wanted) * 2))
    chosen.sort(key=lambda place: -place[1])
    rng_kinds = list(kinds)
    for m, i in _interleave(chosen, rng):
        if wanted <= 0:
            break
        if i in m.marks:
            continue
        for kind in rng.sample(rng_kinds, len(rng_kinds)):
            if _apply(kind, m, i, rng):
                wanted -= 1
                break


def _interleave(places: list[tuple[Marked, int]], rng: Random) -> list[tuple[Marked, int]]:
    """Shuffle over episodes while each episode's own places stay in falling order."""
    by_episode: dict[int, list[tuple[Marked, int]]] = {}
    for place in places:
        by_episode.setdefault(id(place[0]), []).append(place)
    order = [id(place[0]) for place in places]
    rng.shuffle(order)
    return [by_episode[key].pop(0) for key in order]


def _plant_unreadable(marked: list[Marked], rates: DefectRates, rng: Random, tail: int) -> None:
    total = sum(len(m.episode.steps) - tail for m in marked)
    wanted = round(rates.unreadable * total)
    places = [(m, i) for m in marked if not m.whole for i in range(len(m.episode.steps) - 1)]
    rng.shuffle(places)
    turn = 0
    for m, i in places:
        if wanted <= 0:
            return
        # Not beside another defect: its truth would become ambiguous.
        if any(at in m.marks for at in (i, i + 1)):
            continue
        # Kinds in turn, so that each occurs.
        if _unreadable(UNREADABLE[turn % len(UNREADABLE)], m, i):
            wanted -= 1
            turn += 1


def _copies(
    marked: list[Marked], rates: DefectRates, rng: Random, uid_of: Callable[[int], str]
) -> list[tuple[RecordedEpisode, PlantedDefect]]:
    """Exact copies under the same id, and the same recordings under a new id with the goal in other words."""
    # Copies of sound training records only: a damaged copy would be two defects.
    sound = [m for m in marked if not m.whole and not m.marks and m.episode.split == "train"]
    exact = rng.sample(sound, min(len(sound), round(rates.duplicate * len(marked))))
    rest = [m for m in sound if m not in exact]
    reworded = rng.sample(rest, min(len(rest), round(rates.paraphrase * len(marked))))
    found = [(m.episode, PlantedDefect(m.episode.uid, None, "duplicate_record", {"of": m.episode.uid})) for m in exact]
    for m in reworded:
        episode = m.episode
        uid = uid_of(episode.seed + COPY_SEEDS)
        copy = replace(episode, uid=uid, goal=episode.task.phrase(episode.task.template + 1))
        original = {"of": episode.uid, "goal": episode.goal}
        found.append((copy, PlantedDefect(uid, None, "paraphrased_duplicate", original)))
    return found
