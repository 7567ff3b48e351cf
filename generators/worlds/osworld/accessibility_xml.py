"""An accessibility tree as OSWorld's evaluators see it, and the rules that select in it.

A node's tag is its role ("push-button"), under one `application` a program. A selector is what CSS has for it, in this
part: `tag`, `*`, `[name="x"]` with `=`, `*=`, `^=`, `$=`, `~=`, states as `[st|checked=true]`, a blank or `>` between
them. XPath, other combinators and toolkits' own attributes are not read (`SelectorError`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_STATES = {"SENSITIVE": "enabled", "SELECTED": "selected", "CHECKED": "checked", "FOCUSED": "focused"}
_STEP = re.compile(r"\s*(>?)\s*([\w-]+|\*)?((?:\[[^\]]*\])*)")
_VALUE = r"(?:\"([^\"]*)\"|'([^']*)'|([^\]\"'\s]+))"
_CONDITION = re.compile(rf"\[\s*(?:(st)\|)?([\w-]+)\s*(?:([*^$~]?=)\s*{_VALUE}\s*)?\]")
_MATCHES = {
    "=": lambda found, wanted: found == wanted,
    "*=": lambda found, wanted: wanted in found,
    "^=": lambda found, wanted: found.startswith(wanted),
    "$=": lambda found, wanted: found.endswith(wanted),
    "~=": lambda found, wanted: wanted in found.split(),
    "": lambda found, wanted: True,
}


class SelectorError(ValueError):
    """A selector outside the part that is read."""


@dataclass
class WindowNode:
    """An item of a window. `attributes`: name, and states as "st|checked"."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    children: "list[WindowNode]" = field(default_factory=list)

    def below(self) -> "Iterator[WindowNode]":
        """All nodes below this one."""
        for child in self.children:
            yield child
            yield from child.below()


@dataclass(frozen=True)
class _SelectorStep:
    direct: bool
    tag: str
    conditions: tuple[tuple[str, str, str], ...]

    def holds(self, node: WindowNode) -> bool:
        return self.tag in ("*", node.tag) and all(
            name in node.attributes and _MATCHES[how](node.attributes[name], wanted)
            for name, how, wanted in self.conditions
        )


def window_nodes(windows: Sequence[Mapping[str, Any]]) -> WindowNode:
    """The windows of a desktop (`accessibility_tree.windows_of`) as one tree, programs below its root."""
    root = WindowNode("desktop-frame", {"name": "main"})
    programs: dict[str, WindowNode] = {}
    for window in windows:
        app = str(window.get("app", ""))
        if app not in programs:
            programs[app] = WindowNode("application", {"name": app})
            root.children.append(programs[app])
        nodes: dict[str, WindowNode] = {}
        for item in window["items"]:
            path = str(item.get("path", ""))
            nodes[path] = _node(item)
            # items come parents first; one whose parent isn't listed hangs below its program
            nodes.get(path.rpartition(".")[0], programs[app]).children.append(nodes[path])
    return root


def _node(item: Mapping[str, Any]) -> WindowNode:
    states = {f"st|{name}": "true" for state, name in _STATES.items() if state in item.get("states", ())}
    tag = str(item.get("role", "")).replace(" ", "-") or "unknown"
    return WindowNode(tag, {"name": str(item.get("name", "")).strip(), **states}, str(item.get("text", "")))


def parse_selector(selector: str) -> list[_SelectorStep]:
    """Raises `SelectorError`."""
    steps, at, text = list[_SelectorStep](), 0, selector.strip()
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or not (found[2] or found[3]) or len(steps) > 50:
            raise SelectorError(f"selector: can't read {text[at : at + 60]!r}")
        conditions = list(_CONDITION.finditer(found[3]))
        if "".join(one[0] for one in conditions) != found[3]:
            raise SelectorError(f"selector: can't read {found[3][:60]!r}")
        read = tuple(
            (f"st|{one[2]}" if one[1] else one[2], one[3] or "", one[4] or one[5] or one[6] or "") for one in conditions
        )
        steps.append(_SelectorStep(bool(found[1]), found[2] or "*", read))
        at = found.end()
    if not steps:
        raise SelectorError("selector: expected one, found none")
    return steps


def select(root: WindowNode, selector: str) -> list[WindowNode]:
    """The nodes below the root that a selector names. Raises `SelectorError`."""
    found = [root]
    for step in parse_selector(selector):
        reached: dict[int, WindowNode] = {}
        for node in found:
            for one in node.children if step.direct else node.below():
                if step.holds(one):
                    reached[id(one)] = one
        found = list(reached.values())
    return found
