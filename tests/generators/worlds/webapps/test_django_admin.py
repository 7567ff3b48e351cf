"""Django's admin in real Chromium: ten tasks by their plans, the snapshot, and what belongs to nobody on the screen."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from webapps import check_leaving, check_snapshot, check_tasks, open_or_skip

from generators.worlds.webapps.django_admin.django_admin_tasks import expected_data, make_tasks
from generators.worlds.webapps.django_admin.django_admin_world import open_django_admin
from generators.worlds.webapps.web_app_task import find
from generators.worlds.webapps.web_app_world import REST_S, WebAppWorld
from pipelines.store.images import read_image
from schemas.actions import Click, Launch, Type, Wait

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world() -> Iterator[WebAppWorld]:
    yield from open_or_skip(open_django_admin)


def test_ten_plans_reach_their_goals_and_shortened_ones_do_not(world: WebAppWorld) -> None:
    check_tasks(world, make_tasks(0))


def test_reset_restores_pixels_and_truth(world: WebAppWorld) -> None:
    check_snapshot(world, make_tasks(4)[0])
    for seed in (7, 1234):
        world.reset({"seed": seed})
        assert world.state()["data"] == expected_data(seed)


def test_nothing_leads_out(world: WebAppWorld) -> None:
    check_leaving(world, "/library/book/")


def test_signed_in_without_a_password_and_truth_needs_the_token(world: WebAppWorld) -> None:
    world.reset({"page": "/auth/user/"})
    secrets = json.loads((world.server.folder / "secrets.json").read_text())
    shown = world.page.content()
    assert "Log out" in shown and secrets["session"] not in shown and secrets["token"] not in shown
    assert world.state()["data"]["users"]["admin"]["no_password"] == 1
    world.act(Launch(url="/truth/?path=/library/book/"))
    assert "Not Found" in world.page.content() and world.state()["view"] == {}


@pytest.mark.parametrize(
    "path", ["/library/book/?author__country=Peru", "/library/book/?_to_field=nonsense", "//[news"]
)
def test_an_address_that_the_admin_refuses_is_a_page_like_any_other(world: WebAppWorld, path: str) -> None:
    world.reset({"page": "/library/book/"})
    world.act(Launch(url=f"http://localhost{path}"))
    assert world.path == path and world.observe().png
    assert world.state()["view"] == {"error": True}


@pytest.mark.parametrize("after_ms", [0, 30, 120])
def test_a_window_that_closes_itself_is_left(world: WebAppWorld, after_ms: int) -> None:
    world.reset({"page": "/library/book/add/"})
    with world.page.expect_popup() as opened:
        world.page.evaluate("() => void window.open('/library/author/add/?_popup=1')")
    opened.value.wait_for_load_state()
    assert world.page is opened.value
    opened.value.evaluate(f"() => void setTimeout(() => window.close(), {after_ms})")
    world.act(Type("words"))  # while it closes
    world.act(Wait())
    assert world.path == "/library/book/add/" and world.observe().png


def test_a_window_that_the_app_opens_is_followed_and_left(world: WebAppWorld) -> None:
    def click(role: str, name: str) -> None:
        world.act(Click(find(world.elements(), role, name).centre))

    world.reset({"page": "/library/book/add/"})
    click("link", "Add another author")
    assert world.path.startswith("/library/author/add/?") and len(world._pages) == 2
    info = read_image(world.observe().png)
    assert (info.width_px, info.height_px) == world.size_px
    click("textbox", "Name:")
    world.act(Type("Window Author"))
    click("textbox", "Country:")
    world.act(Type("Peru"))
    click("button", "Save")
    assert world.path == "/library/book/add/" and "Window Author" in world.state()["data"]["authors"]
    begun = time.monotonic()
    world.act(Wait())
    assert time.monotonic() - begun < REST_S / 2, "what the closed window had asked for isn't waited for"
    assert set(world._cameras) <= {world.page}
