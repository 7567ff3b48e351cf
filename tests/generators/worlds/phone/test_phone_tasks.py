"""Tasks on the phone: every family's plan reaches its goal by touches, and nothing less does."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import WorldError
from generators.worlds.phone.phone_task import answer_holds, evaluate, failed_checks
from generators.worlds.phone.phone_tasks import FAMILIES, make_task, phone_tasks
from generators.worlds.phone.phone_world import PhoneWorld
from generators.worlds.phone.plan import perform, prove
from generators.worlds.phone.snapshot import APPS, make_snapshot, start_snapshot
from generators.worlds.phone.tasks_answers import size_words
from generators.worlds.phone.tasks_time import day_words
from schemas.tables import Tasks

pytestmark = pytest.mark.slow

SAMPLE = (
    "contacts.edit",
    "messages.forward",
    "clock.add_full",
    "calendar.move",
    "notes.list",
    "files.move",
    "shop.order",
    "settings.slider",
    "cross.wifi",
    "shop.sold_out",
    "calendar.ask",
)


@pytest.mark.parametrize("family", SAMPLE)
def test_a_plan_reaches_the_goal_and_a_shorter_one_does_not(handset: PhoneWorld, family: str) -> None:
    task = next(t for seed in range(50, 60) if (t := make_task(family, seed)))
    assert prove(handset, task) >= task.expected_steps
    handset.reset(task.start)
    perform(handset, task.plan[:-1])
    assert not evaluate(task.evaluator(), handset.state(), handset.answer)


@pytest.mark.parametrize(
    ("family", "seed"), [("files.tidy", 1197), ("files.tidy", 4147), ("mixed.two_apps", 2150), ("mixed.two_apps", 3096)]
)
def test_parts_of_a_task_dont_stand_in_each_others_way(handset: PhoneWorld, family: str, seed: int) -> None:
    """Drawn with no regard for it, two files got one name here, or a message went to a contact just deleted."""
    task = make_task(family, seed)
    assert task is not None and prove(handset, task)


def test_sizes_are_said_as_they_are_shown(handset: PhoneWorld) -> None:
    snapshot = make_snapshot(0)
    sizes = [12, 999, *range(1000, 10_000, 50)]
    one = next(i for i in snapshot["data"]["files"]["items"] if i["kind"] != "folder")
    snapshot["data"]["files"]["items"] = [
        {**one, "id": f"f{kb}", "name": f"{kb}.pdf", "parent": "", "size": kb} for kb in sizes
    ]
    handset.reset({"snapshot": snapshot, "open": "vesper://files"})
    shown = [handset.call("where", f"item:f{kb}")["text"].partition(",")[0] for kb in sizes]
    assert shown == [f"{kb}.pdf {size_words(kb)}" for kb in sizes]


@pytest.mark.parametrize("family", ["calendar.ask", "calendar.ask_day", "files.ask"])
def test_an_answer_that_lists_everything_fails(family: str) -> None:
    for task in (task for seed in range(50, 90) if (task := make_task(family, seed))):
        state, key = start_snapshot(task.start), task.plan[-2][1].split(":")[1]
        if family == "files.ask":
            items = [i for i in state["data"]["files"]["items"] if i["kind"] != "folder"]
            lines = {i["id"]: f"{i['name']}: {size_words(i['size'])}" for i in items}
            listed = [lines.values()]
        else:
            events = state["data"]["calendar"]["events"]
            lines = {
                e["id"]: f"{e['title']}: {day_words(e['day'])}, {e['start'].lstrip('0')} to {e['end']}" for e in events
            }
            listed = [lines.values(), [f"{e['day']} {e['start']}" for e in events]]
        rule = task.evaluator()
        assert evaluate(rule, state, task.plan[-1][1]) and evaluate(rule, state, lines[key]), task.goal
        assert not any(evaluate(rule, state, "\n".join(everything)) for everything in listed), task.goal


def test_an_order_counts_however_its_products_were_put_into_the_cart(handset: PhoneWorld) -> None:
    task = make_task("shop.order_two", 50)
    assert task is not None and prove(handset, task)
    state = handset.state()
    order = state["data"]["shop"]["orders"][-1]
    first, second = order["items"]
    for items, good in (
        ([second, first], True),
        ([first], False),
        ([first, first], False),
        ([first, second, second], False),
        ([first, {**second, "count": 9}], False),
    ):
        order["items"] = items
        assert evaluate(task.evaluator(), state) is good, items


def test_a_plan_that_stops_short_or_goal_that_holds_already_proves_nothing(handset: PhoneWorld) -> None:
    task = make_task("clock.switch", 50)
    assert task is not None
    with pytest.raises(WorldError, match="doesn't reach the goal"):
        prove(handset, replace(task, plan=task.plan[:-1]))
    perform(handset, task.plan[-1:])
    with pytest.raises(WorldError, match="holds at the reset"):
        prove(handset, replace(task, start={"snapshot": handset.state()}))
    with pytest.raises(WorldError, match="no element 'app:nowhere'"):
        perform(handset, [("tap", "app:nowhere")])


def test_a_goal_reached_with_something_else_broken_does_not_count(handset: PhoneWorld) -> None:
    task = make_task("contacts.star", 50)
    assert task is not None
    prove(handset, task)
    state = handset.state()
    state["data"]["shop"]["cart"].clear()
    assert len(failed_checks(task.evaluator(), state)) == 1 and "rest" in failed_checks(task.evaluator(), state)[0]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(FAMILIES)), st.integers(0, 10**6))
def test_no_goal_is_true_at_the_reset_and_tasks_are_a_function_of_the_seed(family: str, seed: int) -> None:
    task = make_task(family, seed)
    assert make_task(family, seed) == task
    if task is not None:
        start = start_snapshot(task.start)
        assert failed_checks(task.evaluator(), start, "")
        last = task.plan[-1][0]
        assert task.feasible or last == "answer"
        assert "{" not in task.goal and task.goal[0].isupper() or task.goal[0] == '"'


def test_all_strata_are_populated_and_every_app_has_tasks() -> None:
    strata, apps = defaultdict(set), set()
    for task in phone_tasks(3, 3 * len(FAMILIES)):
        strata[task.contract().stratum].add(task.family)
        apps.update(task.apps)
    assert len(strata["easy"]) >= 8 and len(strata["medium"]) >= 8 and len(strata["hard"]) >= 5, strata
    assert apps == set(APPS)


def test_rows_fit_the_table_of_tasks() -> None:
    tasks = list(phone_tasks(5, 120))
    assert [TaskSpec.from_row(task.contract().as_row()) for task in tasks] == [task.contract() for task in tasks]
    table = Tasks.table([task.contract().as_row() for task in tasks])
    ids = table.column("task_id").to_pylist()
    assert len(set(ids)) == 120 and ids[0] == "0e2e5a65e3228a3a92973fe4ce3b1808"
    assert [t.goal for t in phone_tasks(5, 20)] == [t.goal for t in tasks[:20]]


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        ("It is 07:30.", True),
        ("07:30", True),
        ("07:30 or 08:00", False),
        ("17:30", False),
        ("", False),
        ("107:30", False),
    ],
)
def test_an_answer_holds_as_whole_words_and_alone(answer: str, good: bool) -> None:
    assert answer_holds(answer, ["07:30"], ["08:00"]) is good


@pytest.mark.parametrize(
    "day", ["16th July 2026", "July 16th, 2026", "It is on the 16th of July.", "Jul 16th", "2026-07-16"]
)
def test_a_day_may_be_said_with_an_ordinal(day: str) -> None:
    accepted = ["16 July 2026", "16 July", "July 16", "16 Jul", "Jul 16", "2026-07-16"]
    assert answer_holds(day, accepted)
    assert not answer_holds(day.replace("16", "17"), accepted)
    assert answer_holds("3 are open, the 4th is done", ["3"], ["4"]), "an ordinal elsewhere is no number"


@pytest.mark.parametrize(
    "answer",
    [
        "This is not possible: there is no contact Ada Stone",
        "I could not find a contact named Ada Stone.",
        "Couldn't find any note with that title.",
        "I wasn’t able to find the event",
        "The product is out of stock.",
        "That lamp is no longer available",
        "No contact named Ada Stone exists.",
        "No matching\ncontact was found",
        "I searched the notes and found nothing",
        "I didn't see any note called Plans.",
        "There was no event with that title",
        "There's no such note",
        "Ada Stone is not in the contacts.",
        "The event does not exist",
        "That colour is not offered.",
        "The lamp only comes in blue and grey",
        "The infusion pump is unavailable",
        "There are no more blue jackets in the shop.",
    ],
)
def test_that_a_goal_cant_be_reached_may_be_said_in_many_ways(answer: str) -> None:
    assert evaluate({"rule": "phone_state", "checks": [{"check": "infeasible"}]}, make_snapshot(0), answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Done, no problem",
        "Done, no problem. I found the contact and deleted it",
        "I found the contact",
        "I set the volume; nothing else changed",
        "There was no problem: the note is pinned",
        "There were no other notes, so I pinned this one",
        "I didn't have to change anything else",
        "I don't see any issue with it",
        "No other contact was touched",
        "I left no note open and found the right one",
        "It is in the cart, not in the wish list",
        "The event is not in the calendar any more",
        "I put the lamp called Aurora into the cart",
        "Added the blue one with the label; it is available now",
        "Nothing had to be done to the note called Plans but to pin it",
        "No note but the one called Plans was touched",
        "No changes were made beyond the one called for",
        "There is no more to do",
        "There were no more changes to make",
    ],
)
def test_a_claim_of_success_doesnt_say_that_a_goal_cant_be_reached(answer: str) -> None:
    assert not evaluate({"rule": "phone_state", "checks": [{"check": "infeasible"}]}, make_snapshot(0), answer)


def test_an_unknown_family_or_rule_is_named() -> None:
    with pytest.raises(ValueError, match="contacts.fly"):
        make_task("contacts.fly", 0)
    with pytest.raises(ValueError, match="page_state"):
        failed_checks({"rule": "page_state", "checks": []}, make_snapshot(0))
