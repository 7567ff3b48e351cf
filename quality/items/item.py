"""What a judge sees: episodes with their steps, and native samples, with pictures and elements fetched on use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from quality.items.screens import Screen, ScreenBank
from schemas.actions import Action, parse
from schemas.ids import item_episode, item_sample, item_step

Row = dict[str, Any]
_VERSION = re.compile(r"@r\d+$")


@dataclass(frozen=True)
class Step:
    """One step: its row of `steps`, its action, its screen and the screens around it (None where there is none)."""

    row: Row
    item_id: str
    screen: Screen | None
    previous: Screen | None
    next: Screen | None
    follows_gap: bool = False
    """An item right before or after this one was quarantined, so neighbouring screens prove nothing."""

    @cached_property
    def action(self) -> Action | None:
        """The action; None on a last screen without one."""
        text = self.row["action_text"]
        return None if text is None else parse(text)

    @property
    def platform(self) -> str:
        return str(self.row["platform"])

    @cached_property
    def provenance(self) -> Row:
        return provenance(self.row)


@dataclass(frozen=True)
class Episode:
    """One episode: steps in order. `item_id` names the version judged (`…@r1` after a repair)."""

    item_id: str
    steps: list[Step]
    bank: ScreenBank = field(repr=False, compare=False)

    @property
    def instruction(self) -> str:
        return str(self.steps[0].row["instruction"])

    @property
    def source(self) -> str:
        return str(self.steps[0].row["source"])

    @cached_property
    def actions(self) -> list[Step]:
        """Steps that have an action."""
        return [step for step in self.steps if step.row["action_text"] is not None]

    @property
    def one_picture(self) -> bool:
        """Whether several actions share the only picture: then nothing shows what they changed."""
        return len(self.steps) > 1 and len({step.row["screenshot_sha256"] for step in self.steps}) == 1

    @cached_property
    def is_prefix(self) -> bool:
        """Whether a repair cut this episode before its end: then that isn't claimed to reach the goal. A plain `cut` is
        none: it takes off what follows Finished, which still claims it."""
        return any(repair.startswith("cut:") for step in self.steps for repair in step.provenance.get("repairs", ()))


@dataclass(frozen=True)
class Sample:
    """One native sample (grounding, perception, VQA) with its screens."""

    row: Row
    item_id: str
    screens: list[Screen]
    bank: ScreenBank = field(repr=False, compare=False)
    siblings: tuple[Row, ...] = ()
    """Rows of the other samples on the same first picture: a shift shared by all shows only among them."""

    @property
    def screen(self) -> Screen | None:
        return self.screens[0] if self.screens else None

    @cached_property
    def provenance(self) -> Row:
        return provenance(self.row)


Item = Episode | Sample


def provenance(row: Mapping[str, Any]) -> Row:
    """The provenance of a row as a dict of its own."""
    return dict(_parsed(row["provenance"] or "{}"))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Row:
    """The object that a JSON text holds; an empty one for any other value. Rows are asked for theirs several times."""
    plain = json.loads(text)
    # Provenance of other forms says nothing, and costs no judge the item.
    return plain if isinstance(plain, dict) else {}


def step_id(row: Mapping[str, Any]) -> str:
    """`step:<source>/<episode>/<index>`, with `@r<round>` once a repair made it a new item."""
    base = item_step(row["source"], row["episode_id"], row["step_index"])
    return base + version_suffix(row)


def version_suffix(row: Mapping[str, object]) -> str:
    """`@r<round>` of the last repair, or nothing."""
    round_number = provenance(row).get("round", 0)
    return f"@r{round_number}" if round_number else ""


def make_episode(rows: Sequence[Row], bank: ScreenBank) -> Episode:
    """Rows of one episode (any order) → `Episode`. Raises `ValueError` on rows of two episodes or none."""
    ordered = sorted(rows, key=lambda row: row["step_index"])
    keys = {(row["source"], row["episode_id"]) for row in ordered}
    if len(keys) != 1:
        raise ValueError(f"episode: expected rows of one episode, found {sorted(keys)[:3]}")
    screens = [bank.screen(row["screenshot_sha256"]) for row in ordered]
    alone = len({row["screenshot_sha256"] for row in ordered}) == 1  # a script on one picture: nothing shows effects
    gaps = [_gap_before(ordered, place) for place in range(len(ordered))]
    steps = []
    for place, row in enumerate(ordered):
        after_gap = gaps[place]
        before_gap = place + 1 < len(ordered) and gaps[place + 1]
        # Two rows of one native action: no picture was taken between them.
        before_gap = before_gap or _is_one_action(ordered, place)
        previous = screens[place - 1] if place and not after_gap and not alone else None
        following = screens[place + 1] if place + 1 < len(ordered) and not before_gap and not alone else None
        steps.append(
            Step(
                row, step_id(row), screens[place], previous, following, after_gap or gaps[min(place + 1, len(gaps) - 1)]
            )
        )
    # The newest repair of any step makes the episode a new version.
    rounds = max((provenance(row).get("round", 0) for row in ordered), default=0)
    [(source, episode_id)] = keys
    return Episode(item_episode(source, episode_id) + (f"@r{rounds}" if rounds else ""), steps, bank)


def _is_one_action(rows: Sequence[Row], place: int) -> bool:
    """Whether this row and the next are parts of one native action: no picture was taken between them."""
    if place + 1 >= len(rows):
        return False
    here, after = (provenance(row).get("native_index") for row in rows[place : place + 2])
    return here is not None and here == after


def _gap_before(rows: Sequence[Row], place: int) -> bool:
    """Whether an action between the previous row and this one was lost (quarantined or refused)."""
    if place == 0:
        # An episode that begins later than 0 has lost its beginning.
        return rows[0]["step_index"] > 0 or 0 in gap_indices(rows[0])
    if rows[place]["step_index"] - rows[place - 1]["step_index"] > 1:
        return True
    return rows[place]["step_index"] in gap_indices(rows[place])


def gap_indices(row: Mapping[str, object]) -> list[int]:
    """Step indices before which an action of the episode is missing (`gap_at` in the provenance)."""
    gaps = provenance(row).get("gap_at")
    if gaps is None or gaps is False:
        return []
    return [int(gap) for gap in (gaps if isinstance(gaps, list) else [gaps])]


def episodes_of(steps: pa.Table, bank: ScreenBank) -> Iterator[Episode]:
    """Episodes of a `steps` table in order of first appearance."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in steps.to_pylist():
        grouped.setdefault((row["source"], row["episode_id"]), []).append(row)
    for rows in grouped.values():
        yield make_episode(rows, bank)


def make_samples(rows: Sequence[Row], bank: ScreenBank) -> list[Sample]:
    """Rows of `samples` → items, each knowing the others on the same picture."""
    on_picture: dict[str, list[Row]] = {}
    for row in rows:
        on_picture.setdefault(_first_image(row), []).append(row)
    built = []
    for row in rows:
        # A picture that is lost leaves its place out; the sample has the screens that there are.
        screens = [screen for sha in row["images"] or () if (screen := bank.screen(sha)) is not None]
        item_id = item_sample(row["sample_id"]) + version_suffix(row)
        built.append(Sample(row, item_id, screens, bank, tuple(on_picture[_first_image(row)])))
    return built


def rebanked(item: Item, bank: ScreenBank, changed: Callable[[Row], Row] = lambda row: row) -> Item:
    """The same item on another bank's screens, each of its rows as `changed` gives it."""
    if isinstance(item, Episode):
        return make_episode([changed(step.row) for step in item.steps], bank)
    rows = tuple(changed(row) for row in item.siblings or (item.row,))
    # Its own row as it was changed along with its siblings.
    own = next((row for row in rows if row["sample_id"] == item.row["sample_id"]), rows[0])
    screens = [screen for sha in own["images"] or () if (screen := bank.screen(sha)) is not None]
    return Sample(own, item.item_id, screens, bank, rows)


def _first_image(row: Row) -> str:
    return (row["images"] or [""])[0]


def base_id(item_id: str) -> str:
    """The id without its version, `@r<round>`."""
    return _VERSION.sub("", item_id)
