"""How many scripted actions come back from recordings of them, and how many states: python bench/recordings.py [SEED]

Drawn screens, 500 actions in 25 recordings: hands that tremble, wheels in notches, typing with slips, keys that repeat,
windows that slide in, pages that change by themselves, noise in every frame. No browser; seconds of CPU.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, share
from pipelines import sources
from pipelines.mapping.adapter import Raw, Record
from pipelines.native.input_events import key_frames, look, read_input
from schemas import actions
from schemas.action_types import ACTION_SPACE
from schemas.coordinates import point_to_unit

SIZE = (192, 144)
RECORDINGS, ACTIONS = 25, 20
FRAME_S = 0.25
LEAST_EQUAL, LEAST_RECALL = 0.98, 0.95
WORDS = ("Hello World", "tea at 5", "naïve café", "12 eggs", "茶と水", "Ann Lee")


@dataclass
class Script:
    """A recording in the making: its events, the right actions, and when each state began."""

    rng: Random
    platform: str
    now: float = 1.0
    events: list[dict[str, object]] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    changes: list[float] = field(default_factory=lambda: [0.0])

    def say(self, event: str, **more: object) -> None:
        """An event, a moment later."""
        self.now += self.rng.uniform(0.02, 0.06)
        self.events.append({"t": round(self.now, 3), "event": event, **more})

    def spot(self) -> tuple[int, int]:
        """A point of the screen, in px, with room for a trembling hand."""
        return self.rng.randrange(10, SIZE[0] - 10), self.rng.randrange(10, SIZE[1] - 10)

    def press(self, at: tuple[int, int], held_s: float = 0.0) -> None:
        """A press that trembles."""
        self.say("down", x=at[0], y=at[1])
        self.now += held_s
        self.say("up", x=at[0] + self.rng.randint(-3, 3), y=at[1] + self.rng.randint(-3, 3))

    def settle(self) -> None:
        """What was done shows within half a second; sometimes the screen changes by itself as well."""
        self.changes.append(self.now + self.rng.uniform(0.05, 0.3))
        self.now = self.changes[-1] + self.rng.uniform(1.1, 1.6)
        if self.rng.random() < 0.2:
            self.changes.append(self.now)
            self.now += self.rng.uniform(1.1, 1.6)


def act(script: Script, kind: str) -> None:
    """One action of a kind: its events, and what should come of them."""
    rng, at = script.rng, script.spot()
    unit = point_to_unit(at, SIZE)
    if kind == "click":
        script.press(at)
        script.expected.append(actions.format(actions.Click(unit)))
    elif kind == "double":
        script.press(at)
        script.press(at)
        script.expected.append(actions.format(actions.DoubleClick(unit)))
    elif kind == "hold":
        script.press(at, held_s=0.8)
        script.expected.append(actions.format(actions.LongPress(unit)))
    elif kind in ("drag", "swipe"):
        to = ((at[0] + SIZE[0] // 2) % (SIZE[0] - 20) + 5, (at[1] + SIZE[1] // 3) % (SIZE[1] - 20) + 5)
        script.say("down", x=at[0], y=at[1])
        script.now += 0.7 if kind == "drag" else 0.0
        for part in (1, 2, 3):
            script.say("move", x=at[0] + (to[0] - at[0]) * part / 3, y=at[1] + (to[1] - at[1]) * part / 3)
        script.say("up", x=to[0], y=to[1])
        end = point_to_unit(to, SIZE)
        found = (
            actions.Scroll(unit, end, actions.scroll_direction(unit, end, SIZE))
            if kind == "swipe"
            else actions.Drag(unit, end)
        )
        script.expected.append(actions.format(found))
    elif kind == "wheel":
        side, sign = rng.choice((("dy", 1), ("dy", -1), ("dx", 1))), 1
        for _ in range(rng.randint(1, 8)):
            script.say("wheel", x=at[0], y=at[1], **{side[0]: 120 * side[1] * sign})
        words = {("dy", 1): "down", ("dy", -1): "up", ("dx", 1): "right"}
        script.expected.append(actions.format(actions.Scroll(direction=words[side])))
    elif kind == "type":
        write(script, rng.choice(WORDS))
    elif kind == "keys":
        keys = rng.choice((("ctrl", "c"), ("ctrl", "shift", "t"), ("alt", "f4"), ("tab",), ("escape",), ("Return",)))
        for key in keys[:-1]:
            script.say("key_down", key=key)
        # A key that is held repeats itself in a combination; alone each is a key of its own.
        for _ in range(rng.randint(1, 3) if len(keys) > 1 else 1):
            script.say("key_down", key=keys[-1])
        for key in reversed(keys):
            script.say("key_up", key=key)
        script.expected.append(actions.format(actions.pressed(tuple(key.lower() for key in keys))))
    else:
        script.say("key_down", key="back")
        script.expected.append(actions.format(actions.PressBack()))


def write(script: Script, text: str) -> None:
    """Keys that write a text, with slips; what no key writes comes by an input method."""
    for char in text:
        if script.rng.random() < 0.1:
            script.say("key_down", key="x")
            script.say("key_down", key="backspace")
        if ord(char) > 127:
            script.say("text", text=char)
        elif char.isupper():
            script.say("key_down", key="shift")
            script.say("key_down", key=char.lower())
            script.say("key_up", key="shift")
        else:
            script.say("key_down", key=char)
    script.expected.append(actions.format(actions.Type(text)))


KINDS = {
    "desktop": ("click", "double", "drag", "wheel", "type", "keys"),
    "mobile": ("click", "double", "hold", "drag", "swipe", "type", "back"),
}


def scripted(rng: Random, platform: str) -> Script:
    """A recording of `ACTIONS` actions. Between two typings something else is done: they would be one text."""
    script, before = Script(rng, platform), ""
    for _ in range(ACTIONS):
        before = rng.choice([kind for kind in KINDS[platform] if kind != before or kind != "type"])
        act(script, before)
        script.settle()
    return script


def frames(script: Script) -> Iterator[tuple[int, bytes]]:
    """(ms, picture) of each frame; a new state slides in over a frame, and every pixel is noisy."""
    noise, draws = np.random.default_rng(script.rng.randrange(1 << 30)), {}
    for number in range(int(script.now / FRAME_S)):
        at = number * FRAME_S
        state = max(place for place, begun in enumerate(script.changes) if begun <= at)
        slid = min(1.0, (at - script.changes[state] + FRAME_S) / (2 * FRAME_S)) if state else 1.0
        if (state, slid) not in draws:
            draws[state, slid] = np.asarray(drawn(state, slid), dtype=np.int16)
        pixels = np.clip(draws[state, slid] + noise.integers(-5, 6, (*SIZE[::-1], 1)), 0, 255).astype(np.uint8)
        out = BytesIO()
        Image.fromarray(pixels).save(out, "PNG", compress_level=1)
        yield round(1000 * at), out.getvalue()


def drawn(state: int, slid: float) -> Image.Image:
    """A page with a list and a box of its own for each state, that comes in from the left."""
    image = Image.new("RGB", SIZE, (245, 245, 245))
    draw = ImageDraw.Draw(image)
    for line in range(6):
        draw.text((10, 6 + 14 * line), f"Row {line}", fill=(40, 40, 40))
    left = round((10 + 9 * (state % 17)) * slid)
    draw.rectangle((left, 100, left + 8, 108), fill=(30, 90, 160))
    draw.text((140, 122), f"{state}", fill=(20, 20, 20))
    return image


def figures(seed: int) -> list[Figure]:
    """What came back of `RECORDINGS` recordings."""
    equal = whole = seen = states = kept = 0
    wrong: list[str] = []
    for number in range(RECORDINGS):
        rng = Random(f"{seed}/{number}")
        script = scripted(rng, ("desktop", "mobile")[number % 2])
        with tempfile.TemporaryDirectory() as folder:
            found, times = recorded(script, Path(folder))
        blocks = SequenceMatcher(None, script.expected, found, autojunk=False).get_matching_blocks()
        equal, whole = equal + sum(block.size for block in blocks), whole + len(script.expected)
        wrong += [f"{number}: {one}" for one in script.expected if one not in found]
        # A state that no settled frame shows can't be found: each lasts a second.
        ends = [*script.changes[1:], script.now]
        seen += sum(any(begun <= at < end for at in times) for begun, end in zip(script.changes, ends, strict=True))
        states, kept = states + len(script.changes), kept + len(times)
    return [
        Figure("actions equal", equal / whole, f"{equal} of {whole}", LEAST_EQUAL, examples=tuple(wrong)),
        share("key frames: states found (recall)", seen, states, LEAST_RECALL),
        share("key frames: that show a new state (precision)", min(seen, kept), kept),
    ]


def recorded(script: Script, folder: Path) -> tuple[list[str], list[float]]:
    """A recording written to a folder and read again → the actions of its rows, the times of its key frames (s)."""
    (folder / "frames").mkdir()
    head = {"task": "Do it", "platform": script.platform, "size": SIZE}
    (folder / "recording.json").write_text(json.dumps(head))
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in script.events))
    times, looks = [], []
    for at_ms, data in frames(script):
        (folder / "frames" / f"{at_ms}.png").write_bytes(data)
        times.append(at_ms / 1000)
        looks.append(look(data))
    adapter, raw = sources.get("recordings"), Raw(folder)
    [record] = adapter.records(raw, ("recording.json",))
    assert isinstance(record, Record), record
    rows = adapter.map(record, raw).steps
    gestures = read_input(script.events, SIZE, script.platform, ACTION_SPACE)
    kept = key_frames(times, looks, [gesture.begins for gesture in gestures])
    return [row["action_text"] for row in rows if row["action_text"]], [times[place] for place in kept]


def main() -> int:
    found = figures(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(*found, sep="\n")
    return 0 if all(figure.fine for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
