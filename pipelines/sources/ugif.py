"""UGIF-DataSet: how-to tasks on Android with recorded actions, asked in eight languages.

One folder per task under `train/`, `val/` or `test/`, with screenshots, view hierarchies (XML), speech and one JSON.
The names of its fields are not published. What is read is this (made up, shortened); a record without these fields
is refused (`unknown_schema`), every other field is named in the quarantine (`unknown_field:<name>`):

    {"instruction": {"en": "Block a number", "hi": "..."}, "actions": [
        {"action": "tap", "bounds": "[0,100][200,300]", "screenshot": "0.png", "view_hierarchy": "0.xml",
         "text": "Phone"}, {"action": "completion", "screenshot": "1.png"}]}

| native | unified |
|---|---|
| tap | Click(centre of the bounds; without them, of the only element of the hierarchy with the text) |
| toggle | Click, lossy, if the switch's state differs from the value; else rejected (`no_counterpart`) |
| scroll up, down | rejected (`ambiguous_direction`): whether the view's or the finger's isn't said |
| home, back | PressHome, PressBack |
| prompt | CallUser(text) |
| completion | Finished; the episode's outcome is success |
| error | Finished, lossy; the episode's outcome is failure |

Pixels of the screenshot, x first. An episode per task and language, each with the task's actions; English comes first.
The split is the folder's.
"""

import re
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.frames import sides_of
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import count_of, json_document
from schemas.actions import Action, CallUser, Click, Finished, PressBack, PressHome
from schemas.coordinates import centre_in_units

LANGUAGES = ("en", "kn", "mr", "gu", "hi", "bn", "sw", "es")
_SPLITS = {"train": "train", "val": "validation", "test": "test"}
_WORDS = ("tap", "toggle", "scroll", "home", "back", "prompt", "completion", "error")
_OTHER = "other actions"
_TASK = frozenset({"instruction", "actions"})
_STEP = frozenset({"action", "bounds", "screenshot", "view_hierarchy", "text", "value"})
_BOUNDS = re.compile(r"\[(-?\d{1,6}),(-?\d{1,6})\]\[(-?\d{1,6}),(-?\d{1,6})\]")
_STATES = {"on": "true", "off": "false", "true": "true", "false": "false"}

DESCRIPTOR = Descriptor(
    id="ugif",
    title="UGIF-DataSet (UI Grounded Instruction Following)",
    origin="https://github.com/google-research/google-research/tree/master/ugif",
    licence="CC-BY-4.0",
    platforms=("mobile",),
    language="en, kn, mr, gu, hi, bn, sw, es",
    size="523 tasks in 8 languages (train 152, validation 106, test 265), 3,312 screens",
    citation="Venkatesh et al., UGIF: UI Grounded Instruction Following, arXiv 2211.07615",
    frame="pixels of the screenshot, x first, origin top left",
    record_unit="episode",
    known_problems=(
        "30 % of the how-tos contain errors, as the interface changed since they were written",
        "field names are not published: what differs from the form read here is refused",
        "screens may exist in English only",
    ),
    loss=(
        Loss("tap", "Click", "kept"),
        Loss("toggle", "Click", "lossy", "the value wanted isn't kept; nothing to do: no_counterpart"),
        Loss("scroll", "-", "dropped", "ambiguous_direction: the view's or the finger's isn't said"),
        Loss("home", "PressHome", "kept"),
        Loss("back", "PressBack", "kept"),
        Loss("prompt", "CallUser", "kept"),
        Loss("completion", "Finished", "kept"),
        Loss("error", "Finished", "lossy", "episode_outcome = failure says it"),
        Loss(_OTHER, "-", "dropped", "unknown_action:<word>, or no word"),
        Loss("speech", "-", "dropped", "sound has no column"),
    ),
)


class UgifAdapter(Adapter):
    """One record per task and language."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = ("task/actions",)

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """Tasks by split (a JSON outside the three folders is a part of its own)."""
        groups: dict[str, list[str]] = {}
        for name in raw.files("**/*.json"):
            groups.setdefault(_split(name) or name, []).append(name)
        return [tuple(group) for _, group in sorted(groups.items())]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """A task once for each of its languages, English first."""
        for file in files:
            if _split(file) is None:
                yield Broken(file, "file", "unknown_schema", "expected train, val or test among the folders")
                continue
            task = file.rpartition("/")[0]
            for found in json_document(raw, file, of_id=lambda row, task=task: task, count=count_of('"action"')):  # type: ignore[misc]
                if isinstance(found, Broken):
                    yield found
                    continue
                asked = found.payload.get("instruction") if isinstance(found.payload, dict) else None
                if not isinstance(asked, Mapping) or not asked:
                    yield Record(file, "document", {"task": found.payload, "language": "en"}, task)
                    continue
                # English first, then as listed: the order of the file says nothing.
                order = [code for code in LANGUAGES if code in asked]
                for code in [*order, *(code for code in asked if code not in LANGUAGES)]:
                    yield Record(file, code[:20], {"task": found.payload, "language": code}, f"{task}/{code}")

    def map(self, record: Record, raw: Raw) -> Mapped:
        """A task in one language → step rows. Raises `RecordError`: unknown_schema, missing_field, empty_text."""
        task, code = record.payload["task"], record.payload["language"]
        steps = task.get("actions") if isinstance(task, dict) else None
        asked = task.get("instruction") if isinstance(task, dict) else None
        if not isinstance(steps, list) or not isinstance(asked, str | Mapping):
            keys = sorted(task)[:12] if isinstance(task, dict) else type(task).__name__
            raise RecordError("unknown_schema", f"expected instruction and actions, found {keys}")
        if isinstance(asked, Mapping) and code not in LANGUAGES:
            raise RecordError(f"unknown_language:{code[:20]}", f"expected one of {LANGUAGES}", len(steps))
        goal = asked.get(code) if isinstance(asked, Mapping) else asked
        if not isinstance(goal, str) or not is_text(goal) or not goal.strip():
            reason = "empty_text" if isinstance(goal, str) and is_text(goal) else "missing_field"
            raise RecordError(reason, f"instruction in {code}", len(steps))
        # How it ended is said by the last step alone.
        last = steps[-1].get("action") if steps and isinstance(steps[-1], Mapping) else None
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            instruction=goal.strip(),
            language=code,
            split=_split(record.file) or "train",
            outcome={"completion": "success", "error": "failure"}.get(str(last)),
        )
        found = unknown_fields(task, _TASK)
        for place, step in enumerate(steps):
            found += unknown_fields(step, _STEP) if isinstance(step, Mapping) else []
            _step(builder, raw, record.file, step, place)
        return notices(builder.finish(), found)


def _split(name: str) -> str | None:
    return next((_SPLITS[folder] for folder in name.split("/")[:-1] if folder in _SPLITS), None)


def _step(builder: EpisodeBuilder, raw: Raw, file: str, step: object, place: int) -> None:
    word = _OTHER
    try:
        if not isinstance(step, Mapping):
            raise ItemError("bad_value", f"expected an object, found {type(step).__name__}", word)
        said = step.get("action")
        if said not in _WORDS:
            raise ItemError(f"unknown_action:{str(said)[:60]}", f"expected one of {_WORDS}", word)
        word = str(said)
        screen, nodes = _screen(raw, file, step)
        actions, box, rules = _made(word, step, screen, nodes)
    except (ItemError, RecordError) as error:
        builder.reject(error.reason, native=step, native_index=place, word=word, detail=error.detail)
        return
    builder.add(actions, step, place, word, screen, rules=rules, target_box=box, lossy=word in ("toggle", "error"))


def _screen(raw: Raw, file: str, step: Mapping[str, object]) -> tuple[RecordScreen, list[Mapping[str, str]]]:
    """The step's screen with its elements, and the hierarchy's nodes (empty if there is none that can be read)."""
    base = file.rpartition("/")[0]
    data, tree = (
        raw.read_if_there(f"{base}/{name}") if isinstance(name, str) else None
        for name in (step.get("screenshot"), step.get("view_hierarchy"))
    )
    screen = RecordScreen.load(data, normalised=True)
    nodes: list[Mapping[str, str]] = []
    if tree is not None and b"<!DOCTYPE" not in tree:  # without a DOCTYPE there are no entities to blow up
        try:
            nodes = [node.attrib for node in ElementTree.fromstring(tree).iter()]
        except (ElementTree.ParseError, ValueError):
            nodes = []
    if screen.width_px is None or screen.height_px is None:
        return screen, nodes
    elements = []
    for node in nodes:
        text, name = node.get("text", "").strip(), node.get("content-desc", "").strip()
        match = _BOUNDS.fullmatch(node.get("bounds", ""))
        # What has no words can't be asked for.
        if match is None or not (text or name):
            continue
        try:
            box = list(unit_box([int(side) for side in match.groups()], (screen.width_px, screen.height_px), "?"))
        except ItemError:
            continue
        elements.append({"box": box, "role": node.get("class", "").rpartition(".")[2], "text": text, "name": name})
    return RecordScreen.load(data, elements), nodes


def _made(
    word: str, step: Mapping[str, object], screen: RecordScreen, nodes: list[Mapping[str, str]]
) -> tuple[Action, tuple[float, float, float, float] | None, list[str]]:
    """Action, the target's box, rules. Raises `ItemError`."""
    if word in ("home", "back"):
        return PressHome() if word == "home" else PressBack(), None, []
    if word in ("completion", "error"):
        return Finished(""), None, []
    if word == "scroll":
        raise ItemError("ambiguous_direction", f"scroll {step.get('value')!r:.40}: the view's or the finger's?", word)
    text = step.get("text")
    if word == "prompt":
        if not isinstance(text, str) or not is_text(text):
            raise ItemError("missing_field", f"text: expected a text, found {text!r:.60}", word)
        if not text.strip():
            raise ItemError("empty_text", "prompt without text", word)
        return CallUser(text.strip()), None, []
    bounds, rules = step.get("bounds"), ["centre_of_box"]
    if bounds is None:
        # An element that is named but not placed: found by its words, if only one has them.
        named = [
            node
            for node in nodes
            if isinstance(text, str)
            and text.strip()
            and text.strip() in (node.get("text", "").strip(), node.get("content-desc", "").strip())
        ]
        if len(named) != 1:
            raise ItemError("no_coordinates", f"no bounds, and {len(named)} elements named {text!r:.60}", word)
        bounds, rules = named[0].get("bounds"), [*rules, "element_by_text"]
    match = _BOUNDS.fullmatch(bounds) if isinstance(bounds, str) else None
    if match is None:
        raise ItemError("bad_box", f"bounds: expected [l,t][r,b], found {bounds!r:.60}", word)
    size = sides_of(screen, "no picture says how large the screen is", word)
    box = unit_box([int(side) for side in match.groups()], size, word)
    if word == "toggle":
        wanted = _STATES.get(str(step.get("value")).lower())
        # The value is what the switch should be in the end.
        switches = [node for node in nodes if node.get("bounds") == bounds and node.get("checkable") == "true"]
        states = {node.get("checked") for node in switches}
        if wanted is None or len(states) != 1:
            raise ItemError("bad_value", f"value {step.get('value')!r:.40}, states {sorted(map(str, states))}", word)
        if states == {wanted}:
            raise ItemError("no_counterpart", "the switch is as wanted: nothing is done", word)
        rules.append("state_differs")
    return Click(centre_in_units(box)), box, rules
