"""The world of static pages: what it shows is the same every time, and nothing outside its folder is reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from static_site import begin, press, write_pages

from generators.devices.browser import BrowserMissing, find_chromium
from generators.tasks.world_interface import UnsupportedAction, WorldError
from generators.worlds.static_pages.static_pages_world import WebWorld, open_web
from schemas.action_types import Click, Drag, Finished, Hotkey, Hover, Launch, PressBack, PressEnter, Scroll, Type, Wait
from schemas.ids import digest

pytestmark = pytest.mark.usefixtures("shared_chromium")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebWorld]:
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    with open_web(write_pages(tmp_path_factory.mktemp("web")), "small") as opened:
        yield opened


def test_the_same_page_looks_the_same_on_every_visit(world: WebWorld) -> None:
    shots = []
    for _ in range(2):
        begin(world)
        shots.append(world.observe())
    assert shots[0].png == shots[1].png and shots[0].state == shots[1].state == digest(world.state())
    assert world.state()["theme"]["data-seen"] == "1"  # nothing is kept from the visit before
    assert "Wed Jan 01 2025" in world.page.inner_text("#when")
    world.act(Wait())
    later = world.observe()
    assert later.png != shots[0].png  # the page's own clock runs when it is let


def test_links_stay_in_the_folder(world: WebWorld) -> None:
    begin(world)
    for name in ("Way out", "Far away"):
        before = world.state()["blocked"]
        press(world, name)
        assert world.state()["page"] == "index.html" and world.state()["blocked"] == before + 1
    press(world, "Deep page")
    assert world.state()["page"] == "sub/deep.html"
    press(world, "Up")  # a folder stands for its index
    assert world.state()["page"] == "index.html"
    for _ in range(4):
        world.act(PressBack())  # not farther back than the start
    assert world.state()["page"] == "index.html"
    world.act(Launch(url="lists.html"))
    for away in ((world.folder.parent / "secret.html").as_uri(), "http://[news", "file://[news/lists.html"):
        world.act(Launch(url=away))
    assert world.state()["page"] == "lists.html"
    world.act(Hotkey(("alt", "left")))
    assert world.state()["page"] == "index.html"
    with pytest.raises(WorldError, match=r"no page '\.\./secret\.html'"):
        begin(world, "../secret.html")
    with pytest.raises(UnsupportedAction, match="no action Drag"):
        world.act(Drag((1, 1), (9, 9)))
    with pytest.raises(WorldError, match="no key is named 'nonsense'"):
        world.act(Hotkey(("ctrl", "nonsense")))


def test_a_link_that_is_no_address_leads_nowhere(world: WebWorld) -> None:
    begin(world)
    world.page.evaluate("document.querySelector('nav a').setAttribute('href', 'http://[news')")
    press(world, "Home")
    assert world.state()["page"] == "index.html" and world.state()["blocked"] == 1


def test_a_script_that_leaves_the_folder_is_stopped(world: WebWorld) -> None:
    begin(world)
    secret = (world.folder.parent / "secret.html").as_uri()
    world.page.evaluate("url => { document.body.onclick = () => { location.href = url; }; }", secret)
    with pytest.raises(WorldError):
        world.act(Click((900, 900)))
        world.act(Wait())
    assert "Secret" not in world.page.content()
    begin(world)
    assert world.state()["page"] == "index.html"


def test_state_tells_what_was_done(world: WebWorld) -> None:
    begin(world)
    at = {seen.label: seen.key for seen in world.see(everything=True)}
    press(world, "Opening hours")
    press(world, "Reviews")
    state = world.state()
    assert state["expanded"][at["Opening hours"]] is True and state["expanded"][at["More about us"]] is False
    assert state["active"] == {at["Reviews"]: True} and state["shown"] == {"#less": True}
    world.act(Scroll(direction="down"))
    assert world.state()["scroll"] == 400
    world.act(Scroll((500, 300), (500, 700)))  # a path alone says the direction too
    assert world.state()["scroll"] == 0
    world.act(Scroll((500, 700), (500, 300)))
    assert world.state()["scroll"] == 400
    world.act(Scroll(direction="up"))
    world.act(Scroll(direction="up"))
    assert world.state()["scroll"] == 0
    world.act(Hover((500, 500)))
    world.act(Finished())
    assert not any("." in key for part in ("values", "checked", "expanded") for key in world.state()[part])


def test_a_form_is_sent_as_it_was_filled(world: WebWorld) -> None:
    begin(world, "form-plain.html")
    at = {seen.label: seen.key for seen in world.see()}
    press(world, "City")
    world.act(Hotkey(("ctrl", "a")))
    world.act(Type("Porto"))
    press(world, "Gift wrap")
    state = world.state()
    assert (
        state["values"][at["City"]] == "Porto" and state["checked"][at["Gift wrap"]] is True and state["sent"] is None
    )
    press(world, "City")
    world.act(PressEnter())
    state = world.state()
    assert state["page"] == "lists.html" and state["sent"]["values"][at["City"]] == "Porto"
    assert state["sent"]["values"][at["Gift wrap"]] is True


def test_a_link_around_a_button_is_not_told_by_its_centre(world: WebWorld) -> None:
    begin(world, "lists.html")
    links = [seen for seen in world.see() if seen.tag == "a" and seen.raw["inside"] == ""]
    outer = next(seen for seen in links if seen.name.startswith("A card"))
    inner = next(seen for seen in world.see() if seen.name == "Inner button")
    place = world.element(inner)
    assert place is not None and inner.raw["inside"] == outer.key
    assert world.page.evaluate("([k, x, y]) => vesperLands(k, x, y)", [inner.key, *world.pixel(place.centre)])
    assert not world.page.evaluate("([k, x, y]) => vesperLands(k, x, y)", [outer.key, *world.pixel(place.centre)])


def test_a_folder_without_pages_is_named(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "demo.html").write_text("<h1>Not a page of the site</h1>", encoding="utf-8")
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(ValueError, match=f"{folder.name}: expected a folder of html pages"), open_web(folder, "x"):
            pass
