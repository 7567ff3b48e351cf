"""The bookkeeping of a mapped record: step numbers, gaps, provenance, counts. Adapters use one of the two builders."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.mapping.adapter import Mapped, Record, RecordError, RecordScreen, RejectedUnit
from pipelines.mapping.card import Descriptor
from pipelines.mapping.fullest_list import keep_fullest
from pipelines.mapping.items import ItemError, NumberedStep, by_number
from pipelines.prompts import grounding_text, messages, point_answer, point_text
from pipelines.prompts.tokens import count_tokens
from schemas.actions import Action, Point, Scroll, format, scroll_direction
from schemas.coordinates import ScreenBox, centre_in_units
from schemas.ids import canonical_json, sample_id


class _Builder:
    """`identifier` is the record's own id unless given, `platform` the first of the card's."""

    def __init__(
        self, descriptor: Descriptor, record: Record, identifier: str | None, split: str, platform: str | None
    ) -> None:
        if identifier is None and record.native_id is None:
            raise RecordError("missing_field", "the record has no id")
        self._descriptor = descriptor
        self._record = record
        self._id = str(record.native_id) if identifier is None else identifier
        self._split = split
        self._platform = platform or descriptor.platforms[0]
        self._mapped = Mapped()
        self._reported_images: dict[int, RecordScreen] = {}  # held, so that no other screen gets the id of one

    def _count(self, word: str, status: str) -> None:
        self._mapped.losses[(word[:60], status)] += 1

    def _keep_screen(self, screen: RecordScreen | None, native_index: int | None) -> str | None:
        """Take a screen's picture along once; a bad one is reported once, as an image, without costing the row."""
        if screen is None:
            return None
        if screen.sha256 is not None:
            # A record may list one picture's elements several times: the fullest list stands, as across
            # records.
            keep_fullest(self._mapped.screens, screen)
        elif screen.problem not in (None, "image_missing") and id(screen) not in self._reported_images:
            # A missing picture is no damage, and is counted by the rows without one.
            self._reported_images[id(screen)] = screen
            where = {"record": self._record.native_id, "native_index": native_index}
            self._mapped.rejects.append(
                RejectedUnit("image", 0, str(screen.problem), "the row is kept without it", where)
            )
        return screen.sha256

    def _provenance(self, screen: RecordScreen | None, **more: object) -> str:
        plain = {"file": self._record.file, "locator": self._record.locator, "record": self._record.native_id}
        if screen is None or screen.sha256 is None:
            plain["image_missing"] = screen.problem if screen else "image_missing"
        # Nothing is said of what doesn't hold, so rows of sources with and without such rules look alike.
        return canonical_json({**plain, **{name: value for name, value in more.items() if value not in (None, [], ())}})

    def reject(
        self, reason: str, *, native: object, native_index: int, word: str, detail: str = "", items: int = 1
    ) -> None:
        """Quarantine one native item (or `items` that belong together)."""
        self._mapped.items += items
        self._count(word, "dropped")
        where = {"native": native, "native_index": native_index, "record": self._record.native_id}
        self._mapped.rejects.append(RejectedUnit("item", items, reason, detail, where))


DIRECTION_FROM_POINTS = "direction_from_points"
"""Rule of a scroll whose direction no native word says."""
CUT = "cut_at_border"
"""Rule of a target that hung over the border of its screen (see `schemas.coordinates.OVERHANG`)."""


def _cut(box: Sequence[float] | None) -> list[str]:
    return [CUT] if isinstance(box, ScreenBox) and box.cut else []


def _in_pixels(action: Action, screen: RecordScreen | None, rules: Sequence[str]) -> Action:
    """A scroll whose direction follows from its points goes the way that is longer on its screen."""
    if not isinstance(action, Scroll) or action.start is None or action.end is None:
        return action
    # A direction that a native word says wins over what its points suggest.
    if action.direction and DIRECTION_FROM_POINTS not in rules:
        return action
    # Units are square on no screen: which way is longer is seen in pixels.
    size = (screen.width_px, screen.height_px) if screen and screen.width_px and screen.height_px else None
    return Scroll(action.start, action.end, scroll_direction(action.start, action.end, size))


@dataclass(frozen=True, slots=True)
class MappedAction:
    """What became of a native action: our actions (one or more), the word it is counted under, what was lost and done;
    the box of its target; how its episode ended, if it says so."""

    actions: Sequence[Action]
    word: str
    lossy: bool = False
    rules: Sequence[str] = ()
    box: Sequence[float] | None = None
    outcome: str | None = None


class EpisodeBuilder(_Builder):
    """Builds the step rows of one episode."""

    def __init__(
        self,
        descriptor: Descriptor,
        record: Record,
        *,
        instruction: str,
        episode_id: str | None = None,
        split: str = "train",
        platform: str | None = None,
        language: str | None = "en",
        app: str | None = None,
        outcome: str | None = None,
    ) -> None:
        super().__init__(descriptor, record, episode_id, split, platform)
        self._common = {
            "source": descriptor.id,
            "episode_id": self._id,
            "split": split,
            "platform": self._platform,
            "language": language,
            "app": app,
            "instruction": instruction,
            "episode_outcome": outcome,
        }
        self._gap_at: int | None = None
        self._gap_rule: str | None = None

    def add(
        self,
        actions: Action | Sequence[Action],
        native: object,
        native_index: int,
        word: str,
        screen: RecordScreen | None,
        *,
        lossy: bool = False,
        rules: Sequence[str] = (),
        step_instruction: str | None = None,
        thought: str | None = None,
        conclusion: str | None = None,
        target_box: Sequence[float] | None = None,
    ) -> None:
        """One native action → one or more step rows on the same screen. `word` is the native action's name."""
        listed: Sequence[Action] = actions if isinstance(actions, list | tuple) else [actions]  # type: ignore[list-item]
        self._mapped.items += 1
        self._mapped.mapped += 1
        self._count(word, "lossy" if lossy else "kept")
        # Several actions share the screen that the native one was done on, since no other was recorded.
        for place, action in enumerate(_in_pixels(one, screen, rules) for one in listed):
            part = [f"part {place + 1} of {len(listed)}"] if len(listed) > 1 else []
            self._row(
                action,
                screen,
                native_index,
                [*rules, *part],
                native=native,
                lossy=lossy or None,
                step_instruction=step_instruction,
                # The thought comes before the first action, the conclusion after the last.
                thought=thought if place == 0 else None,
                conclusion=conclusion if place == len(listed) - 1 else None,
                # An action without a point has no target, whatever the source has drawn.
                target_box=target_box if hasattr(action, "box") else None,
            )

    def take(
        self,
        mapped: MappedAction,
        native: object,
        native_index: int,
        screen: RecordScreen | None,
        *,
        step_instruction: str | None = None,
        thought: str | None = None,
        conclusion: str | None = None,
    ) -> None:
        """As `add`, of a native action that was mapped."""
        self.add(
            list(mapped.actions),
            native,
            native_index,
            mapped.word,
            screen,
            lossy=mapped.lossy,
            rules=mapped.rules,
            step_instruction=step_instruction,
            thought=thought,
            conclusion=conclusion,
            target_box=mapped.box,
        )

    def terminal(self, action: Action | None, screen: RecordScreen | None, rules: Sequence[str] = ()) -> None:
        """The last screen, which has no native action: a null action, or one that a named rule synthesised."""
        self._row(action, screen, None, list(rules), native=None)

    def reject(
        self, reason: str, *, native: object, native_index: int, word: str, detail: str = "", items: int = 1
    ) -> None:
        """Quarantine an action; the next step row is marked as the one a gap lies before."""
        super().reject(reason, native=native, native_index=native_index, word=word, detail=detail, items=items)
        # The number that the next row will have; if none comes, the gap shows nowhere.
        self._gap_at = len(self._mapped.steps)

    def gap(self, rule: str) -> None:
        """Steps are missing in the source here: mark the gap without counting an item."""
        self._gap_at = len(self._mapped.steps)
        self._gap_rule = rule

    def asked(self, instruction: str) -> None:
        """What is asked of the steps that follow, where it grows within an episode: a user has answered a question."""
        self._common["instruction"] = instruction

    def numbered(self, steps: Sequence[Any], name: str) -> Iterator[tuple[int, NumberedStep]]:
        """The steps of a source that numbers them (the field `name`), in the order of their numbers, each with its
        place: a number that is missing marks a gap, and of steps with one number the first is mapped."""
        for place, one in enumerate(by_number(steps, name)):
            if one.repeated:
                detail = f"{name} {one.step[name]} stands twice"
                self.reject("duplicate", native=one.step, native_index=place, word="step", detail=detail)
                continue
            if one.after_gap:
                self.gap("steps_missing_in_source")
            yield place, one

    def _row(
        self,
        action: Action | None,
        screen: RecordScreen | None,
        native_index: int | None,
        rules: list[str],
        *,
        native: Any,
        lossy: bool | None = None,
        **more: Any,
    ) -> None:
        sha256 = self._keep_screen(screen, native_index)
        gap = self._gap_at if self._gap_at == len(self._mapped.steps) else None
        # Said once, at the row behind the gap.
        if gap is not None and self._gap_rule:
            rules, self._gap_rule = [*rules, self._gap_rule], None
        box = more.pop("target_box", None)
        rules = [*rules, *_cut(box)]
        self._mapped.steps.append(
            {
                **self._common,
                "step_index": len(self._mapped.steps),
                "screenshot_sha256": sha256,
                "width_px": screen.width_px if screen else None,
                "height_px": screen.height_px if screen else None,
                "action_type": type(action).__name__ if action is not None else None,
                "action_text": format(action) if action is not None else None,
                "target_box": list(box) if box is not None else None,
                "native_action": canonical_json(native),
                "provenance": self._provenance(screen, native_index=native_index, rules=rules, lossy=lossy, gap_at=gap),
                **more,
            }
        )

    def finish(self) -> Mapped:
        """The record, mapped. An episode none of whose actions could be mapped leaves no rows."""
        # A goal and screens without any action would count as an episode that nobody acted in.
        if self._mapped.mapped == 0:
            self._mapped.steps.clear()
            self._mapped.screens.clear()
        return self._mapped


class SampleBuilder(_Builder):
    """Builds the sample rows of one record of a grounding, perception or question source."""

    def __init__(
        self,
        descriptor: Descriptor,
        record: Record,
        *,
        record_id: str | None = None,
        split: str = "train",
        platform: str | None = None,
    ) -> None:
        super().__init__(descriptor, record, record_id, split, platform)

    def sample(
        self,
        objective: str,
        prompt_text: str,
        answer: str,
        screen: RecordScreen,
        native_index: int,
        word: str,
        *,
        target_boxes: Sequence[Sequence[float]] = (),
        deriver: str = "native",
        version: int = 1,
        k: int = 0,
        lossy: bool = False,
        rules: Sequence[str] = (),
        count: bool = True,
    ) -> None:
        """One sample. `count=True` for exactly one of the samples made of a native item; more may follow uncounted."""
        if count:
            self._mapped.items += 1
            self._mapped.mapped += 1
            self._count(word, "lossy" if lossy else "kept")
        source = self._descriptor.id
        sha256 = self._keep_screen(screen, native_index)
        identifier = sample_id(source, self._id, native_index, deriver, version, k)
        # A prompt asks about the pictures that are there: without one it has no place for any.
        shown = [(info.width_px, info.height_px)] if (info := screen.info) else []
        chat = messages(objective, prompt_text, images=len(shown))
        self._mapped.samples.append(
            # The id goes by native content and deriver alone, so a sample keeps it when other rows come or
            # go.
            {
                "sample_id": identifier,
                "source": source,
                "split": self._split,
                "platform": self._platform,
                "objective": objective,
                "images": [sha256] if sha256 else [],
                "messages": chat,
                "answer": answer,
                "target_boxes": [list(box) for box in target_boxes],
                "tokens": count_tokens(chat, answer, shown),
                "licence": self._descriptor.licence,
                "parents": [],
                "synthetic": False,
                "provenance": self._provenance(
                    screen,
                    native_index=native_index,
                    rules=list(rules),
                    lossy=lossy or None,
                    deriver=deriver,
                    version=version,
                    k=k,
                ),
            }
        )

    def grounding(
        self, expression: str, box: Sequence[float], screen: RecordScreen, native_index: int, word: str, **more: Any
    ) -> None:
        """`Where is <expression>?` → the centre of the box (left, top, right, bottom in 0..1000). Raises `ItemError`
        `empty_text` without an expression, `bad_box` for a box without area."""
        left, top, right, bottom = box
        # A question without words, or with a box of no area, has no right answer.
        if not expression.strip():
            raise ItemError("empty_text", "the expression is empty", word)
        if not (left < right and top < bottom):
            raise ItemError("bad_box", f"{[round(side, 2) for side in box]} has no area", word)
        rules = ["centre_of_box", *_cut(box), *more.pop("rules", ())]
        at = centre_in_units(box)
        self.point(expression, at, screen, native_index, word, target_boxes=[box], rules=rules, **more)

    def point(
        self, expression: str, at: Point, screen: RecordScreen, native_index: int, word: str, **more: Any
    ) -> None:
        """`Where is <expression>?` → a point in 0..1000, for what has no box of its own or several."""
        self.sample("grounding", grounding_text(expression), point_answer(*at), screen, native_index, word, **more)

    def region(
        self, answer: str, box: Sequence[float], screen: RecordScreen, native_index: int, word: str, **more: Any
    ) -> None:
        """`What is at [x,y]?`, asked at the centre of the box → what the source says of it. Raises as `grounding`."""
        left, top, right, bottom = box
        if not answer.strip():
            raise ItemError("empty_text", "nothing is said of the region", word)
        if not (left < right and top < bottom):
            raise ItemError("bad_box", f"{[round(side, 2) for side in box]} has no area", word)
        asked = point_text(*centre_in_units(box))
        self.sample(
            "perception",
            asked,
            answer.strip(),
            screen,
            native_index,
            word,
            target_boxes=[box],
            rules=[*_cut(box), *more.pop("rules", ())],
            **more,
        )

    def count(self, word: str, items: int) -> None:
        """Native items that another sample of the record already says (an element within a list, say)."""
        self._mapped.items += items
        self._mapped.mapped += items
        if items:
            self._mapped.losses[(word, "kept")] += items

    def finish(self) -> Mapped:
        """The record, mapped."""
        return self._mapped
