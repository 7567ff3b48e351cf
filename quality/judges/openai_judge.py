"""A judge behind the OpenAI protocol: any vision model on vLLM, SGLang or a provider.

One request per step (its screenshot with the action drawn, and the next screenshot), one per episode (the goal, the
list of actions, up to six screenshots), one per native sample. What it can't see: more than six screens of an episode
at once, and anything that the model doesn't see; scores of models agree with people only loosely on 0–10, so use the
three bands. It never scores a failure: `ModelError` is raised and complete answers stay in the cache; on what the model
can't answer though it answers others it abstains. What a night's ceiling leaves no room for is `pending`, an episode as
a whole.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipelines.prompts import prompt_text
from quality.evidence.episode import Habits
from quality.items.drawing import DRAWING_VERSION, draw_action, draw_boxes, to_png
from quality.items.item import Episode, Item, Sample, Step
from quality.items.screens import Screen
from quality.judges.judge import KEEP_FROM, Verdict
from quality.model_client.client import CheckedAnswer, ModelClient, NoAnswer, Request, RequestPicture, data_block
from quality.model_client.questions import GUARD
from schemas.action_types import Action
from schemas.ids import digest

TEMPLATE_VERSION = "judge-1"
EPISODE_PICTURES = 6
BATCHES_AT_ONCE = 64
"""Parts that wait for their batches side by side, each for hours."""
MAX_ACTIONS = 60
_PREFIX = "the trace is a prefix: its end isn't claimed to reach the goal"

_COMMON = f"You check training data for GUI agents. {GUARD} Answer with JSON of the given schema only."
STEP_RUBRIC = (
    f"{_COMMON}\nScore one step: does the action fit what the first screenshot shows and what the goal and the step's "
    "instruction ask for? A red ring marks the point of a click, a blue arrow the path of a finger, a green box the "
    "target. The second screenshot, if any, shows the screen after the action.\n"
    "alignment: 10 = certainly right; 7 = right, small doubts; 4 to 6 = the action is plausible but text and action "
    "don't match; 1 to 3 = wrong element, wrong direction, wrong screenshot or no effect; 0 = nonsense. "
    "confidence: 0 to 10. reason: one short sentence."
)
EPISODE_RUBRIC = (
    f"{_COMMON}\nScore a whole trace: does it reach the goal, and does it end when it should? The screenshots are in "
    "order, with actions drawn.\nreachability: 10 = certainly reached; 7 = reached, small doubts; 4 to 6 = it does "
    "something sensible that isn't what the goal says; 1 to 3 = it fails, loops or stops early; 0 = unrelated. "
    "confidence: 0 to 10. reason: one short sentence."
)
SAMPLE_RUBRIC = (
    f"{_COMMON}\nScore one question and its answer about a screenshot. Green boxes mark the targets. Points are [x,y] "
    "in 0..1000 of the picture; [-1,-1] says that the element isn't there.\nalignment: 10 = certainly right; "
    "7 = right, small doubts; 4 to 6 = ambiguous or badly worded; 1 to 3 = wrong answer or box; 0 = nonsense. "
    "confidence: 0 to 10. reason: one short sentence."
)
_ALIGNMENT = {"alignment": int, "confidence": int, "reason": str}
_REACHABILITY = {"reachability": int, "confidence": int, "reason": str}
RUBRIC_VERSION = f"{TEMPLATE_VERSION}-{digest([STEP_RUBRIC, EPISODE_RUBRIC, SAMPLE_RUBRIC])[:8]}"


class OpenAIJudge:
    """See the module's docstring. `cache` is a folder (`$VESPER_HOME/cache/judge`), None for no cache; `options` are
    `ModelClient`'s: retry, concurrency, max_tokens, limits, prices, ceiling."""

    name = "openai"
    rubric_version = RUBRIC_VERSION
    parts_at_once = 4
    """Parts of a source to judge side by side, so that the end of one doesn't leave the server idle."""

    def __init__(self, base_url: str, model: str, cache: Path | None, **options: Any) -> None:
        self.model = model
        self.client = ModelClient(base_url, model, cache, **options)
        if self.client.asks_by_batch:
            self.parts_at_once = BATCHES_AT_ONCE

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        """Items → verdicts (see `Judge`); all requests of the call run side by side. `habits` isn't needed. Safe to
        use from several threads."""
        requests = [request for item in items for request in _requests(item)]
        answers = iter(self.client.ask_all(requests))
        return [verdict for item in items for verdict in self._verdicts(item, answers, round_number)]

    def _verdicts(self, item: Item, answers: Iterator[CheckedAnswer | NoAnswer | None], number: int) -> list[Verdict]:
        steps = [] if isinstance(item, Sample) else item.actions
        # Answers come in the order of requests: the whole first, then each step.
        whole, *each = found = [next(answers) for _ in range(1 + len(steps))]
        # One answer is missing, so all of the episode waits: a judged half would be refined without the rest.
        if whole is None or any(answer is None for answer in each):
            return [
                self._pending(item_id, answer, number)
                for item_id, answer in zip([item.item_id, *(step.item_id for step in steps)], found)
            ]
        if isinstance(item, Sample):
            return [self._verdict(item.item_id, whole, _score(whole, "alignment"), None, number)]
        reach = _score(whole, "reachability")
        verdicts = [self._verdict(item.item_id, whole, None, reach, number)]
        for step, answer in zip(steps, each):
            assert answer is not None
            alignment = _score(answer, "alignment")
            below = reach is not None and reach < (KEEP_FROM if alignment is None else alignment)
            why = f"; episode: {_reason(whole)[:300]}" if below else ""
            # A good episode says nothing for a step that nobody judged; a bad one still speaks against it.
            axes = (alignment, reach if alignment is not None or below else None)
            verdicts.append(self._verdict(step.item_id, answer, *axes, number, why))
        return verdicts

    def _verdict(
        self,
        item_id: str,
        answer: CheckedAnswer | NoAnswer,
        alignment: int | None,
        reachability: int | None,
        number: int,
        why: str = "",
    ) -> Verdict:
        confidence = answer.fields["confidence"] / 10 if isinstance(answer, CheckedAnswer) else 0.0
        return Verdict(
            item_id,
            alignment,
            reachability,
            _reason(answer)[:500] + why,
            confidence,
            self.name,
            self.model,
            self.rubric_version,
            number,
            cost=answer.cost,
            unanswered=isinstance(answer, NoAnswer),
        )

    def _pending(self, item_id: str, answer: CheckedAnswer | NoAnswer | None, number: int) -> Verdict:
        """An item for another night; what was answered of it by then is in the cache."""
        reason = f"the ceiling of the night {self.client.ceiling.night} was reached"
        return Verdict(
            item_id,
            None,
            None,
            reason,
            0.0,
            self.name,
            self.model,
            self.rubric_version,
            number,
            cost=answer.cost if answer else None,
            pending=True,
        )


def _score(answer: CheckedAnswer | NoAnswer, axis: str) -> int | None:
    return int(answer.fields[axis]) if isinstance(answer, CheckedAnswer) else None


def _reason(answer: CheckedAnswer | NoAnswer) -> str:
    return str(answer.fields["reason"]) if isinstance(answer, CheckedAnswer) else answer.reason


def _requests(item: Item) -> list[Request]:
    """The requests of an item in the order in which `_verdicts` reads their answers."""
    if isinstance(item, Sample):
        return [sample_request(item)]
    return [episode_request(item), *(step_request(item, step) for step in item.actions)]


def step_request(episode: Episode, step: Step) -> Request:
    """Alignment of one step."""
    # Five actions are enough to know where in the task a step stands.
    before = [str(s.row["action_text"])[:200] for s in episode.actions if s.row["step_index"] < step.row["step_index"]]
    text = "\n".join(
        [
            data_block("goal", episode.instruction),
            data_block("earlier_actions", before[-5:]),
            data_block("step_instruction", step.row["step_instruction"]),
            data_block("action", step.row["action_text"]),
        ]
    )
    pictures = [drawn(step.screen, step.action, step.row)] if step.screen else []
    if step.next is not None:
        pictures.append(drawn(step.next, None, None))
    return Request(TEMPLATE_VERSION, STEP_RUBRIC, text, tuple(pictures), _ALIGNMENT)


def episode_request(episode: Episode) -> Request:
    """Reachability of an episode."""
    actions = [str(step.row["action_text"])[:200] for step in episode.actions]
    text = "\n".join(
        [
            data_block("goal", episode.instruction),
            data_block("actions", actions[:MAX_ACTIONS]),
            data_block("note", _PREFIX if episode.is_prefix else ""),
        ]
    )
    shown = [step for step in episode.steps if step.screen is not None]
    if len(shown) > EPISODE_PICTURES:  # first, last and evenly between
        shown = [shown[round(k * (len(shown) - 1) / (EPISODE_PICTURES - 1))] for k in range(EPISODE_PICTURES)]
    pictures = tuple(drawn(step.screen, step.action, None) for step in shown if step.screen is not None)
    return Request(TEMPLATE_VERSION, EPISODE_RUBRIC, text, pictures, _REACHABILITY)


def sample_request(sample: Sample) -> Request:
    """Alignment of a native sample."""
    text = "\n".join(
        [
            data_block("objective", sample.row["objective"]),
            data_block("question", prompt_text(sample.row["messages"])),
            data_block("answer", sample.row["answer"]),
        ]
    )
    boxes = [list(box) for box in sample.row["target_boxes"]]
    pictures = tuple(boxed(screen, boxes if place == 0 else []) for place, screen in enumerate(sample.screens))
    return Request(TEMPLATE_VERSION, SAMPLE_RUBRIC, text, pictures, _ALIGNMENT)


def drawn(screen: Screen, action: Action | None, row: dict | None) -> RequestPicture:  # type: ignore[type-arg]
    """A screenshot with its action (and the target box of its row) drawn, made only if it is really sent."""
    box = row["target_box"] if row else None
    # The drawing is part of the key: the same screen with another action is another question.
    key = digest([screen.sha256, DRAWING_VERSION, str(action), box])
    return RequestPicture(key, lambda: to_png(draw_action(screen.data(), action, box)))


def boxed(screen: Screen, boxes: list[list[float]]) -> RequestPicture:
    """A screenshot with target boxes drawn, made only if it is really sent."""
    key = digest([screen.sha256, DRAWING_VERSION, "boxes", boxes])
    return RequestPicture(key, lambda: to_png(draw_boxes(screen.data(), boxes)))
