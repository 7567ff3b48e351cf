"""A document of an app that people and models read (after AutoDroid-V2), made from the graph that runs left.

Each screen says how it is reached, what stands on it, and what each action did. Elements are named by selectors, role
and name, never by a place, so that scripts of such lines run where the layout is another.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from generators.policies.exploration import FIELDS, Exploration
from generators.tasks.world_interface import ScreenElement, World, WorldError
from pipelines.markdown_text import markdown_text
from schemas.action_types import CallUser, Click, Finished, Type
from schemas.actions import Action, parse
from schemas.coordinates import contains
from schemas.ids import canonical_json

_TEXT = r'("(?:[^"\\]|\\.)*")'
_LINE = re.compile(rf"(?:click|type {_TEXT} into) (\S+) {_TEXT}(?: #(\d+))?")
MOST_CHANGES = 3
SURE = 2
"""How often an action must have led to the same screen to be sure."""


def selector_of(action: Action, elements: Sequence[ScreenElement]) -> str:
    """What an action clicks: `button "Save" #2` (the second of that role and name); "" where it clicks no element."""
    clicked = (one for one in elements if isinstance(action, Click) and one.clickable and contains(one.box, action.box))
    if (worked := next(clicked, None)) is None:
        return ""
    alike = _alike(elements, worked.role, worked.name or worked.text)
    number = "" if len(alike) == 1 else f" #{1 + alike.index(worked)}"
    return f"{worked.role} {canonical_json(worked.name or worked.text)}{number}"


def _alike(elements: Sequence[ScreenElement], role: str, name: str) -> list[ScreenElement]:
    return [one for one in elements if one.clickable and one.role == role and (one.name or one.text) == name]


def actions_of(line: str, elements: Sequence[ScreenElement]) -> list[Action]:
    """A line of a script as actions on a screen: `click button "Save"`, `type "tea" into textbox "Search"`, or an
    action's canonical text. Raises `WorldError` where its element isn't there."""
    if (said := _LINE.fullmatch(line)) is None:
        return [parse(line)]
    alike, number = _alike(elements, said[2], json.loads(said[3])), int(said[4] or 1)
    if len(alike) < number:
        raise WorldError(f"script: expected what is in {line}, found {len(alike)} such elements")
    return [Click(alike[number - 1].centre), *([Type(json.loads(said[1]))] if said[1] else [])]


def run_script(lines: Sequence[str], world: World, start: Mapping[str, object]) -> tuple[ScreenElement, ...]:
    """Carry a script out from a fresh start; gives what is on the last screen. Raises `WorldError`."""
    world.reset(start)
    seen = world.observe().elements
    for line in lines:
        for action in actions_of(line, seen):
            world.act(action)
        seen = world.observe().elements
    return seen


def lines_of(exploration: Exploration) -> list[tuple[int, str]]:
    """(screen, line of a script) of each way. Where typing goes no screen shows: it is one line with the click before
    it, on the screen of that click."""
    found: list[tuple[int, str]] = []
    field, focused = "", 0
    for way in exploration.ways:
        action, source = parse(way.action), way.source
        selector = selector_of(action, exploration.screens[source].elements)
        line = f"click {selector}" if selector else way.action
        if isinstance(action, Type) and field:
            line, source = f"type {canonical_json(action.content)} into {field}", focused
        field, focused = (selector, source) if way.role in FIELDS else ("", 0)
        found.append((source, line))
    return found


def effects(exploration: Exploration) -> dict[int, dict[str, Counter[int]]]:
    """Screen → what was done there, as a line of a script → how often it led to which screens."""
    found: dict[int, dict[str, Counter[int]]] = {}
    for way, (source, line) in zip(exploration.ways, lines_of(exploration), strict=True):
        # The agent's own words do nothing to an app.
        if not isinstance(parse(way.action), Finished | CallUser):
            found.setdefault(source, {}).setdefault(line, Counter())[way.target] += 1
    return found


def scripts(exploration: Exploration) -> dict[int, tuple[str, ...]]:
    """Screen → a script from the start that leads there: the shortest one by actions that several times led nowhere
    else, or else the way that a run took, for an action may depend on what no screen shows."""
    reached: dict[int, tuple[str, ...]] = {one.number: () for one in exploration.screens if not one.way}
    # Breadth first: the queue grows while it is gone through, so that shorter scripts come first.
    led, queue = effects(exploration), list(reached)
    for here in queue:
        for line, targets in led.get(here, {}).items():
            [(target, times), *others] = targets.most_common()
            if times >= SURE and not others and target not in reached:
                reached[target] = (*reached[here], line)
                queue.append(target)
    said = [line for _, line in lines_of(exploration)]
    for place, way in enumerate(exploration.ways):
        length = len(exploration.screens[way.target].way)
        reached.setdefault(way.target, tuple(said[place + 1 - length : place + 1]))
    return reached


def document(name: str, exploration: Exploration) -> str:
    """The document in Markdown. What pages say stands in it escaped."""
    led = effects(exploration)
    reached, texts = scripts(exploration), [_shown(one.elements) for one in exploration.screens]
    out = [f"# {markdown_text(name)}\n\n{len(texts)} screens, {sum(map(len, led.values()))} actions that were tried.\n"]
    for screen in exploration.screens:
        number, way = screen.number, reached.get(screen.number)
        needs = "no known way" if way is None else "; ".join(map(markdown_text, way)) or "the start"
        out.append(f"\n## Screen {number}: {markdown_text(next(iter(texts[number]), ''), 80)}\n\nNeeds: {needs}.\n")
        # What was never tried is said, too: its effect isn't known.
        tried = led.get(number, {})
        lines = {f"click {selector_of(Click(one.centre), screen.elements)}" for one in screen.elements if one.clickable}
        out.append("\n| action | effect |\n|---|---|\n")
        out += [f"| {markdown_text(line)} | {_effect(number, to, texts)} |\n" for line, to in tried.items()]
        out += [f"| {markdown_text(line)} | not tried |\n" for line in sorted(lines - tried.keys())]
    return "".join(out)


def _shown(elements: Sequence[ScreenElement]) -> list[str]:
    """What a screen says, its headings first; each text once."""
    ordered = sorted(elements, key=lambda one: one.role != "heading")
    return list(dict.fromkeys(text for one in ordered if (text := one.text or one.name)))


def _effect(source: int, targets: Iterable[int], texts: Sequence[Sequence[str]]) -> str:
    """The screens that an action led to, and the first texts that are new there; several: it depends on what isn't
    seen."""
    said = []
    for target in targets:
        new = [text for text in texts[target] if text not in texts[source]][:MOST_CHANGES]
        shows = f", shows {'; '.join(markdown_text(text, 60) for text in new)}" if new else ""
        said.append("nothing that is seen" if target == source else f"screen {target}{shows}")
    return " or ".join(said)
