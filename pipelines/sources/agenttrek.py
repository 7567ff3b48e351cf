"""AgentTrek: web steps replayed from tutorials, as chats of text; element ids, no coordinates, no pictures.

Licence: none stated for the data (its model is apache-2.0).

A raw row of `agenttrek_1207.json` (made up, shortened; the field names are not published, so a chat under `messages` or
`conversations` or a bare list of turns is read, and everything else is refused as `unknown_schema`):

    {"messages": [{"role": "user", "content": "...\\n## Goal:\\nFind a tea pot\\n\\n# Observation ...[12] button 'Go'"},
                  {"role": "assistant", "content": "I need the button.\\n<action>\\nclick('12')\\n</action>"}]}

| native | unified |
|---|---|
| click, dblclick, hover, select_option, focus, clear, drag_and_drop (element ids) | rejected (`no_coordinates`) |
| fill(id, text) | Type(text); lossy: the field has no place |
| press(id, keys) | PressEnter for Enter, else Hotkey; lossy: the element has no place |
| scroll(dx, dy) | Scroll(direction) along the longer side; positive dy is down; lossy: how far isn't kept |
| goto(url) | Launch(url) |
| go_back() | PressBack |
| noop() | Wait |
| send_msg_to_user(text) | Finished(text) |
| go_forward, new_tab, tab_focus, tab_close | rejected (`no_counterpart`) |

A row is an episode of its own, an assistant turn a step: rows name no episode, so what came before them is unknown
(`steps_before_are_rows_of_their_own`). The action stands between <action> tags or in the last fence; what stands before
it is the thought. Several calls in one turn are taken whole or not at all.
"""

import re
from collections.abc import Iterator

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.mapping.points import wheel_direction
from pipelines.native.chat import said_by, turns
from pipelines.native.pyautogui import PyAutoGuiCall, parse_script
from pipelines.native.record_readers import count_of, json_lines, json_list
from schemas.actions import Action, Finished, Hotkey, Launch, PressBack, PressEnter, Scroll, Type, Wait, pressed
from schemas.ids import digest

_CHATS = ("messages", "conversations")
_NO_PLACE = ("click", "dblclick", "hover", "select_option", "focus", "clear", "drag_and_drop")
_NO_TWIN = ("go_forward", "new_tab", "tab_focus", "tab_close")
_SEVERAL = "several calls"
_OTHER = "other actions"
_GOAL = re.compile(r"^#+[ \t]*Goal:?[ \t]*\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_TAGGED = re.compile(r"<action>(.*?)</action>", re.DOTALL)
_FENCE = re.compile(r"```(?:python)?(.*?)```", re.DOTALL)
_THINK = re.compile(r"</?(?:think|thought)>")

DESCRIPTOR = Descriptor(
    id="agenttrek",
    title="AgentTrek",
    licence="none stated",
    platforms=("web",),
    size="52,594 turns, 1.81 GB of text",
    citation="Xu et al., AgentTrek: Agent Trajectory Synthesis via Guiding Replay with Web Tutorials, arXiv 2412.09605",
    frame="none: element ids of an accessibility tree without boxes",
    known_problems=(
        "no coordinates and no pictures: clicks can't be mapped",
        "replayed by a model along tutorials",
        "field names are not published: what differs from a chat is refused",
    ),
    loss=(
        *(Loss(word, "-", "dropped", "no_coordinates") for word in _NO_PLACE),
        Loss("fill", "Type", "lossy", "the field has no place"),
        Loss("press", "PressEnter, Hotkey", "lossy", "the element has no place; over three keys: no_counterpart"),
        Loss("scroll", "Scroll(direction)", "lossy", "how far isn't kept"),
        Loss("goto", "Launch(url)", "kept"),
        Loss("go_back", "PressBack", "kept"),
        Loss("noop", "Wait", "kept", "lossy with a time"),
        Loss("send_msg_to_user", "Finished", "kept"),
        *(Loss(word, "-", "dropped", "no_counterpart") for word in _NO_TWIN),
        Loss(_SEVERAL, "several actions", "lossy", "one turn; dropped if one of its calls is"),
        Loss(_OTHER, "-", "dropped", "unknown_action:<word>, or no action at all"),
        Loss("the accessibility tree", "-", "lossy", "stays in the raw file"),
    ),
    download=Download("xlangai/AgentTrek", files=("*.json",)),
)


class AgenttrekAdapter(Adapter):
    """One record per row."""

    descriptor = DESCRIPTOR
    patterns = ("**/*.json", "**/*.jsonl", "**/*.parquet")
    rows_alone = (".jsonl",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One row at a time."""
        for file in files:
            if file.endswith(".jsonl"):
                yield from json_lines(raw, file, count=count_of('"assistant"'))
            elif file.endswith(".json"):
                yield from json_list(raw, file, count=count_of('"assistant"'))
            else:
                yield Broken(file, "file", "unknown_schema", "expected agenttrek_1207.json")

    def count_items(self, record: Record) -> int:
        """As many as the chat has turns of assistant."""
        payload = record.payload if isinstance(record.payload, dict) else {}
        return max(said_by(payload.get("messages") or payload.get("conversations"), "assistant", "gpt"), 1)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → step rows. Raises `RecordError`: unknown_schema, missing_field, empty_text, unknown_role."""
        row = record.payload
        listed = row
        if isinstance(row, dict):
            # The chat stands under one of several names; two of them would contradict each other.
            names = [name for name in _CHATS if name in row]
            if len(names) != 1:
                raise RecordError("unknown_schema", f"expected one of {_CHATS}, found {sorted(row)[:8]}")
            listed = row[names[0]]
        chat = turns(listed)
        acts = [(place, turn) for place, turn in enumerate(chat) if turn.role == "assistant"]
        if not acts:
            raise RecordError("missing_field", "no turn of the assistant")
        # The goal stands in the prompt, under a heading of its own.
        goals = [goal for turn in chat if turn.role != "assistant" for goal in _GOAL.findall(turn.text)]
        if not goals:
            raise RecordError("missing_field", "no heading Goal in the prompt", len(acts))
        goal = goals[0].strip()
        if not goal or not is_text(goal):
            raise RecordError("empty_text" if not goal else "bad_value", "the goal", len(acts))
        # Only the file's name tells.
        split = "test" if "test" in record.file.rpartition("/")[2].lower() else "train"
        builder = EpisodeBuilder(
            # By its content: rows have no id.
            self.descriptor,
            record,
            episode_id=f"row-{digest(listed)}",
            instruction=goal,
            split=split,
        )
        builder.gap("steps_before_are_rows_of_their_own")
        for index, (_, turn) in enumerate(acts):
            try:
                thought, word, actions, lossy = _read(turn.text)
            except ItemError as error:
                builder.reject(error.reason, native=turn.text, native_index=index, word=error.word, detail=error.detail)
                continue
            # Typing goes to what has the focus, and that isn't told.
            rules = ["focus_unknown"] if any(isinstance(one, Type | PressEnter | Hotkey) for one in actions) else []
            builder.add(actions, turn.text, index, word, None, rules=rules, thought=thought or None, lossy=lossy)
        found = unknown_fields(row, frozenset(_CHATS)) if isinstance(row, dict) else []
        return notices(builder.finish(), found)


def _read(said: str) -> tuple[str, str, list[Action], bool]:
    """Thought, native word, actions, whether something is lost. Raises `ItemError`."""
    # The last marked part is the action; what stands before it is thought.
    marked = list(_TAGGED.finditer(said)) or list(_FENCE.finditer(said))
    code, before = (marked[-1][1].strip(), said[: marked[-1].start()]) if marked else (said.strip(), "")
    if not is_text(said):
        raise ItemError("bad_value", "not Unicode text", _OTHER)
    try:
        calls = parse_script(code)
    except ItemError as error:
        raise ItemError("bad_value", f"no call: {code[:80]!r}", _OTHER) from error
    if not calls:
        raise ItemError("missing_field", "no action in the turn", _OTHER)
    parts = [_made(call) for call in calls]
    thought = _THINK.sub("", before).strip()
    word = parts[0][0] if len(parts) == 1 else _SEVERAL
    return thought, word, [one[1] for one in parts], any(one[2] for one in parts)


def _made(call: PyAutoGuiCall) -> tuple[str, Action, bool]:
    """Native word, action, whether something is lost. Raises `ItemError`."""
    if call.error is not None:
        raise ItemError("bad_value", f"no call of literals: {call.error.detail}"[:120], _OTHER)
    word, values = call.name, [*call.args, *call.kwargs.values()]
    if word in _NO_PLACE:
        raise ItemError("no_coordinates", "an element's id, and no box of it", word)
    if word in _NO_TWIN:
        raise ItemError("no_counterpart", word, word)
    if word == "go_back":
        return word, PressBack(), False
    if word == "noop":
        return word, Wait(), bool(values)
    if word == "scroll":
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < 1e9]
        if len(numbers) != 2 or len(values) != 2 or numbers == [0, 0]:
            raise ItemError("bad_value", f"scroll: expected dx, dy, found {values!r:.60}", word)
        return word, Scroll(direction=wheel_direction(*numbers)), True
    if word not in ("fill", "press", "goto", "send_msg_to_user"):
        raise ItemError(f"unknown_action:{word[:60]}", f"{values!r:.80}", _OTHER)
    wanted = 2 if word in ("fill", "press") else 1
    if len(values) != wanted or not isinstance(values[-1], str) or not is_text(values[-1]):
        raise ItemError("bad_value", f"{word}: expected {wanted} arguments, the last a text: {values!r:.60}", word)
    text = values[-1]
    if word == "send_msg_to_user":
        return word, Finished(text), False
    if not text.strip():
        raise ItemError("empty_text", f"{word} without text", word)
    if word == "fill":
        # What `fill` replaces, `Type` adds to.
        return word, Type(text), True
    if word == "goto":
        return word, Launch(url=text.strip()), False
    keys = tuple(key.strip().lower() for key in text.split("+"))
    if not all(keys):
        raise ItemError("bad_value", f"press: {text[:60]!r}", word)
    # The action space has at most three keys.
    if len(keys) > 3:
        raise ItemError("no_counterpart", f"{len(keys)} keys at once", word)
    return word, pressed(keys), True
