"""Rewards of docs/method.md §6 with the arithmetic beside the numbers, and their ranges by property."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from schemas import actions
from schemas.actions import (
    SPACES,
    WIDEST,
    Action,
    CallUser,
    Click,
    DoubleClick,
    Drag,
    Finished,
    Hotkey,
    Hover,
    Launch,
    LongPress,
    PressBack,
    Scroll,
    SelectOption,
    Type,
    Wait,
    parse_reply,
)
from trainer.rl import rewards
from trainer.settings.rewards import RewardConfig

BOX = (100.0, 200.0, 300.0, 400.0)
GROUND = rewards.ReplyTarget("grounding", boxes=(BOX,))
REFUSE = rewards.ReplyTarget("grounding", refusal=True)


def reply(action: Action | str, think: str = "", conclusion: str = "") -> str:
    # as models write it: text unescaped, and a scroll with the points it has
    text = action if isinstance(action, str) else _written(action)
    return f"<think>{think}</think><action>{text}</action><conclusion>{conclusion}</conclusion>"


def _written(action: Action) -> str:
    return actions.format(action) if isinstance(action, Scroll) else actions.render(action, "web")


def navigation(action: Action, *boxes: tuple[float, ...]) -> rewards.ReplyTarget:
    return rewards.ReplyTarget("navigation", action, boxes)


class TestGrounding:
    @pytest.mark.parametrize("point", ["[100,200]", "[300,400]", "[100,400]", "[200,300]", " [ 200, 300 ] "])
    def test_inside_or_on_the_border(self, point: str) -> None:
        assert rewards.reward(point, GROUND) == pytest.approx(1.0)  # 0.1 + 0.9

    @pytest.mark.parametrize("point", ["[99,200]", "[301,300]", "[200,401]", "[-1,-1]"])
    def test_outside_earns_the_form_alone(self, point: str) -> None:
        assert rewards.reward(point, GROUND) == pytest.approx(0.1)

    def test_form_and_point_are_judged_apart(self) -> None:
        assert rewards.score("(200, 300)", GROUND) == {"format": 0.0, "point": 1.0, "total": 0.9}
        assert rewards.score("[200,300] it is here", GROUND)["total"] == 0.0
        assert rewards.score("", GROUND)["total"] == 0.0
        assert rewards.score("[2000,300]", GROUND) == {"format": 1.0, "point": 0.0, "total": 0.1}

    def test_any_of_several_boxes_will_do(self) -> None:
        assert rewards.reward(
            "[900,900]", rewards.ReplyTarget("grounding", boxes=(BOX, (850.0, 850.0, 950.0, 950.0)))
        ) == pytest.approx(1.0)

    def test_refusal_expects_minus_one_twice(self) -> None:
        assert rewards.reward("[-1,-1]", REFUSE) == pytest.approx(1.0)
        assert rewards.reward("[200,300]", REFUSE) == pytest.approx(0.1)
        assert rewards.point_hit((-1, -1), [(-5.0, -5.0, 5.0, 5.0)]) is False  # never by way of a box

    def test_truth_of_a_sample_row(self) -> None:
        row = {"objective": "grounding", "answer": "[200,300]", "target_boxes": [list(BOX)]}
        assert rewards.ReplyTarget.of_sample(row) == GROUND
        assert rewards.ReplyTarget.of_sample({**row, "answer": "[-1,-1]", "target_boxes": []}) == REFUSE
        with pytest.raises(ValueError, match="boxes or a refusal"):
            rewards.ReplyTarget.of_sample({**row, "target_boxes": []})
        with pytest.raises(ValueError, match="vqa"):
            rewards.ReplyTarget.of_sample({**row, "objective": "vqa"})


class TestFormat:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            (reply(Wait()), 1.0),
            (reply("nonsense"), 1.0),  # what stands in the tags is R_action's business
            ("<think>a</think>\n<action>Wait()</action>\n<conclusion>b</conclusion>\n", 1.0),
            ("Wait()", 0.0),
            ("<action>Wait()</action><think></think><conclusion></conclusion>", 0.0),
            ("<think></think><action>Wait()</action>", 0.0),
            (reply(Wait()) + "<conclusion></conclusion>", 0.0),
            (reply(Wait(), think="<think>"), 0.0),
            ("so: " + reply(Wait()), 0.0),
        ],
    )
    def test_three_tags_once_in_order(self, text: str, value: float) -> None:
        assert rewards.r_format(text, navigation(Wait())) == value


class TestActions:
    def test_a_wrong_type_earns_nothing_but_the_form(self) -> None:
        assert rewards.reward(reply(Click((500, 500))), navigation(LongPress((500, 500)))) == pytest.approx(0.1)
        assert rewards.reward("<action>Click(box=", navigation(Click((1, 1)))) == 0.0

    @pytest.mark.parametrize("kind", [Click, LongPress, Hover, DoubleClick])
    @pytest.mark.parametrize(("x", "extra"), [(500, 1.0), (569, 1.0), (570, 0.5), (639, 0.5), (640, 0.0), (1000, 0.0)])
    def test_coordinates_fall_in_two_tiers(self, kind: type, x: int, extra: float) -> None:
        assert rewards.score_action(kind((x, 500)), kind((500, 500))) == 1.0 + extra
        assert rewards.reward(reply(kind((x, 500))), navigation(kind((500, 500)))) == pytest.approx(
            0.1 + 0.9 * (1 + extra)
        )

    def test_box_aware_replaces_the_inner_tier(self) -> None:
        aware = RewardConfig(box_aware=True)
        box = (480.0, 480.0, 520.0, 520.0)
        assert rewards.score_action(Click((520, 520)), Click((500, 500)), [box], aware) == 2.0
        assert (
            rewards.score_action(Click((530, 500)), Click((500, 500)), [box], aware) == 1.5
        )  # d = 30, outside the box
        assert rewards.score_action(Click((530, 500)), Click((500, 500)), [box]) == 2.0
        assert rewards.score_action(Click((530, 500)), Click((500, 500)), [], aware) == 2.0  # no box known

    def test_drag_is_the_mean_of_its_ends(self) -> None:
        truth = Drag((100, 100), (500, 500))
        assert rewards.score_action(Drag((100, 169), (500, 570)), truth) == 1.75  # (1 + 0.5) / 2
        assert rewards.score_action(Drag((100, 100), (500, 700)), truth) == 1.5  # (1 + 0) / 2

    @pytest.mark.parametrize(
        ("found", "extra"),
        [
            (Scroll((500, 700), (500, 300)), 1.5),
            (Scroll((500, 600), (500, 200)), 1.5),  # both 100 off
            (Scroll((500, 700), (500, 450)), 1.0),  # end 150 off
            (Scroll((500, 900), (500, 300)), 0.5),  # direction alone
            (Scroll((500, 700), (500, 900)), 0.5),  # start alone
            (Scroll((100, 100), (100, 500)), 0.0),
            (Scroll(direction="down"), 0.5),
            (Scroll(direction="up"), 0.0),
            (Scroll((500, 560), (500, 160)), 0.5),  # d = 140 is not within 140
        ],
    )
    def test_scroll_tiers_with_points(self, found: Scroll, extra: float) -> None:
        assert rewards.score_action(found, Scroll((500, 700), (500, 300), "down")) == 1.0 + extra

    def test_scroll_without_points_is_its_direction(self) -> None:
        assert rewards.score_action(Scroll((100, 900), (100, 100)), Scroll(direction="down")) == 2.5
        assert rewards.score_action(Scroll(direction="down"), Scroll(direction="down")) == 2.5
        assert rewards.score_action(Scroll(direction="left"), Scroll(direction="down")) == 1.0

    def test_hotkey_is_a_set(self) -> None:
        assert rewards.score_action(Hotkey(("C", "ctrl")), Hotkey(("ctrl", "c"))) == 2.0
        assert rewards.score_action(Hotkey(("ctrl", "v")), Hotkey(("ctrl", "c"))) == 1.0

    def test_content_is_f1(self) -> None:
        assert rewards.score_action(Type("the red shoes"), Type("Red shoes")) == pytest.approx(1.8)  # 2*2 / (3 + 2)
        assert rewards.score_action(CallUser("42"), CallUser("42")) == 2.0
        assert rewards.score_action(Launch(app="Clock"), Launch(app="clock")) == 2.0
        assert rewards.score_action(Launch(url="clock"), Launch(app="clock")) == 1.0

    def test_finished_and_bare_actions_earn_the_type(self) -> None:
        assert rewards.score_action(Finished("a"), Finished("b")) == 1.0
        assert rewards.score_action(Wait(), Wait()) == 1.0
        assert rewards.score_action(PressBack(), Wait()) == 0.0

    @pytest.mark.parametrize("content", ["it's", "a\nb", 'say "x", (y)', "\\", "北京 2024"])
    def test_escaped_and_plain_spellings_are_both_understood(self, content: str) -> None:
        truth = navigation(Type(content))
        assert rewards.reward(reply(Type(content)), truth) == pytest.approx(0.1 + 0.9 * 2)
        assert rewards.reward(reply(f"Type(content='{content}')"), truth) == pytest.approx(0.1 + 0.9 * 2)


class TestF1:
    @pytest.mark.parametrize(
        ("found", "expected", "value"),
        [
            ("", "", 1.0),
            (" ", "\n", 1.0),
            ("", "a", 0.0),
            ("a", "", 0.0),
            ("STRASSE", "straße", 1.0),
            ("a a b", "a b b", 2 * 2 / 6),
            ("北京天气", "北京", 2 * 2 / 6),
            ("去 Paris", "paris", 2 * 1 / 3),
            ("!", "?", 0.0),
        ],
    )
    def test_values(self, found: str, expected: str, value: float) -> None:
        assert rewards.content_f1(found, expected) == pytest.approx(value)

    @given(st.text(), st.text())
    def test_symmetric_and_bounded(self, one: str, other: str) -> None:
        assert rewards.content_f1(one, other) == rewards.content_f1(other, one)
        assert 0.0 <= rewards.content_f1(one, other) <= 1.0
        assert rewards.content_f1(one, one) == 1.0


class TestStepSuccess:
    def test_point_in_box_or_near(self) -> None:
        truth = Click((200, 300))
        assert rewards.step_success(Click((100, 200)), truth, BOX)  # a corner of the box, 141 away
        assert not rewards.step_success(Click((100, 200)), truth)
        assert rewards.step_success(Click((200, 369)), truth) and not rewards.step_success(Click((200, 370)), truth)
        assert not rewards.step_success(LongPress((200, 300)), truth, BOX)
        assert not rewards.step_success(None, truth, BOX)

    def test_other_actions(self) -> None:
        assert rewards.step_success(Scroll(direction="down"), Scroll((500, 700), (500, 300)))
        assert not rewards.step_success(Scroll(direction="up"), Scroll((500, 700), (500, 300)))
        assert rewards.step_success(Type("red shoes cheap"), Type("red shoes"))
        assert not rewards.step_success(Type("blue"), Type("red"))
        assert rewards.step_success(Drag((0, 0), (500, 500)), Drag((10, 10), (520, 500)))
        assert not rewards.step_success(Drag((0, 0), (500, 500)), Drag((10, 10), (580, 500)))
        assert rewards.step_success(Hotkey(("c", "ctrl")), Hotkey(("ctrl", "c")))
        assert not rewards.step_success(Launch(url="clock"), Launch(app="clock"))
        assert rewards.step_success(Finished("x"), Finished()) and rewards.step_success(Wait(), Wait())


DOWN = Scroll((500, 700), (500, 300))
GOLDEN: list[tuple[str, rewards.ReplyTarget, str, float]] = [
    # (line of docs/method.md §6, truth, reply, R with w = (0.1, 0.9), α = β = 1, δ2 = 70, δ1 = δ3 = 140)
    ("format and point in box", GROUND, "[200,300]", 1.0),
    ("borders included", GROUND, "[300,400]", 1.0),
    ("outside the box", GROUND, "[301,400]", 0.1),
    ("a point without its form", GROUND, "(200, 300)", 0.9),
    ("refusal expected and given", REFUSE, "[-1,-1]", 1.0),
    ("refusal expected, a point given", REFUSE, "[200,300]", 0.1),
    ("a point expected, refusal given", GROUND, "[-1,-1]", 0.1),
    ("nothing said", GROUND, "", 0.0),
    ("three tags in order, all empty", navigation(Wait()), reply(""), 0.1),
    ("three tags in order, empty but for the action", navigation(Wait()), reply(Wait()), 1.0),
    ("tags out of order", navigation(Wait()), "<action>Wait()</action><think></think><conclusion></conclusion>", 0.9),
    ("no tags, no action", navigation(Wait()), "Wait", 0.0),
    ("wrong type: the second part is never reached", navigation(Click((5, 5))), reply(Hover((5, 5))), 0.1),
    ("no parameters: R_type alone", navigation(PressBack()), reply(PressBack()), 1.0),
    ("d = 0", navigation(Click((500, 500))), reply(Click((500, 500))), 1.9),
    ("d = 69.6 < δ2", navigation(Click((500, 500))), reply(Click((542, 555))), 1.9),
    ("d = δ2 is outside: a 3-4-5 triangle", navigation(Click((500, 500))), reply(Click((542, 556))), 1.45),
    ("d = 139.4 < δ1", navigation(LongPress((500, 500))), reply(LongPress((584, 611))), 1.45),
    ("d = δ1 is outside", navigation(LongPress((500, 500))), reply(LongPress((584, 612))), 1.0),
    ("Hover, far", navigation(Hover((0, 0))), reply(Hover((1000, 1000))), 1.0),
    ("DoubleClick, near", navigation(DoubleClick((0, 0))), reply(DoubleClick((0, 69))), 1.9),
    ("Drag, both ends", navigation(Drag((10, 10), (900, 900))), reply(Drag((10, 10), (900, 900))), 1.9),
    ("Drag, α and 0.5 α", navigation(Drag((10, 10), (900, 900))), reply(Drag((10, 10), (900, 800))), 1.675),
    ("Drag, 0 and α", navigation(Drag((10, 10), (900, 900))), reply(Drag((400, 10), (900, 900))), 1.45),
    ("Drag, reversed", navigation(Drag((10, 10), (900, 900))), reply(Drag((900, 900), (10, 10))), 1.0),
    ("Scroll, start, end, direction", navigation(DOWN), reply(Scroll((500, 600), (500, 400))), 0.1 + 0.9 * 2.5),
    ("Scroll, start and direction", navigation(DOWN), reply(Scroll((500, 700), (500, 500))), 0.1 + 0.9 * 2.0),
    ("Scroll, direction alone", navigation(DOWN), reply(Scroll((100, 700), (100, 300))), 0.1 + 0.9 * 1.5),
    ("Scroll, end and direction", navigation(DOWN), reply(Scroll((500, 900), (500, 300))), 0.1 + 0.9 * 1.5),
    ("Scroll, start alone", navigation(DOWN), reply(Scroll((500, 700), (900, 700))), 0.1 + 0.9 * 1.5),
    ("Scroll, end alone", navigation(DOWN), reply(Scroll((500, 100), (500, 300))), 1.0),
    ("Scroll, start at d = δ3 is outside", navigation(DOWN), reply(Scroll((584, 588), (584, 300))), 0.1 + 0.9 * 1.5),
    (
        "Scroll, truth without points",
        navigation(Scroll(direction="up")),
        reply(Scroll(direction="up")),
        0.1 + 0.9 * 2.5,
    ),
    ("Scroll without points, wrong", navigation(Scroll(direction="up")), reply(Scroll(direction="left")), 1.0),
    ("Hotkey, the same set", navigation(Hotkey(("ctrl", "shift", "t"))), reply(Hotkey(("T", "shift", "Ctrl"))), 1.9),
    ("Hotkey, a part of it", navigation(Hotkey(("ctrl", "shift", "t"))), reply(Hotkey(("ctrl", "t"))), 1.0),
    ("F1 of words, casefolded", navigation(Type("New York City")), reply(Type("new york")), 0.1 + 0.9 * 1.8),
    ("F1 of CJK characters", navigation(Type("北京天气")), reply(Type("天气")), 0.1 + 0.9 * (1 + 2 / 3)),
    ("F1, words and CJK mixed", navigation(Type("买 iPhone 手机")), reply(Type("iphone 手")), 0.1 + 0.9 * (1 + 2 / 3)),
    ("F1, both empty = 1", navigation(Type("")), reply(Type("")), 1.9),
    ("F1, one empty = 0", navigation(Type("a")), reply(Type("")), 1.0),
    ("CallUser is content too", navigation(CallUser("which one")), reply(CallUser("which")), 0.1 + 0.9 * (1 + 2 / 3)),
    ("the text of Finished isn't scored", navigation(Finished("42")), reply(Finished("7")), 1.0),
]


@pytest.mark.parametrize(("truth", "text", "value"), [case[1:] for case in GOLDEN], ids=[case[0] for case in GOLDEN])
def test_golden(truth: rewards.ReplyTarget, text: str, value: float) -> None:
    assert rewards.reward(text, truth) == pytest.approx(value, abs=1e-12)


UNIT = st.integers(0, 1000)
POINTS = st.tuples(UNIT, UNIT)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@st.composite
def any_action(draw: st.DrawFn) -> Action:
    kind = draw(st.sampled_from(sorted(SPACES[WIDEST])))
    cls = SPACES[WIDEST][kind]
    if kind == "SelectOption":
        return SelectOption(draw(POINTS), draw(TEXT.filter(bool)))
    if kind in ("Click", "LongPress", "Hover", "DoubleClick", "RightClick"):
        return cls(draw(POINTS))
    if kind == "Drag":
        return Drag(draw(POINTS), draw(POINTS))
    if kind == "Scroll":
        start, end = draw(POINTS), draw(POINTS)
        if start != end and draw(st.booleans()):
            return Scroll(start, end)
        return Scroll(direction=draw(st.sampled_from(["up", "down", "left", "right"])))
    if kind == "Launch":
        return Launch(app=draw(TEXT.filter(bool)))
    if kind == "Hotkey":
        return Hotkey(
            tuple(draw(st.lists(st.sampled_from(["ctrl", "shift", "c", "Enter", "+"]), min_size=1, max_size=3)))
        )
    return cls(draw(TEXT)) if kind in ("Type", "Finished", "CallUser", "TakeNote") else cls()


class TestLaws:
    @given(any_action(), any_action(), st.floats(0, 3), st.floats(0, 3), st.booleans())
    def test_terms_stay_in_their_declared_ranges(
        self, found: Action, truth: Action, alpha: float, beta: float, aware: bool
    ) -> None:
        config = RewardConfig(alpha=alpha, beta=beta, box_aware=aware)
        terms = rewards.score(reply(found), navigation(truth, BOX), config)
        for name, value in terms.items():
            low, high = rewards.bounds("navigation", config) if name == "total" else rewards.TERMS[name].bounds(config)
            assert low <= value <= high + 1e-9

    @given(st.text(max_size=60), any_action())
    def test_no_text_raises_or_leaves_the_range(self, text: str, truth: Action) -> None:
        for held in (navigation(truth), GROUND, REFUSE):
            for wrapped in (text, reply(text), f"[{text}]"):
                low, high = rewards.bounds(held.objective)
                assert low <= rewards.reward(wrapped, held) <= high

    @given(any_action())
    def test_the_truth_itself_is_read_back_succeeds_and_earns_most(self, truth: Action) -> None:
        # tags and twins inside typed text are ambiguous by nature
        assume(not any(mark in actions.format(truth) for mark in ("<", ">", "app='app=", "url=")))
        assert parse_reply(reply(truth), WIDEST).action == truth
        assert rewards.step_success(truth, truth) and rewards.type_match(truth, truth)
        others = (Wait(), Click((0, 0)), Type(""), Scroll(direction="up"))
        assert all(rewards.score_action(truth, truth) >= rewards.score_action(other, truth) for other in others)

    @pytest.mark.parametrize("text", ["C:\\new\\table", "it's", "say 'a' \\n", "two\nlines"])
    def test_text_is_read_literally_backslashes_and_quotes_too(self, text: str) -> None:
        answer = f"<think></think><action>Type(content='{text}')</action><conclusion></conclusion>"
        row: dict[str, Any] = {"objective": "navigation", "answer": answer, "target_boxes": []}
        truth = rewards.ReplyTarget.of_sample(row)
        assert truth.action == Type(text) and rewards.reward(row["answer"], truth) == pytest.approx(0.1 + 0.9 * 2)

    def test_bounds_are_those_of_the_method(self) -> None:
        assert rewards.bounds("grounding") == (0.0, 1.0)
        assert rewards.bounds("navigation") == (0.0, pytest.approx(0.1 + 0.9 * 2.5))

    def test_contradicting_radii_are_refused(self) -> None:
        with pytest.raises(ValueError, match="delta2"):
            RewardConfig(delta1=10)
