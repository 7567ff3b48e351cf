"""`parse`/`format` are exact inverses, `parse_reply` reads what models write, the Arrow twin agrees."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import actions
from schemas.action_columns import action_text, content_direction, scroll_text
from schemas.actions import (
    Action,
    CallUser,
    Click,
    DoubleClick,
    Drag,
    Finished,
    GetUrl,
    Hotkey,
    Hover,
    Launch,
    LongPress,
    PressBack,
    PressEnter,
    PressHome,
    PressRecent,
    RightClick,
    Scroll,
    SelectOption,
    TakeNote,
    Type,
    Wait,
    parse,
    parse_reply,
    render,
    scroll_direction,
)

coordinate = st.integers(0, 1000)
point = st.tuples(coordinate, coordinate)
text = st.text(st.characters(exclude_categories=["Cs"]))
some_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
paths = st.tuples(point, point).filter(lambda pair: pair[0] != pair[1])
scrolls = st.one_of(
    st.sampled_from(["up", "down", "left", "right"]).map(lambda word: Scroll(direction=word)),
    paths.map(lambda pair: Scroll(*pair)),
    paths.map(lambda pair: Scroll(*pair, scroll_direction(*pair))),
)
any_action = st.one_of(
    *[st.builds(kind, point) for kind in (Click, LongPress, Hover, DoubleClick)],
    st.builds(Drag, point, point),
    scrolls,
    *[st.builds(kind, text) for kind in (Type, Finished, CallUser)],
    some_text.map(lambda value: Launch(app=value)),
    some_text.map(lambda value: Launch(url=value)),
    st.lists(some_text, min_size=1, max_size=3).map(lambda keys: Hotkey(tuple(keys))),
    *[st.just(kind()) for kind in (Wait, PressBack, PressHome, PressEnter, PressRecent)],
)
added_in_v2 = st.one_of(
    st.builds(RightClick, point),
    st.builds(SelectOption, point, some_text),
    st.just(GetUrl()),
    st.builds(TakeNote, text),
)
any_of_v2 = st.one_of(any_action, added_in_v2)


@given(any_action)
def test_parse_is_the_inverse_of_format(action: Action) -> None:
    assert parse(actions.format(action), "v1.5") == parse(actions.format(action), "v2") == action


@given(added_in_v2)
def test_only_v2_has_the_four(action: Action) -> None:
    written = actions.format(action)
    assert parse(written) == parse(written, "v2") == action
    with pytest.raises(ValueError, match=f"unknown name '{type(action).__name__}'; known are Click, .*PressRecent$"):
        parse(written, "v1.5")
    said = f"<think></think><action>{render(action, 'web')}</action><conclusion></conclusion>"
    assert parse_reply(said).error == f"reply: unknown action '{type(action).__name__}'"


@given(st.lists(point, min_size=1, max_size=9), st.lists(text, min_size=1, max_size=9))
def test_the_arrow_twin_writes_what_the_scalar_function_writes(points: list[tuple[int, int]], texts: list[str]) -> None:
    x, y = (pa.array(column, pa.int16()) for column in zip(*points, strict=True))
    for kind in (Click, LongPress, RightClick):
        assert action_text(kind.__name__, point=(x, y)).to_pylist() == [actions.format(kind(one)) for one in points]
    content = pa.array(texts, pa.string())
    for kind in (Type, Finished, TakeNote):
        assert action_text(kind.__name__, content=content).to_pylist() == [actions.format(kind(one)) for one in texts]
    assert action_text("PressBack", content=content).to_pylist() == ["PressBack()"] * len(texts)


@given(text)
def test_parse_reads_canonical_text_only(noise: str) -> None:
    try:
        action = parse(noise)
    except ValueError:
        return
    assert actions.format(action) == noise


@given(paths)
def test_scrolls_are_the_same_on_columns(pair: tuple[tuple[int, int], tuple[int, int]]) -> None:
    columns = [pa.array([value], pa.int16()) for value in (*pair[0], *pair[1])]
    direction = content_direction(*columns)
    assert direction.to_pylist() == [scroll_direction(*pair)]
    written = actions.format(Scroll(*pair, scroll_direction(*pair)))
    assert scroll_text(*columns, direction=direction).to_pylist() == [written]


@pytest.mark.parametrize(
    "bad",
    [
        "Click(box=(1, 2))",
        "Click(box=(01,2))",
        "Click(box=(1,1001))",
        "Click(box=(٣,2))",
        "Click",
        "Tap(box=(1,2))",
        "Scroll()",
        "Scroll(direction='')",
        "Scroll(start=(5,7), end=(5,7))",
        "Scroll(start=(5,7), end=(5,3), direction='up')",
        "Scroll(start=(5,7), end=(5,3)direction='down')",
        "Type(content='a'b')",
        "Type(content='a\nb')",
        "Type(content='a\\x')",
        "Launch(app='')",
        "Hotkey(keys=[])",
        "Hotkey(keys=['a','b','c','d'])",
        "Wait() ",
        "RightClick(box=(1, 2))",
        "SelectOption(box=(1,2))",
        "SelectOption(box=(1,2), option='')",
        "SelectOption(box=(1,2),option='a')",
        "SelectOption(option='a', box=(1,2))",
        "GetUrl('a')",
        "TakeNote(note='a')",
        "",
    ],
)
def test_what_is_not_canonical_is_refused(bad: str) -> None:
    with pytest.raises(ValueError):
        parse(bad)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Click((1001, 0)), "0..1000"),
        (lambda: Click((True, 0)), "0..1000"),
        (lambda: Click([1, 2]), "0..1000"),
        (lambda: Scroll((1, 2)), "both start and end"),
        (lambda: Scroll(), "neither"),
        (lambda: Type("\ud800"), "surrogate"),
        (lambda: Type(3), "text"),
        (lambda: Launch(), "exactly one"),
        (lambda: Launch(app="a", url="b"), "exactly one"),
        (lambda: Hotkey(("ctrl", "")), "empty"),
        (lambda: Hotkey(["ctrl"]), "tuple"),
        (lambda: SelectOption((1, 2), ""), "empty"),
        (lambda: SelectOption((1, 1001), "a"), "0..1000"),
        (lambda: TakeNote(None), "text"),
    ],
)
def test_an_illegal_action_cannot_be_made(make: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()  # type: ignore[operator]


# What the published model writes, spelling by spelling.
@pytest.mark.parametrize(
    ("written", "action"),
    [
        ("<think>a</think>\n<action>Click(box=(12, 34))</action>\n<conclusion>c</conclusion>", Click((12, 34))),
        ("<action>Click(box=[12,34])</action>", Click((12, 34))),
        ("Click(box=(10,20,30,40))", Click((20, 30))),
        ("Click(box=(12.4, 33.6))", Click((12, 34))),
        ("```LongPress( box = (1 , 2) )```", LongPress((1, 2))),
        ("Drag(start=(1, 2), end=[3, 4])", Drag((1, 2), (3, 4))),
        ("Scroll(start=(500, 800), end=(500, 200), direction='')", Scroll((500, 800), (500, 200))),
        ('Scroll(direction="Down")', Scroll(direction="down")),
        ("Scroll(start=(500,800), end=(500,200), direction='down')", Scroll((500, 800), (500, 200), "down")),
        ("Type(content='it's (a, \"b\")')", Type('it\'s (a, "b")')),
        (r"Type(content='C:\new')", Type(r"C:\new")),
        ("Type(content='你好\n世界')", Type("你好\n世界")),
        ("Finished()", Finished()),
        ("CallUser(content='Which one?')", CallUser("Which one?")),
        ("Launch(app='Clock')", Launch(app="Clock")),
        ("Launch(app='', url='https://a.example/?q=(1)')", Launch(url="https://a.example/?q=(1)")),
        ("Hotkey(key=['ctrl', 'c'])", Hotkey(("ctrl", "c"))),
        ("hotkey(keys=['ctrl','shift','t'])", Hotkey(("ctrl", "shift", "t"))),
        ("PressBack()", PressBack()),
    ],
)
def test_parse_reply_reads_the_published_spellings(written: str, action: Action) -> None:
    reply = parse_reply(written)
    assert reply.error is None
    assert reply.action == action


@pytest.mark.parametrize(
    ("written", "action"),
    [
        ("<action>RightClick(box=[12, 34])</action>", RightClick((12, 34))),
        ("SelectOption(box=(12,34), option='It's 5' (13 cm)')", SelectOption((12, 34), "It's 5' (13 cm)")),
        ('selectoption( [1, 2, 3, 4] , "a, b" )', SelectOption((2, 3), "a, b")),
        ("GetUrl()", GetUrl()),
        ("TakeNote(content='room 12\nfloor 3')", TakeNote("room 12\nfloor 3")),
    ],
)
def test_parse_reply_reads_the_four_of_v2(written: str, action: Action) -> None:
    assert parse_reply(written, "v2").action == action


@pytest.mark.parametrize(
    "written",
    [
        "SelectOption(box=(1,2))",
        "SelectOption(box=(1,2), option='')",
        "SelectOption(option='a')",
        "SelectOption(box=(1,2000), option='a')",
        "SelectOption(box=(1,2), option='a') Click(1,2)",
        "SelectOption(box=(1,2), option='a', content='b')",
        "TakeNote(content='a')\nRightClick(1,2)",
    ],
)
def test_parse_reply_says_what_is_wrong_with_one_of_the_four(written: str) -> None:
    reply = parse_reply(written, "v2")
    assert reply.action is None and reply.error


def test_parse_reply_reads_grounding_and_refusal() -> None:
    assert parse_reply("[120, 340]").point == (120, 340)
    assert parse_reply("[100,200,300,400]").point == (200, 300)
    assert parse_reply("[-1,-1]").refusal
    assert parse_reply("[2000,1]").error is not None
    assert not parse_reply("[0,0]").refusal


@pytest.mark.parametrize(
    "written", ["", "I would click.", "Click(box=(1,2000))", "Scroll(direction='sideways')", "<action>"]
)
def test_parse_reply_never_raises_and_says_why(written: str) -> None:
    reply = parse_reply(written)
    assert reply.action is None
    assert reply.error


def test_tags_ok_needs_three_tags_in_order() -> None:
    good = "<think></think><action>Wait()</action><conclusion></conclusion>"
    assert parse_reply(good).tags_ok
    assert not parse_reply("<action>Wait()</action><think></think><conclusion></conclusion>").tags_ok
    assert not parse_reply("<think></think><action>Wait()</action>").tags_ok
    assert not parse_reply(f"{good} and more").tags_ok


@given(any_of_v2.filter(lambda a: not isinstance(a, Hotkey | Scroll)), st.sampled_from(["mobile", "web", "desktop"]))
def test_parse_reply_reads_rendered_text_back(action: Action, platform: str) -> None:
    content = "".join(str(getattr(action, name, "")) for name in ("content", "app", "url", "option"))
    if any(mark in content for mark in ("<", ">", "app=", "url=")):
        return  # tags and twins inside typed text are ambiguous by nature
    assert parse_reply(f"<action>{render(action, platform)}</action>", "v2").action == action


def test_render_writes_scroll_as_the_platform_does() -> None:
    path = Scroll((500, 800), (500, 200))
    assert render(path, "web") == "Scroll(direction='down')"
    assert render(path, "mobile") == "Scroll(start=(500,800), end=(500,200))"
    assert render(Scroll(direction="down"), "mobile") == "Scroll(start=(500,700), end=(500,300))"
    for word in ("up", "down", "left", "right"):  # synthesised paths mean what they were made from
        reply = parse_reply(render(Scroll(direction=word), "mobile"))
        assert isinstance(reply.action, Scroll)
        assert scroll_direction(reply.action.start, reply.action.end) == word  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ctrl", "Control_L ctrlright LCtrl left_control ⌃ ControlOrMeta"),
        ("meta", "Super_L Super_R winleft LWin Command cmd ⌘"),
        ("alt", "Alt_L AltRight opt ⌥"),
        ("shift", "Shift_R rightshift ⇧"),
        ("pageup", "Prior Page_Up PgUp"),
        ("enter", "KP_Enter Return \n"),
        ("-", "minus -"),
        (".", "period dot ."),
        ("pagedown", "Next Page_Down PGDN"),
        ("menu", "ContextMenu apps"),
        (";", "Semicolon ;"),
        ("\\", "Backslash \\"),
        ("ctrl", "Key.ctrl_l Keys.CONTROL"),
        ("up", "KEYCODE_UP Keys.ARROW_UP Up"),
        ("c", "KeyC c"),
        ("5", "Digit5 numpad5 num5 KP_5 5"),
        ("backspace", "KEYCODE_DEL BackSpace ⌫"),
        ("delete", "KEYCODE_FORWARD_DEL Del {DELETE}"),
        ("down", "KEYCODE_DPAD_DOWN KP_Down ↓ <Down>"),
        ("enter", "NumpadEnter KEYCODE_NUMPAD_ENTER {ENTER} EnterKey ⏎"),
        ("meta", "OSLeft windows_key"),
        ("altgr", "AltGraph ISO_Level3_Shift"),
        ("+", "KP_Add NumpadAdd add plus"),
        ("?", "question ?"),
        (":", "colon :"),
        ("volumeup", "VolumeUp AudioVolumeUp KEYCODE_VOLUME_UP"),
        ("key", "key"),
        ("monkey", "monkey"),
        ("monkeyc", "monkeyc"),
        ("l", "l"),
    ],
)
def test_a_key_has_one_name_whatever_it_is_called(name: str, said: str) -> None:
    assert {Hotkey((one,)).keys for one in said.split(" ")} == {(name,)}
