"""A sheet of steps of a unified corpus, to look at: what the rule for consequential actions says of records of others.

Nobody has labelled these steps, so the sheet counts nothing: half of it are steps that were recognised, in turn by
kind, the rest others, chosen by hash. Texts are data: all are escaped, and the sheet loads nothing.
"""

import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from pipelines.store.files import StoreError
from quality.evidence.consequence_kinds import KINDS
from quality.evidence.consequences import Consequence, consequences, pressed
from quality.items.item import Episode
from quality.items.screens import Screen
from schemas.actions import Action, format
from schemas.ids import digest

MOST_CHARACTERS = 300
HEAD = """<!doctype html><meta charset="utf-8"><title>Consequential actions</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>body{font:14px/1.4 sans-serif;margin:16px}table{border-collapse:collapse;width:100%}
td,th{border:1px solid #bbb;padding:4px 8px;text-align:left;vertical-align:top}tr.found{background:#fff3d6}
code{word-break:break-all}img{max-width:220px;max-height:300px}</style>
"""


@dataclass(frozen=True)
class SheetStep:
    """A step on the sheet: `number` counts from 0 in its episode; `found` is what the rule says of it.
    `elements` are those that the record names on its screen: without any the rule sees nothing."""

    source: str
    episode: str
    number: int
    goal: str
    action: Action
    label: str
    found: Consequence | None
    elements: int = 0
    picture: bytes | None = None

    @property
    def key(self) -> str:
        return digest([self.source, self.episode, self.number])


def steps_of(episodes: Iterable[Episode]) -> list[SheetStep]:
    """The steps of episodes that have an action, with what the rule says of each."""
    listed = []
    for episode in episodes:
        for step, found in zip(episode.actions, consequences(episode), strict=True):
            if step.action is None:
                continue
            elements = step.screen.elements if step.screen is not None else []
            label = pressed(step.action, elements)
            row, goal = step.row, str(step.row["instruction"])
            shot = _picture(step.screen) if step.screen is not None else None
            listed.append(
                SheetStep(
                    episode.source,
                    str(row["episode_id"]),
                    row["step_index"],
                    goal,
                    step.action,
                    label,
                    found,
                    len(elements),
                    shot,
                )
            )
    return listed


def _picture(screen: Screen) -> bytes | None:
    """A picture's bytes; None where the corpus has the row without it."""
    try:
        return screen.data()
    except StoreError:
        return None


def chosen(steps: Sequence[SheetStep], count: int = 100) -> list[SheetStep]:
    """At most `count` steps: up to half of them recognised ones, kinds in turn, then others; each group by hash."""
    ordered = sorted(steps, key=lambda step: step.key)
    by_kind = [[step for step in ordered if step.found and step.found.kind == kind] for kind in KINDS]
    in_turn = [step for step in chain.from_iterable(zip_longest(*by_kind)) if step is not None]
    others = [step for step in ordered if step.found is None]
    # Where there are fewer of one group, the other fills the sheet.
    recognised = in_turn[: max(count // 2, count - len(others))]
    return [*recognised, *others[: count - len(recognised)]]


def sheet(steps: Sequence[SheetStep], of: int) -> str:
    """The sheet as one HTML page without scripts; `of`: from how many steps these were chosen."""
    found = sum(step.found is not None for step in steps)
    blind = sum(not step.elements for step in steps)
    sources = ", ".join(sorted({step.source for step in steps}))
    lines = [
        HEAD,
        f"<p>{len(steps)} of {of} steps ({html.escape(sources)}); {found} of these were recognised, {blind} have no "
        "elements, so that nothing can be. Nobody has "
        "labelled them: look for what is missed, and for what is called by the wrong name.</p>",
        "<table><tr><th>said<th>on the control<th>why<th>action<th>goal<th>from<th>screen</tr>",
        *map(_row, steps),
        "</table>",
    ]
    return "\n".join(lines) + "\n"


def _row(step: SheetStep) -> str:
    kind = step.found.kind if step.found else "-"
    why = f"{step.found.where}: {step.found.words}" if step.found else ""
    cells = (kind, step.label, why, format(step.action), step.goal, f"{step.source} {step.episode} {step.number}")
    shown = "".join(f"<td>{html.escape(cell[:MOST_CHARACTERS])}" for cell in cells)
    picture = ""
    if step.picture is not None:
        kind_of = "png" if step.picture.startswith(b"\x89PNG") else "jpeg"
        picture = f'<img src="data:image/{kind_of};base64,{base64.b64encode(step.picture).decode()}" alt="">'
    return f"<tr{' class=found' if step.found else ''}>{shown}<td>{picture}</tr>"
