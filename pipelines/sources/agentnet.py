"""AgentNet (OpenCUA): desktop demonstrations as pyautogui code, one JSON line per episode.

Link: https://huggingface.co/datasets/xlangai/AgentNet (code: https://github.com/xlang-ai/OpenCUA)

A raw row (line of `agentnet_ubuntu_5k.jsonl`, shortened; the release adds thought, action, observation, reflection,
last_step_correct, last_step_redundant to `value`, and domain, task_completed and scores to the line):

    {"task_id": "task_example_0", "instruction": "Open the system display settings, ...", "traj": [
      {"index": 3, "image": "3.png", "value": {"code":
        "pyautogui.moveTo(x=0.4546, y=0.2682)\\npyautogui.dragTo(x=0.4107, y=0.2773, button='left')"}}, ...]}

| native | unified |
|---|---|
| `value.code` | the actions of `pipelines/native/pyautogui.py` (its loss table), x and y are 0..1 of the screen |
| several gestures in one `code` | their actions in order on one screen; one bad gesture quarantines the step |
| `terminate(status='success')` / `'failure'` | `Finished` / `Finished`, lossy, episode_outcome = failure |
| `task_completed` | episode_outcome, before what terminate says |
| `value.thought`, `value.action` | thought, step_instruction |
| `last_step_correct: false`, `last_step_redundant: true` | the step stays, a rule in provenance says so |
| alignment_score, efficiency_score, task_difficulty | rules in provenance |
| `meta_data_merged.jsonl` (optional) | the screen's size where the picture is missing |

Pictures: `ubuntu_images/`, `win_mac_images/` or `images/` beside the JSON lines (unzip the parts first). They show the
last distinct frame *before* the action. AgentNetBench is an evaluation set of another schema: it is refused
(`unknown_schema`), so it can't train.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, by_number, list_of, notices, read_once, refusing, text_of, unknown_fields
from pipelines.native.pyautogui import CALL_LOSSES, PyAutoGuiGesture, gestures, parse_script
from pipelines.native.record_readers import count_of, field_id, json_lines, json_list
from schemas.action_types import ActionSpace
from schemas.actions import Point

META = "meta_data_merged.jsonl"
FOLDERS = ("ubuntu_images", "win_mac_images", "images")
SEVERAL = "several gestures"
_NAME = re.compile(r"[\w\-][\w\-. ]{0,200}")
_SCORES = ("alignment_score", "efficiency_score", "task_difficulty")
_KNOWN = frozenset(
    {"task_id", "instruction", "traj", "domain", "task_completed", "natural_language_task", "actual_task", "reason"}
) | frozenset(_SCORES)
_KNOWN_STEP = frozenset({"index", "image", "value"})
_KNOWN_VALUE = frozenset(
    {"code", "thought", "action", "observation", "reflection", "last_step_correct", "last_step_redundant"}
)

DESCRIPTOR = Descriptor(
    id="agentnet",
    title="AgentNet (OpenCUA)",
    licence="MIT",
    platforms=("desktop",),
    size="22,625 episodes, 421,453 steps, about 200 GB (ubuntu 5,000, win+mac 17,625)",
    citation="Wang et al., OpenCUA: Open Foundations for Computer-Use Agents, arXiv 2508.09123",
    frame="0..1 of the screen, x and y named, origin top left",
    record_unit="episode",
    item_unit="step of traj",
    known_problems=(
        "the picture is the last distinct frame before the action: the pointer may already be on the target",
        "task_id repeats; task_completed is null in 2,327 ubuntu rows",
        "steps marked incorrect or redundant are in the set",
        "thoughts and step texts are written by a model",
    ),
    loss=(
        *CALL_LOSSES,
        Loss("terminate", "Finished", "kept", "status failure: lossy, episode_outcome = failure"),
        Loss(SEVERAL, "their actions in order", "kept", "one screen for all; lossy if one of them is"),
        Loss("step", "-", "dropped", "missing_field, bad_value or unsafe_path: no code or no usable image name"),
        Loss("observation, reflection", "-", "lossy", "no column for them; they stay in native_action"),
        Loss("natural_language_task, actual_task, reason, domain", "-", "lossy", "stay in the raw file"),
    ),
    download=Download(
        "xlangai/AgentNet",
        files=("*.jsonl",),
        unpack=(("ubuntu_images/images.z*", "ubuntu_images"), ("win_mac_images/images.z*", "win_mac_images")),
    ),
)


class AgentnetAdapter(Adapter):
    """One record per JSON line."""

    descriptor = DESCRIPTOR
    version = 3
    items_at = ("traj",)
    side_lists = (META,)

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per JSON lines file; JSON files (AgentNetBench) too, so that they are refused in the open."""
        names = raw.files("**/*.jsonl") + raw.files("**/*.json")
        return [(name,) for name in sorted(names) if name.rpartition("/")[2] != META]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One line at a time."""
        for file in files:
            read = json_lines if file.endswith(".jsonl") else json_list
            yield from read(raw, file, of_id=field_id("task_id"), count=count_of('"code"'))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: missing_field, bad_value, empty_text, unknown_schema."""
        line: Any = record.payload
        # An evaluation set that somebody put beside the training data must not be trained on.
        if isinstance(line, dict) and "traj" not in line and ("steps" in line or "user_task_description" in line):
            steps = line.get("steps")
            raise RecordError(
                "unknown_schema",
                "this is AgentNetBench, an evaluation set: keep it out of the raw folder",
                items=len(steps) if isinstance(steps, list) else 1,
            )
        traj = list_of(line, "traj")
        with refusing(len(traj)):
            name, goal = (text_of(line, field, "?") for field in ("task_id", "instruction"))
        # The annotators' scores go along as rules, so that rows can be chosen by them.
        rules = [f"{name}={line[name]}"[:80] for name in _SCORES if line.get(name) is not None]
        ordered = by_number(traj, "index")
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=name,
            instruction=goal,
            outcome=_outcome(line, ordered[-1].step if ordered else None),
        )
        size = _sizes(raw.path(META)).get(name)
        pointer: Point | None = None
        found = unknown_fields(line, _KNOWN)
        for place, numbered in builder.numbered(traj, "index"):
            # After a gap nobody knows where the pointer stands.
            step, pointer = numbered.step, None if numbered.after_gap else pointer
            pointer = _step(builder, raw, step, place, size, pointer, rules, self.space)
            if isinstance(step, dict):
                found += unknown_fields(step, _KNOWN_STEP)
                value = step.get("value")
                found += unknown_fields(value, _KNOWN_VALUE) if isinstance(value, dict) else []
        return notices(builder.finish(), found)


def _step(
    builder: EpisodeBuilder,
    raw: Raw,
    step: Any,
    place: int,
    size: tuple[int, int] | None,
    pointer: Point | None,
    rules: list[str],
    space: ActionSpace,
) -> Point | None:
    """Add or reject one step; returns where the pointer then is (None after a step that was lost)."""
    word = "step"
    try:
        value = step.get("value") if isinstance(step, dict) else None
        code = value.get("code") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(code, str):
            raise ItemError("missing_field", "expected value.code, a text", word)
        steps = list(gestures(parse_script(code), (1.0, 1.0), pointer, space))
        # Errors of several calls are counted as one kind, as no single one is to blame.
        word = steps[0].word if len(steps) == 1 else SEVERAL if steps else "step"
        if not steps:
            raise ItemError("missing_field", "value.code holds no call", word)
        for gesture in steps:
            if gesture.error is not None:
                raise gesture.error
        screen = RecordScreen.load(_picture(raw, step.get("image")), frame=size, normalised=True)
    except (ItemError, RecordError) as error:
        counted = error.word if isinstance(error, ItemError) and word != SEVERAL else word
        builder.reject(error.reason, native=step, native_index=place, word=counted, detail=error.detail)
        return None
    flags = [
        name
        for name, bad in (
            ("last_step_correct=false", value.get("last_step_correct") is False),
            ("last_step_redundant=true", value.get("last_step_redundant") is True),
        )
        if bad
    ]
    mapped = MappedAction(
        [action for gesture in steps for action in gesture.actions],
        word,
        any(gesture.lossy for gesture in steps),
        [*(rule for gesture in steps for rule in gesture.rules), *flags, *rules],
    )
    builder.take(mapped, step, place, screen, thought=_text(value, "thought"), step_instruction=_text(value, "action"))
    return _pointer(steps, pointer)


def _pointer(made: list[PyAutoGuiGesture], pointer: Point | None) -> Point | None:
    for gesture in made:
        for action in gesture.actions:
            # The last place that anything pointed at; a scroll without one leaves it.
            pointer = getattr(action, "end", None) or getattr(action, "box", None) or pointer
    return pointer


def _text(value: dict[str, Any], name: str) -> str | None:
    text = value.get(name)
    return text if isinstance(text, str) and text.strip() else None


def _picture(raw: Raw, name: object) -> bytes | None:
    """Bytes of the picture, None if it isn't there. Raises `RecordError("unsafe_path")` unless it is a file name."""
    if name is None:
        return None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RecordError("unsafe_path", f"image: expected a plain file name, found {name!r:.120}")
    return raw.first(f"{folder}/{name}" for folder in FOLDERS)


def _outcome(line: dict[str, Any], last: Any) -> str | None:
    """task_completed decides; where it is null or absent, what the last terminate says."""
    completed = line.get("task_completed")
    if isinstance(completed, bool):
        return "success" if completed else "failure"
    code = last.get("value", {}).get("code") if isinstance(last, dict) and isinstance(last.get("value"), dict) else None
    try:
        calls = parse_script(code) if isinstance(code, str) else []
    except ItemError:
        return None
    # As the agent itself said it, by name or as the first argument.
    said = [
        call.kwargs.get("status", call.args[0] if call.args else "success")
        for call in calls
        if call.function == "terminate"
    ]
    return {"success": "success", "failure": "failure"}.get(str(said[-1])) if said else None


@read_once(4, dict)
def _sizes(path: Path) -> dict[str, tuple[int, int]]:
    """task_id → (width, height) from the merged meta data; lines without a readable resolution are passed over."""
    found: dict[str, tuple[int, int]] = {}
    with path.open("rb") as lines:
        for line in lines:
            try:
                row = json.loads(line)
                values = [value for name, value in row.items() if "resolution" in name.lower()]
                numbers = [int(number) for number in re.findall(r"\d+", json.dumps(values))]
                if len(numbers) == 2 and min(numbers) > 0:
                    found[str(row["task_id"])] = (numbers[0], numbers[1])
            except (ValueError, AttributeError, KeyError, TypeError):
                continue
    return found
