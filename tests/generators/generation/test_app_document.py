"""Documents of apps by the graph that exploring runs left: what they say is carried out in a fresh world."""

from __future__ import annotations

import pytest

from generators.generation.app_document import actions_of, document, effects, run_script, scripts, selector_of
from generators.policies.exploration import Exploration, ExploredScreen, Way
from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from schemas.action_types import Click, PressBack, Type
from tests.support.exploring import POLICIES, explored, script_figure

SAVE = [ScreenElement((0, top, 100, top + 50), "button", "Save", "", "") for top in (0, 100)]
FIELD = ScreenElement((0, 200, 100, 250), "textbox", "", 'Name "short" | <b>', "")
START = (*SAVE, FIELD)
END = (ScreenElement((0, 0, 100, 50), "heading", "Saved `x`", "", "", False),)


def graph(*ways: Way) -> Exploration:
    screens = [ExploredScreen(0, "a", START, (), 0), ExploredScreen(1, "b", END, ("x",), 0)]
    return Exploration([{}], screens, list(ways))


def test_a_selector_finds_its_element_wherever_it_is() -> None:
    assert selector_of(Click((50, 120)), START) == 'button "Save" #2' and selector_of(Click((500, 500)), START) == ""
    moved = tuple(ScreenElement((900, 900, 950, 950), one.role, one.text, one.name, "") for one in START[1:])
    assert actions_of(f"click {selector_of(Click((50, 220)), START)}", moved) == [Click((925, 925))]
    with pytest.raises(WorldError, match='click button "Save" #2, found 1 such'):
        actions_of('click button "Save" #2', moved)
    line = f'type "a \\"b\\"" into {selector_of(Click((50, 220)), START)}'
    assert actions_of(line, START) == [Click((50, 225)), Type('a "b"')]
    assert actions_of("PressBack()", ()) == [PressBack()]


def test_typing_is_one_line_with_the_click_before_it() -> None:
    made = graph(Way(0, "Click(box=(50,225))", 0, "textbox"), Way(0, "Type(content='tea')", 1))
    typed = 'type "tea" into textbox "Name \\"short\\" | <b>"'
    assert effects(made)[0][typed] == {1: 1} and scripts(made) == {0: (), 1: (typed,)}


def test_what_depends_on_what_is_not_seen_is_said() -> None:
    made = graph(Way(0, "Click(box=(50,25))", 0, "button"), Way(0, "Click(box=(50,25))", 1, "button"))
    assert scripts(made) == {0: (), 1: ('click button "Save" #1',)}, "the way that a run took"
    text = document("an app", made)
    assert '| click button "Save" #1 | nothing that is seen or screen 1, shows Saved \\`x\\` |' in text
    assert '| click button "Save" #2 | not tried |' in text
    assert "<b>" not in text, "what a page says is no markup"


def test_scripts_of_documents_do_what_they_say() -> None:
    catalogue = explored(3, 4, POLICIES["explorer"])
    # Nineteen of twenty in the bench's 300; a few depend on what no screen shows.
    assert script_figure(catalogue, 60).value >= 0.9
    [target, *_] = catalogue.explorations
    found = catalogue.explorations[target]
    assert document(target, found).count("\n## Screen ") == len(found.screens)
    with pytest.raises(WorldError):
        run_script(['click button "No such"'], InterpretedWorld(make_site), found.starts[0])
