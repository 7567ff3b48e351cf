"""Dynamic tasks of recorded episodes open in the worlds that show their apps, and a judge decides them there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dynamic_tasks import played, recorded_tasks, verdicts
from goldmaker import commit_gold, episodes
from openai_server import OpenAIServer

from generators.generation.dynamic_task_pool import NO_APP, NO_WORLD, build_dynamic
from generators.generation.proposing.screen_tasks import ScreenProposer
from generators.worlds.registry import WORLDS, WorldKind, starts_of
from pipelines.store import Manifest, Store
from quality.model_client.client import ModelClient
from schemas.actions import Finished, Launch, format
from schemas.tables import PLATFORMS, Samples, Steps, Tasks
from trainer.stages.assets import BROWSER_WORLDS
from trainer.stages.online import runnable_tasks

RECORDED = ("android_control", "aitw", "mind2web", "agentnet")


def told(pool: Manifest) -> tuple[list[dict[str, Any]], dict[str, int]]:
    return pool.read("tasks", Tasks.schema).to_pylist(), dict(pool.counts["unopened"])


@pytest.mark.slow
def test_tasks_of_recorded_apps_are_played_in_real_worlds_and_judged(
    tmp_path: Path, tiny_home: Callable[..., Path]
) -> None:
    store = Store(tmp_path)
    rows, unopened = told(recorded_tasks(store, RECORDED, tiny_home(*RECORDED)))
    usable, left_out = runnable_tasks(rows, PLATFORMS, BROWSER_WORLDS, judged=True)
    assert set(unopened) == {NO_APP}, "AgentNet never says which app it shows"
    assert left_out == {"no such world here": unopened[NO_APP]}
    assert len(usable) >= 6 and {"pages/phone", "pages/web"} == {task.world for task in usable}
    runs = played(usable, store, turns=2)
    assert [run.failure for run in runs] == [""] * len(usable) and all(run.actions for run in runs)
    found = verdicts(runs, store)
    assert found.keys() == {task.task_id for task in usable}
    assert all(one.success is False and one.judged for one in found.values())


TASKS = {
    "named": "Archive the newest mail",
    "launched": "Put a red bag into the cart",
    "silent": "Call my mother",
    "unknown": "Book a table for four",
}
"""Source → the instruction of its one episode."""


def episode(store: Store, source: str, *, app: str | None = None, launch: str = "") -> None:
    """One episode of a phone."""
    steps, screens = episodes(store, source, 1, seed=len(source), instructions=[TASKS[source]])
    rows: list[dict[str, Any]] = [{**row, "platform": "mobile", "app": app} for row in steps.to_pylist()]
    if launch:
        rows[0] |= {"action_type": "Launch", "action_text": format(Launch(app=launch))}
    assert rows[-1]["action_type"] == type(Finished()).__name__
    commit_gold(store, source, Steps.table(rows), Samples.table([]), screens=screens)


def test_an_app_is_found_by_the_names_that_worlds_say_it_has() -> None:
    assert starts_of("org.vesper.mail", "mobile", 7) == {
        "pages/phone": {"world": "pages/phone", "app": "mail", "seed": 7, "home": False}
    }
    assert list(starts_of("Settings", "mobile", 7)) == ["phone", "pages/phone"]
    assert starts_of("vespermail", "web", 7)["pages/web"]["app"] == "mail"
    assert starts_of("click-tab", "web", 7)["miniwob"] == {"world": "miniwob", "task": "click-tab", "seed": 7}
    assert starts_of("fsm/shop/3", "web", 7) == {"fsm": {"world": "fsm", "kind": "shop", "seed": 3}}
    assert starts_of("Text editor", "desktop", 7)["desktop"]["program"] == "mousepad"
    assert list(starts_of("datasette", "web", 7)) == ["datasette"]
    for nothing in ("com.android.vending", "fsm/moon/1", "fsm/shop/x", "../click-tab", ""):
        assert starts_of(nothing, "web", 7) == {} == starts_of(nothing, "mobile", 7)


def test_tasks_without_a_world_are_counted_by_reason_and_too_many_fail(tmp_path: Path) -> None:
    store = Store(tmp_path)
    episode(store, "named", app="org.vesper.mail")
    episode(store, "launched", launch="Shop")
    episode(store, "silent")
    episode(store, "unknown", app="com.example.other")
    sources = ("named", "launched", "silent", "unknown")
    made = build_dynamic(store, sources, most_unopened=0.5)
    rows, unopened = told(made)
    assert made.checks_passed and unopened == {NO_APP: 1, NO_WORLD: 1}
    starts = {row["target"]: json.loads(row["initial_state"]) for row in rows}
    assert starts["org.vesper.mail"]["app"] == "mail" and starts["Shop"]["world"] in ("phone", "pages/phone")
    assert starts["silent"] == starts["com.example.other"] == {}
    failed = build_dynamic(store, sources, most_unopened=0.4)
    [check] = [check for check in failed.checks if check.name == "dynamic tasks open"]
    assert not check.passed and "no app named: 1" in str(check.found)


def test_of_two_worlds_the_one_that_knows_more_of_the_sources_apps_is_taken(tmp_path: Path) -> None:
    store = Store(tmp_path)
    steps, screens = episodes(store, "mixed", 4, instructions=["Read the mail", "Turn Wi-Fi on", "Buy a bag", "Go"])
    apps = {"e0000": "Mail", "e0001": "Settings", "e0002": "Shop", "e0003": "News"}
    rows = [{**row, "platform": "mobile", "app": apps[row["episode_id"]]} for row in steps.to_pylist()]
    commit_gold(store, "mixed", Steps.table(rows), Samples.table([]), screens=screens)
    found, _ = told(build_dynamic(store, ["mixed"]))
    assert {json.loads(row["initial_state"])["world"] for row in found} == {"pages/phone"}


def test_a_world_of_ones_own_may_say_which_apps_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(app: str, seed: int) -> dict[str, object] | None:
        return {"package": app} if app == "com.example.other" else None

    monkeypatch.setitem(WORLDS, "handset", WorldKind("mobile", WORLDS["phone"].open, start))
    store = Store(tmp_path)
    episode(store, "unknown", app="com.example.other")
    [row], unopened = told(build_dynamic(store, ["unknown"]))
    assert not unopened and json.loads(row["initial_state"]) == {"world": "handset", "package": "com.example.other"}


def test_a_model_infers_new_tasks_from_a_screen_and_only_new_ones_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    episode(store, "named", app="org.vesper.mail")
    with OpenAIServer() as server:
        server.answer = {"task_1": "Write a reply\nto Ann", "steps_1": "3", "task_2": "", "steps_2": "1"}
        client = ModelClient(server.url, "eyes", tmp_path / "book")
        made = build_dynamic(store, ["named"], proposer=ScreenProposer(store, client))
        own = made.read("tasks", Tasks.schema).to_pylist()
        assert len(own) == 2
        [new] = [row for row in own if row["instruction"] == "Write a reply to Ann"]
        assert new["expected_steps"] == 3 and json.loads(new["initial_state"])["app"] == "mail"
        assert "reference_sha256" not in json.loads(new["evaluator"])
        [body] = server.bodies
        assert [part["type"] for part in body["messages"][-1]["content"]].count("image_url") == 1
        server.answer |= {"task_1": "archive the newest mail."}  # what the recording already says
        again = build_dynamic(store, ["named"], proposer=ScreenProposer(store, ModelClient(server.url, "other", None)))
        assert len(again.read("tasks", Tasks.schema)) == 1
        client.close()
