"""Derived samples: certain answers only, deterministic, and nothing from what may not train."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from goldmaker import elements, episodes, screen_row, step_row
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.derivers.base import DeriveConfig, IndexedElement, NamePool, ScreenView, role_word
from pipelines.derivers.derive import derive_samples
from pipelines.derivers.grounding import expression
from pipelines.prompts import prompt_text
from pipelines.store import Store
from schemas.actions import Click, Finished, Scroll, Type, Wait, parse_reply
from schemas.coordinates import contains
from schemas.tables import Samples, Screens, Steps


def derive(steps: list[dict], screens: list[dict], **more) -> list[dict]:
    return derive_samples(Steps.table(steps), Screens.table(screens), licence="CC0-1.0", **more).to_pylist()


def of(rows: list[dict], deriver: str) -> list[dict]:
    return [row for row in rows if json.loads(row["provenance"])["deriver"] == deriver]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_navigation_skips_steps_without_picture_or_action(store: Store) -> None:
    sha = screen_row(store, 1)["screenshot_sha256"]
    steps = [
        step_row("a", 0, sha),
        step_row("a", 1, None, Type("x")),
        step_row("a", 2, sha),
        step_row("a", 3, sha, None),
    ]
    rows = of(derive(steps, []), "navigation")
    prompts = sorted(prompt_text(row["messages"]) for row in rows)
    assert len(prompts) == 2
    assert prompts[0].endswith("History:\n1. Click(box=(250,140))\n2. Type(content='x')\nThinking: off")
    assert prompts[1].endswith("History:\nnone\nThinking: off")


def test_history_never_crosses_a_gap(store: Store) -> None:
    sha = screen_row(store, 1)["screenshot_sha256"]
    steps = [step_row("a", i, sha, Click((i, i))) for i in range(4)]
    steps[2]["provenance"] = json.dumps({"gap_at": 2})
    rows = {
        json.loads(r["provenance"])["step"]: prompt_text(r["messages"]) for r in of(derive(steps, []), "navigation")
    }
    assert "History:\nunknown" in rows[2]
    assert "Click(box=(2,2))" in rows[3]
    assert "Click(box=(1,1))" not in rows[3]


def test_history_never_crosses_a_removed_step(store: Store) -> None:
    sha = screen_row(store, 1)["screenshot_sha256"]
    steps = [step_row("a", i, sha, Click((i, i))) for i in (0, 1, 3)]
    rows = {
        json.loads(r["provenance"])["step"]: prompt_text(r["messages"]) for r in of(derive(steps, []), "navigation")
    }
    assert "unknown" in rows[3]


def test_navigation_answer_is_rendered_for_its_platform_and_keeps_thoughts(store: Store) -> None:
    sha = screen_row(store, 1)["screenshot_sha256"]
    steps = [
        step_row("a", 0, sha, Scroll(direction="down"), platform="mobile", thought="look below"),
        step_row("a", 1, sha, Finished(), platform="mobile"),
    ]
    rows = {json.loads(r["provenance"])["step"]: r for r in of(derive(steps, []), "navigation")}
    reply = parse_reply(rows[0]["answer"])
    assert reply.tags_ok and reply.thought == "look below"
    assert reply.action == Scroll((500, 700), (500, 300))
    assert "Thinking: off" not in prompt_text(rows[0]["messages"])
    assert "Thinking: off" in prompt_text(rows[1]["messages"])
    assert rows[0]["parents"] == ["step:toy/a/0"]


def test_step_grounding_needs_pointing_words_and_a_box_that_holds_the_point(store: Store) -> None:
    sha = screen_row(store, 1)["screenshot_sha256"]
    good = {"step_instruction": "Click on the Sign in button.", "target_box": [200.0, 100.0, 300.0, 180.0]}
    steps = [
        step_row("a", 0, sha, Click((250, 140)), **good),
        step_row("b", 0, sha, Click((900, 900)), **good),  # outside its own box
        step_row("c", 0, sha, Click((250, 140)), **{**good, "step_instruction": "Go to the settings"}),
        step_row("d", 0, sha, Type("x"), **good),
    ]
    [row] = of(derive(steps, []), "grounding_step")
    assert prompt_text(row["messages"]) == "Where is the Sign in button?"
    assert row["answer"] == "[250,140]"
    assert row["target_boxes"] == [[200.0, 100.0, 300.0, 180.0]]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("tap on Cart", "Cart"),
        ("Press the\n red  key!", "the red key"),
        ("clicking x", None),
        ("type abc", None),
        ("", None),
    ],
)
def test_expression_is_taken_from_pointing_words_only(words: str, what: str | None) -> None:
    assert expression(words) == what


def test_ambiguous_names_are_never_asked_for(store: Store) -> None:
    screen = screen_row(store, 1)
    for element in screen["elements"][:2]:
        element["name"] = element["text"] = "Open"
    rows = derive(
        [step_row("a", 0, screen["screenshot_sha256"])], [screen], config=DeriveConfig(grounding_per_screen=99)
    )
    asked = {prompt_text(row["messages"]) for row in of(rows, "grounding_element")}
    assert len(asked) == 3
    assert "Where is Open?" not in asked


def test_nested_elements_of_one_name_are_one_target_the_innermost(store: Store) -> None:
    screen = screen_row(store, 1)
    inner = {**screen["elements"][0], "box": [150.0, 110.0, 200.0, 150.0]}
    screen["elements"].append(inner)
    rows = derive(
        [step_row("a", 0, screen["screenshot_sha256"])], [screen], config=DeriveConfig(grounding_per_screen=99)
    )
    [row] = [r for r in of(rows, "grounding_element") if prompt_text(r["messages"]) == f"Where is {inner['name']}?"]
    assert row["answer"] == "[175,130]"


@pytest.mark.slow
def test_a_refusal_asks_for_a_name_of_another_screen_that_is_nowhere_on_this_one(tmp_path: Path) -> None:
    steps, screens = episodes(Store(tmp_path), "toy", 60)
    rows = derive_samples(steps, screens, licence="x", config=DeriveConfig(grounding_per_screen=99)).to_pylist()
    labels = {s["screenshot_sha256"]: [e["name"].casefold() for e in s["elements"]] for s in screens.to_pylist()}
    everywhere = {name for names in labels.values() for name in names}
    refused, found = of(rows, "refusal"), of(rows, "grounding_element")
    for row in refused:
        name = prompt_text(row["messages"]).removeprefix("Where is ").removesuffix("?").casefold()
        assert name in everywhere and name not in labels[row["images"][0]]
        assert row["answer"] == "[-1,-1]" and row["target_boxes"] == []
    share = len(refused) / (len(refused) + len(found))
    assert 0.08 < share < 0.16


def test_screens_with_few_known_elements_give_no_refusals(store: Store) -> None:
    screens = [screen_row(store, seed, count=3) for seed in range(40)]
    steps = [step_row(f"e{i}", 0, s["screenshot_sha256"]) for i, s in enumerate(screens)]
    assert not of(derive(steps, screens), "refusal")


def test_every_grounding_answer_lies_in_its_box_and_every_point_question_names_the_innermost(tmp_path: Path) -> None:
    steps, screens = episodes(Store(tmp_path), "toy", 10)
    rows = derive_samples(steps, screens, licence="x").to_pylist()
    for row in of(rows, "grounding_element"):
        assert contains(row["target_boxes"][0], tuple(json.loads(row["answer"])))
    by_sha = {s["screenshot_sha256"]: s["elements"] for s in screens.to_pylist()}
    points = of(rows, "perception_point")
    assert points
    for row in points:
        point = tuple(json.loads(prompt_text(row["messages"]).removeprefix("What is at ").removesuffix("?")))
        [element] = [e for e in by_sha[row["images"][0]] if contains(e["box"], point)]
        assert row["answer"] == f"{element['role']} {element['text']}"


def test_questions_are_answered_as_a_person_reading_the_elements_would(store: Store) -> None:
    screen = screen_row(store, 1, count=4)  # BUTTON, LINK, BUTTON, LINK from top to bottom
    rows = derive([step_row("a", 0, screen["screenshot_sha256"])], [screen], config=DeriveConfig(vqa_per_screen=99))
    answers = {prompt_text(r["messages"]): r["answer"] for r in rows if r["objective"] == "vqa"}
    names = [element["name"] for element in screen["elements"]]
    assert answers["How many elements of type button are on the screen?"] == "2"
    assert answers["What is the label of the link at the top?"] == names[1]
    assert answers["What is the label of the button at the bottom?"] == names[2]
    assert answers[f'What type of element is "{names[3]}"?'] == "link"
    above = {q: a for q, a in answers.items() if q.startswith("Is ") and "above" in q}
    assert above
    for question, answer in above.items():
        first, second = question.removeprefix('Is "').removesuffix('"?').split('" above "')
        assert answer == ("yes" if names.index(first) < names.index(second) else "no")


def test_a_picture_shown_in_a_test_episode_never_gives_a_training_sample(store: Store) -> None:
    screen = screen_row(store, 1)
    sha = screen["screenshot_sha256"]
    rows = derive([step_row("a", 0, sha), step_row("b", 0, sha, split="test")], [screen])
    assert {r["split"] for r in rows if r["objective"] != "navigation"} == {"test"}


def test_a_screen_that_nothing_shows_is_skipped_unless_native_samples_show_it(store: Store) -> None:
    screen = screen_row(store, 1)
    assert derive([], [screen]) == []
    native = derive([step_row("a", 0, screen["screenshot_sha256"], split="validation")], [])
    rows = derive([], [screen], samples=Samples.table(native))
    assert rows and {row["split"] for row in rows} == {"validation"}
    assert rows[0]["parents"] == [f"sample:{native[0]['sample_id']}"]


def test_parts_that_show_one_picture_give_different_ids(store: Store) -> None:
    screen = screen_row(store, 1)
    one, two = (derive([step_row(name, 0, screen["screenshot_sha256"])], [screen]) for name in ("a", "b"))
    assert not {row["sample_id"] for row in one} & {row["sample_id"] for row in two}


@pytest.mark.parametrize(
    ("native", "word"),
    [
        ("android.widget.TextView", "text"),
        ("TEXT_INPUT", "text input"),
        ("LinearLayout", ""),
        ("BUTTON", "button"),
        (None, ""),
    ],
)
def test_roles_are_named_in_plain_words(native: str | None, word: str) -> None:
    assert role_word(native) == word


def test_choices_are_capped_per_screen_and_ids_are_unique(tmp_path: Path) -> None:
    steps, screens = episodes(Store(tmp_path), "toy", 10)
    config = DeriveConfig(grounding_per_screen=2, perception_per_screen=1, lists_per_screen=0, vqa_per_screen=3)
    rows = derive_samples(steps, screens, licence="x", config=config).to_pylist()
    assert len({row["sample_id"] for row in rows}) == len(rows)
    for deriver, cap in (("grounding_element", 2), ("perception_point", 1), ("perception_list", 0)):
        assert len(of(rows, deriver)) == cap * screens.num_rows
    asked = [row for row in rows if row["objective"] == "vqa" and row["answer"] and "vqa" in row["provenance"]]
    assert len(asked) == 3 * screens.num_rows


@pytest.mark.slow
def test_every_knob_changes_the_samples(tmp_path: Path) -> None:
    steps, screens = episodes(Store(tmp_path), "toy", 30)
    base = derive_samples(steps, screens, licence="x")
    for knob in (
        {"seed": 1},
        {"grounding_per_screen": 1},
        {"perception_per_screen": 1},
        {"lists_per_screen": 0},
        {"vqa_per_screen": 1},
        {"refusal_share": 0.5},
        {"refusal_min_elements": 99},
        {"list_max_elements": 3},
        {"label_max_chars": 4},
        {"min_side": 90.0},
        {"max_area": 0.001},
    ):
        assert not derive_samples(steps, screens, licence="x", config=DeriveConfig(**knob)).equals(base), knob


def test_row_order_of_the_input_does_not_matter(tmp_path: Path) -> None:
    steps, screens = episodes(Store(tmp_path), "toy", 12)
    mixed = steps.take(list(reversed(range(steps.num_rows)))), screens.take(list(reversed(range(screens.num_rows))))
    assert derive_samples(*mixed, licence="x").equals(derive_samples(steps, screens, licence="x"))


def test_one_more_screen_leaves_nearly_all_choices_as_they_were(tmp_path: Path) -> None:
    steps, screens = episodes(Store(tmp_path), "toy", 40)
    fewer = steps.filter(pa.compute.not_equal(steps["episode_id"], "e0039"))
    before = set(derive_samples(fewer, screens, licence="x")["sample_id"].to_pylist())
    after = set(derive_samples(steps, screens, licence="x")["sample_id"].to_pylist())
    assert before <= after


BOX = st.tuples(*[st.integers(0, 100)] * 4).map(
    lambda b: [float(v) * 10 for v in (min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3]))]
)
ELEMENTS = st.lists(
    st.fixed_dictionaries(
        {
            "box": BOX,
            "role": st.sampled_from(["BUTTON", "LINK", ""]),
            "text": st.sampled_from(["a", "b", "ab", ""]),
            "name": st.sampled_from(["a", "b", "C", ""]),
        }
    ),
    max_size=8,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(st.lists(ELEMENTS, min_size=1, max_size=4))
def test_any_elements_give_valid_samples_with_points_in_their_boxes(layouts: list[list[dict]]) -> None:
    shas = [f"{n:064x}" for n in range(len(layouts))]
    screens = [
        {"screenshot_sha256": sha, "width_px": 90, "height_px": 60, "phash": 0, "elements": layout, "source": "toy"}
        for sha, layout in zip(shas, layouts, strict=True)
    ]
    rows = derive([step_row(f"e{n}", 0, sha) for n, sha in enumerate(shas)], screens)
    assert len({row["sample_id"] for row in rows}) == len(rows)
    for row in of(rows, "grounding_element"):
        assert contains(row["target_boxes"][0], tuple(json.loads(row["answer"])))


def test_name_pool_changes_few_draws_when_a_name_arrives() -> None:
    view = ScreenView(
        "0" * 64, 9, 9, "s", "train", "web", ("e", 0), (), (IndexedElement(0, (0, 0, 9, 9), "R", "zzz", "zzz"),)
    )
    pool, more = NamePool(), NamePool()
    for number in range(100):
        pool.add(f"name {number}")
        more.add(f"name {number}")
    more.add("newcomer")
    draws = [number / 20_000 for number in range(20_000)]
    changed = sum(pool.absent(view, draw) != more.absent(view, draw) for draw in draws)
    assert 0 < changed < 2_000


def test_a_wrong_table_is_refused(store: Store) -> None:
    good = Steps.table([step_row("a", 0, None)])
    with pytest.raises(ValueError, match="Steps"):
        derive_samples(good.drop_columns(["split"]), Screens.table([]), licence="x")
    bad = Steps.table([step_row("a", 0, screen_row(store, 1)["screenshot_sha256"], action_text="Tap(1,2)")])
    with pytest.raises(ValueError, match="Tap"):
        derive_samples(bad, Screens.table([]), licence="x")
    assert elements(1)  # the maker itself makes something


def walk(store: Store, actions: list, **more) -> list[dict]:
    """An episode whose screens are all different."""
    shas = [screen_row(store, 100 + 17 * n)["screenshot_sha256"] for n in range(len(actions))]
    return [step_row("walk", n, shas[n], action, **more) for n, action in enumerate(actions)]


def test_inverse_dynamics_shows_two_screens_and_asks_for_the_action_between(store: Store) -> None:
    steps = walk(store, [Click((10, 20)), Type("tea"), Finished("")])
    rows = of(derive(steps, []), "inverse_dynamics")
    found = {row["answer"]: row for row in rows}
    assert set(found) == {"Click(box=(10,20))", "Type(content='tea')"}
    row = found["Click(box=(10,20))"]
    assert row["images"] == [steps[0]["screenshot_sha256"], steps[1]["screenshot_sha256"]]
    assert [part["type"] for part in json.loads(row["messages"])[0]["content"]] == ["text", "image", "image"]
    assert row["parents"] == ["step:toy/walk/0", "step:toy/walk/1"]


def test_no_pair_is_made_of_what_has_no_or_several_causes(store: Store) -> None:
    steps = walk(store, [Click((1, 1)), Type("a"), Wait(), Click((2, 2)), Click((3, 3)), Finished("")])
    steps[1]["screenshot_sha256"] = steps[0]["screenshot_sha256"]  # nothing changed
    steps[1]["provenance"] = json.dumps({"rules": ["part 1 of 2"]})  # one native action became several
    steps[4]["provenance"] = json.dumps({"gap_at": 4})  # an action was lost before this screen
    rows = of(derive(steps, [], config=DeriveConfig(transitions_per_episode=9)), "inverse_dynamics")
    assert [row["answer"] for row in rows] == ["Click(box=(3,3))"]


def test_a_plan_is_the_sources_own_step_instructions_and_only_of_whole_episodes(store: Store) -> None:
    steps = walk(store, [Click((1, 1)), Type("tea"), Finished("")], instruction="Find tea")
    for row, words in zip(steps, ["Open the search", "Type tea", ""], strict=True):
        row["step_instruction"] = words or None
    [row] = of(derive(steps, []), "plan")
    assert prompt_text(row["messages"]) == "Goal: Find tea\nWhich steps lead there?"
    assert row["answer"] == "1. Open the search\n2. Type tea" and len(row["images"]) == 1
    assert not of(derive(steps[1:], []), "plan"), "the beginning is missing"
    steps[1]["step_instruction"] = None
    assert not of(derive(steps, []), "plan"), "nothing is invented"


def test_a_step_instruction_is_a_goal_of_its_own_in_training_only(store: Store) -> None:
    steps = walk(store, [Click((1, 1)), Finished("")], instruction="Find tea")
    steps[0]["step_instruction"] = "Open the search"
    [row] = of(derive(steps, []), "navigation_step")
    assert prompt_text(row["messages"]).startswith("Goal: Open the search\nHistory:\nnone")
    assert "Click(box=(1,1))" in row["answer"]
    assert not of(derive([{**row, "split": "test"} for row in steps], []), "navigation_step")


def test_an_episode_without_a_goal_gives_no_goal_form(store: Store) -> None:
    steps = walk(store, [Click((1, 1)), Click((2, 2))], instruction="")
    rows = derive(steps, [])
    assert not of(rows, "navigation") and of(rows, "inverse_dynamics")


def test_regions_pages_and_icons_are_asked_by_what_the_source_knows(store: Store) -> None:
    screen = screen_row(store, 7)
    screen["elements"] = [
        {"box": [0.0, 0.0, 1000.0, 100.0], "role": "toolbar", "text": "", "name": ""},
        {"box": [10.0, 10.0, 90.0, 90.0], "role": "button", "text": "", "name": "Menu"},
        {"box": [200.0, 10.0, 400.0, 90.0], "role": "button", "text": "Save", "name": "Save"},
        {"box": [0.0, 200.0, 500.0, 300.0], "role": "text", "text": "Hello", "name": ""},
    ]
    rows = derive([step_row("a", 0, screen["screenshot_sha256"], app="Notes")], [screen])
    [region] = of(rows, "region")
    assert prompt_text(region["messages"]) == "What is in [0,0,1000,100]?"
    assert region["answer"] == "BUTTON Menu\nBUTTON Save" and region["target_boxes"] == [[0, 0, 1000, 100]]
    [caption] = of(rows, "caption")
    assert prompt_text(caption["messages"]) == "What is the unlabelled element at [50,50] for?"
    assert caption["answer"] == "Menu"
    [page] = of(rows, "app")
    assert (prompt_text(page["messages"]), page["answer"]) == ("Which app or site is on the screen?", "Notes")
    cut = {**screen, "elements": [*screen["elements"], {**screen["elements"][3], "box": [500.0, 50.0, 700.0, 250.0]}]}
    assert not of(derive([step_row("a", 0, screen["screenshot_sha256"])], [cut]), "region"), "an element sticks out"
