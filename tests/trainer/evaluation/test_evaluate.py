"""Evaluation: controls and intervals on cases small enough to work out by hand."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace
from typing import Any

import pytest
from drawn import draw

from pipelines.prompts import grounding_text, messages, navigation_text, reply_text
from quality.statistics import score_interval, wilson
from schemas.actions import Click, Scroll, Type
from trainer.data.clusters import cluster, picture_key
from trainer.evaluation.controls import BlindTable, random_element, swap_screens
from trainer.evaluation.evaluate import choose, compare, evaluate, judge, summarise
from trainer.evaluation.records import Records
from trainer.settings.measuring import EvalConfig
from trainer.statistics import difference, fell, interval, mean_or_none, over, paired

RED, BLUE = draw({"red": (10, 10, 60, 60)}), draw({"blue": (100, 80, 150, 120)})


def ground(
    name: str,
    answer: str,
    box: list[float] | None = None,
    *,
    platform: str = "web",
    image: bytes = RED,
    sample_id: str = "",
) -> dict[str, Any]:
    return {
        "sample_id": sample_id or name + answer,
        "source": "made",
        "platform": platform,
        "objective": "grounding",
        "messages": messages("grounding", grounding_text(name)),
        "answer": answer,
        "images": [image],
        "target_boxes": [box] if box else [],
        "parents": [],
        "split": "test",
    }


def act(goal: str, action: Any, *, platform: str = "web", parents: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "sample_id": goal + str(action),
        "source": "made",
        "platform": platform,
        "objective": "navigation",
        "messages": messages("navigation", navigation_text(goal, [])),
        "answer": reply_text(action, platform),
        "images": [RED],
        "target_boxes": [],
        "parents": list(parents),
        "split": "test",
    }


# --- blind table ---


def test_the_blind_table_knows_the_usual_place_of_a_name() -> None:
    table = BlindTable([ground("Login", "[100,200]"), ground("login", "[300,400]"), ground("Help", "[900,0]")])
    assert table.reply(ground("LOGIN", "[0,0]")) == "[200,300]"  # mean of (100,200) and (300,400)
    assert table.reply(ground("never seen", "[0,0]")) == "[433,200]"  # mean of all three on this platform
    assert table.reply(ground("Help", "[0,0]", platform="mobile")) == "[900,0]"  # the same text on another platform
    assert table.reply(ground("other", "[0,0]", platform="mobile")) == "[433,200]"  # nothing of the platform: all


def test_the_blind_table_refuses_what_was_mostly_refused_and_ignores_pictures() -> None:
    table = BlindTable([ground("Gone", "[-1,-1]"), ground("Gone", "[-1,-1]"), ground("Gone", "[5,5]")])
    assert table.reply(ground("Gone", "[1,1]")) == "[-1,-1]"
    assert table.reply(ground("Gone", "[1,1]", image=BLUE)) == "[-1,-1]"
    assert BlindTable([]).reply(ground("Gone", "[1,1]")) == ""


def test_the_blind_table_gives_the_most_frequent_reply_for_navigation() -> None:
    down, click = Scroll(direction="down"), Click((1, 2))
    table = BlindTable([act("a", down), act("a", click), act("a", click), act("b", down), act("c", down)])
    assert table.reply(act("a", down)) == reply_text(click, "web")
    assert table.reply(act("unseen", down)) == reply_text(down, "web")  # 3 of 5 on the platform


# --- random element and swapped screen ---


def test_random_element_counts_centres_in_the_target() -> None:
    target = [[0.0, 0.0, 100.0, 100.0]]
    elements = [[0, 0, 100, 100], [40, 40, 60, 60], [90, 90, 190, 190], [500, 500, 600, 600]]
    assert random_element(target, elements) == 0.5  # two of four centres: (50,50), (50,50), (140,140), (550,550)
    assert random_element(target, []) == pytest.approx(0.01)  # its share of the screen
    assert random_element([], elements) == 0.0  # a refusal


def test_swapped_rows_keep_the_prompt_and_show_another_screen() -> None:
    rows = [
        ground("a", "[1,1]", image=RED),
        ground("b", "[2,2]", image=RED),
        ground("c", "[3,3]", image=BLUE),
        ground("d", "[4,4]", image=BLUE, platform="mobile"),
    ]
    swapped = swap_screens(rows)
    assert [picture_key(row) for row in swapped[:3] if row] == [picture_key({"images": [i]}) for i in (BLUE, BLUE, RED)]
    assert swapped[3] is not None and swapped[3]["images"] == [RED]  # no other mobile screen: another platform's
    assert all(s is not None and s["messages"] == r["messages"] for s, r in zip(swapped, rows, strict=True))
    assert swap_screens(rows[:2]) == [None, None]  # there is no other screen


# --- judging ---


def test_grounding_is_judged_by_the_box_with_borders_and_by_refusal() -> None:
    row = ground("a", "[50,50]", [10.0, 10.0, 90.0, 90.0])
    assert judge(row, "[90,10]")["hit"] == 1.0 and judge(row, "[91,10]")["hit"] == 0.0
    assert judge(row, "[-1,-1]")["hit"] == 0.0 and judge(row, "nonsense") == {"hit": 0.0, "format": 0.0, "reward": 0.0}
    absent = ground("a", "[-1,-1]")
    assert judge(absent, "[-1,-1]")["hit"] == 1.0 and judge(absent, "[50,50]")["hit"] == 0.0


def test_a_step_is_judged_by_type_argument_and_form() -> None:
    row = act("type it", Type("red wine"))
    assert judge(row, reply_text(Type("red  WINE"), "web")) == {
        "step": 1.0,
        "type": 1.0,
        "format": 1.0,
        "reward": pytest.approx(0.1 + 0.9 * 2),
    }
    assert judge(row, reply_text(Type("beer"), "web"))["step"] == 0.0
    bare = judge(row, "Type(content='red wine')")
    assert bare["step"] == 1.0 and bare["format"] == 0.0  # right, but without the tags
    assert judge(row, reply_text(Click((1, 1)), "web"))["type"] == 0.0


def test_clusters_are_screens_for_grounding_and_episodes_for_steps() -> None:
    assert cluster(ground("a", "[1,1]")) == cluster(ground("b", "[2,2]")) != cluster(ground("a", "[1,1]", image=BLUE))
    one, two = act("g", Click((1, 1)), parents=("step:s/ep/3",)), act("g", Click((1, 2)), parents=("step:s/ep/4",))
    assert cluster(one) == cluster(two) == "episode:s/ep"


# --- choice ---


def test_the_choice_is_the_same_in_any_order_and_moves_little() -> None:
    rows = [ground(f"n{i}", "[5,5]", [0.0, 0.0, 9.0, 9.0]) for i in range(60)] + [
        act(f"g{i}", Click((1, 1))) for i in range(30)
    ]
    config = EvalConfig(grounding=20, navigation=10)
    chosen = choose(rows, config)
    assert choose(rows[::-1], config) == chosen and len(chosen) == 30
    more = choose([*rows, ground("new", "[5,5]", [0.0, 0.0, 9.0, 9.0])], config)
    assert len({r["sample_id"] for r in chosen} - {r["sample_id"] for r in more}) <= 1
    assert choose([{**rows[0], "target_boxes": []}, {**rows[0], "objective": "vqa"}], config) == []  # can't be checked


# --- intervals ---


def test_clustered_values_have_wider_intervals_than_independent_ones() -> None:
    values = [1.0] * 50 + [0.0] * 50
    alone = interval(values, [str(i) for i in range(100)])
    together = interval(values, [str(i // 10) for i in range(100)])
    assert alone.mean == together.mean == 0.5 and alone.method == "bootstrap over clusters"
    assert 0.38 < alone.low < 0.42 and 0.58 < alone.high < 0.62  # 0.5 ± 1.96·0.05
    assert together.high - together.low > 2 * (alone.high - alone.low)
    assert interval(values, [str(i) for i in range(100)]) == alone  # same seed, same draws


def test_all_equal_falls_back_to_wilson_and_nothing_to_null() -> None:
    found = interval([0.0] * 40, [str(i % 10) for i in range(40)])
    assert (found.low, found.high) == wilson(0, 10) and "Wilson" in found.method
    assert interval([], []).plain()["mean"] is None and math.isnan(interval([], []).mean)
    assert interval([0.3, 0.3], list("ab")).plain()["low"] is None and interval([0.3] * 6, list("abcdef")).low == 0.3


def test_too_few_clusters_say_nothing_for_sure() -> None:
    one = interval([0.0, 1.0, 1.0], ["a"] * 3)  # one screen, whatever was asked about it
    assert (one.low, one.high) == score_interval(2 / 3, 1) and one.low < 0.2 and one.high > 0.9
    assert interval([1.0, 1.3], ["a"] * 2).plain()["low"] is None  # no proportion
    falls = [paired([0.0] * n, [1.0] * n, [str(i) for i in range(n)]).plain() for n in (1, 2, 5, 6)]
    assert [found["high"] for found in falls] == [None, None, None, -1.0] and falls[0]["mean"] == -1.0
    assert [fell(found) for found in falls] == [False, False, False, True]
    few = paired([0.0, 0.0, 0.0], [1.0, 0.5, 1.0], ["a", "b", "c"]).plain()
    assert few["high"] < 0 and not fell(few)
    assert paired([0.5, 0.5], [0.5, 0.5], ["a", "b"]).plain()["high"] == 0.0  # the same weights answered


def test_pairing_sees_a_small_steady_gain() -> None:
    first, second = [i / 50 + 0.05 + 0.01 * (i % 3) for i in range(50)], [i / 50 for i in range(50)]
    clusters = [str(i) for i in range(50)]
    assert paired(first, second, clusters).low > 0.05
    assert interval(first, clusters).low < interval(second, clusters).high  # unpaired they overlap
    with pytest.raises(ValueError, match="same samples"):
        paired([1.0], [], [])


def test_records_without_a_measure_are_left_out() -> None:
    records = [
        {"hit": 1.0, "blind": 0.0, "page": "a"},
        {"hit": 1.0, "blind": None, "page": "b"},
        {"hit": 0.0, "page": "c"},
        {"hit": None, "blind": 1.0, "page": "d"},
    ]
    assert over(records, "hit", "page") == interval([1.0, 1.0, 0.0], ["a", "b", "c"]).plain()
    assert difference(records, "hit", "blind", "page") == paired([1.0], [0.0], ["a"]).plain()
    assert over(records, "never", "page")["n"] == 0
    assert mean_or_none([1.0, 0.0]) == 0.5 and mean_or_none([]) is None


def test_compare_uses_the_samples_that_both_hold() -> None:
    def record(name: str, value: float, domain: str = "navigation/web") -> dict[str, Any]:
        return {"sample_id": name, "domain": domain, "cluster": name, "type": value}

    first = [record("a", 1.0), record("b", 1.0), record("only", 0.0), record("m", 0.0, "navigation/mobile")]
    second = [record("b", 0.0), record("a", 0.0), record("m", 1.0, "navigation/mobile")]
    assert compare(first, second, "type", "navigation/web")["mean"] == 1.0
    both = compare(first, second, "type", "navigation")
    assert both["n"] == 3 and both["mean"] == pytest.approx(1 / 3)


# --- the whole ---


def test_evaluation_of_a_perfect_and_a_blind_model(monkeypatch: pytest.MonkeyPatch, processor: Any) -> None:
    """Replies are scripted: right on the true screen, still the same words on a swapped one."""
    import trainer.modeling.sampler as module
    from trainer.modeling.checkpoint import Checkpoint
    from trainer.modeling.generation import Completion

    rows = [
        ground("a", "[150,200]", [45.0, 62.0, 268.0, 375.0]),
        ground("b", "[560,620]", [446.0, 500.0, 670.0, 750.0], image=BLUE),
        ground("none", "[-1,-1]"),
        act("go", Click((5, 5)), parents=("step:s/e/0",)),
    ]

    def scripted(model: Any, processor: Any, asked: Any, **_: Any) -> list[Completion]:
        true = [row["images"] == by_id[row["sample_id"]]["images"] for row in asked]
        return [Completion(i, 0, text=row["answer"] if true[i] else "[999,999]") for i, row in enumerate(asked)]

    by_id = {row["sample_id"]: row for row in rows}
    monkeypatch.setattr(module, "generate", scripted)
    elements = {picture_key(rows[0]): [[45.0, 62.0, 268.0, 375.0], [500.0, 500.0, 600.0, 600.0]]}
    report = evaluate(
        Checkpoint(SimpleNamespace(), processor, {}),
        rows,
        blind=BlindTable([rows[0]]),
        elements=elements,
        progress=False,
    )
    grounding = report["summary"]["grounding"]
    assert grounding["hit"]["mean"] == grounding["present"]["mean"] == grounding["absent"]["mean"] == 1.0
    assert grounding["controls"]["swapped"]["mean"] == 0.0 and grounding["minus_controls"]["swapped"]["mean"] == 1.0
    assert grounding["controls"]["blind"]["mean"] == 0.5  # it knows "a" only
    expected = (0.5 + (670 - 446) * (750 - 500) / 1e6) / 2  # one of two elements; the area where none are known
    assert grounding["controls"]["random_element"]["mean"] == pytest.approx(expected)
    assert grounding["present"]["n"] == 2 and report["summary"]["navigation/web"]["step"]["mean"] == 1.0
    assert report["summary"]["navigation"]["by_platform"]["web"]["mean"] == 1.0
    assert {r["cluster"].split(":")[0] for r in report["records"]} == {"screen", "episode"}
    held = [record.keys() for record in report["records"]]  # both objectives with every control: all that is declared
    assert set().union(*held) == set(Records.schema.names)
    always = {column.name for column in Records.schema if not column.nullable}
    assert always == set.intersection(*map(set, held))


def test_a_real_model_is_evaluated(
    model: Any, processor: Any, rows: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    from trainer.modeling.checkpoint import Checkpoint

    config = EvalConfig(grounding=4, navigation=4, max_new_tokens=4)
    with caplog.at_level(logging.WARNING, logger="trainer.rl.unreadable"):
        report = evaluate(Checkpoint(model, processor, {}), rows, config, blind=BlindTable(rows), progress=False)
    assert len(report["records"]) == 8 and report["unreadable"] == 0
    assert report["summary"]["navigation"]["unreadable_share"] == 1.0, "four tokens are no action"
    assert "evaluation, navigation: 4 of 4 replies (100%) can't be read" in caplog.text
    assert summarise(report["records"][:4])["format"]["n"] == 4
