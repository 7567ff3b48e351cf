"""What a reviewer sees of an item: goal, steps with action and thought, and pictures by their place, never by path."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pipelines.store.files import StoreError
from pipelines.store.images import ImageError
from quality.items.drawing import draw_action, draw_boxes, to_png
from quality.items.item import Episode, Item, Sample
from quality.items.screens import Box, ScreenSource
from schemas.actions import Action, Click
from schemas.ids import digest

THUMB_PX = 220
FULL_PX = 1280
_POINT = re.compile(r"\[(\d{1,4}),(\d{1,4})\]")


@dataclass(frozen=True)
class ShownStep:
    """A step as it is shown. `says` is the action's canonical text, or a sample's answer; empty on a last screen."""

    says: str
    action: Action | None
    sha256: str | None
    boxes: tuple[Box, ...] = ()
    instruction: str = ""
    thought: str = ""
    conclusion: str = ""
    gap: bool = False
    """An action before or after this step was lost, so the pictures around it don't follow each other."""


@dataclass(frozen=True)
class ReviewTrajectory:
    """An item to review: an episode, or a sample as an episode of one step a picture."""

    item_id: str
    source: str
    platform: str
    kind: str
    goal: str
    steps: tuple[ShownStep, ...]
    screens: ScreenSource = field(repr=False, compare=False)

    @cached_property
    def digest(self) -> str:
        """Of all that is shown (pictures by their hash): an answer speaks of this content only."""
        shown = [
            [step.says, step.sha256, [list(box) for box in step.boxes], step.instruction, step.thought, step.conclusion]
            for step in self.steps
        ]
        return digest([self.goal, shown])

    def plain(self) -> dict[str, Any]:
        """As JSON for the page: texts as they are, `picture` says whether there is one."""
        return {
            "item_id": self.item_id,
            "source": self.source,
            "platform": self.platform,
            "kind": self.kind,
            "goal": self.goal,
            "steps": [_plain(step) for step in self.steps],
        }

    def picture(self, place: int, max_side_px: int = FULL_PX) -> bytes | None:
        """JPEG of the screen of a step with its action drawn; None if the step has none that can be read.
        Raises `IndexError` for a place that isn't there."""
        import io

        if not 0 <= place < len(self.steps):
            raise IndexError(f"step {place}: expected 0 to {len(self.steps) - 1}")
        step = self.steps[place]
        if step.sha256 is None:
            return None

        try:
            data = self.screens.screen_bytes(step.sha256)
            # Several boxes are drawn first, one goes along with the action.
            if len(step.boxes) > 1:
                data = to_png(draw_boxes(data, step.boxes, max_side_px))
            box = step.boxes[0] if len(step.boxes) == 1 else None
            image = draw_action(data, step.action, box, max_side_px)
        except (ImageError, StoreError, OSError):
            return None
        # Without colour subsampling, as thin marks would blur.
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=90, subsampling=0)
        return buffer.getvalue()


def _plain(step: ShownStep) -> dict[str, Any]:
    names = ("says", "instruction", "thought", "conclusion", "gap")
    return {**{name: getattr(step, name) for name in names}, "picture": step.sha256 is not None}


def shown(item: Item) -> ReviewTrajectory:
    """An item of the pipeline → what people see of it."""
    return _shown_episode(item) if isinstance(item, Episode) else _shown_sample(item)


def _shown_episode(episode: Episode) -> ReviewTrajectory:
    steps = []
    for step in episode.steps:
        row = step.row
        boxes = (tuple(row["target_box"]),) if row["target_box"] is not None else ()
        steps.append(
            ShownStep(
                row["action_text"] or "",
                step.action,
                row["screenshot_sha256"],
                boxes,
                instruction=row["step_instruction"] or "",
                thought=row["thought"] or "",
                conclusion=row["conclusion"] or "",
                gap=step.follows_gap,
            )
        )
    return ReviewTrajectory(
        episode.item_id,
        episode.source,
        episode.steps[0].platform,
        "navigation",
        episode.instruction,
        tuple(steps),
        episode.bank.source,
    )


def _shown_sample(sample: Sample) -> ReviewTrajectory:
    row = sample.row
    images: Sequence[str | None] = row["images"] or [None]
    steps = []
    # The answer belongs to the last picture; those before it lead there.
    for place, sha in enumerate(images):
        last = place + 1 == len(images)
        point = _POINT.fullmatch(row["answer"]) if last else None
        # 1000 is the whole side; larger numbers aren't places.
        action = Click((int(point[1]), int(point[2]))) if point and max(int(point[1]), int(point[2])) <= 1000 else None
        boxes = tuple(tuple(box) for box in row["target_boxes"] or ()) if last else ()
        steps.append(ShownStep(row["answer"] if last else "", action, sha, boxes))
    return ReviewTrajectory(
        sample.item_id,
        row["source"],
        row["platform"],
        row["objective"],
        question_of(row["messages"]),
        tuple(steps),
        sample.bank.source,
    )


def question_of(messages: str) -> str:
    """The words of the user's turns."""
    found = []
    for message in json.loads(messages):
        if message.get("role") == "user":
            content = message["content"]
            parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
            found += [part for part in parts if part]
    return "\n".join(found)
