"""The emulated phone's shell: what stock Android answers, on a phone that records what reached its screen."""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording_phone import RecordingPhone

from generators.devices.protocols.adb_harness import ADB_KEYBOARD, HARNESS_RESET, HARNESS_STATE
from generators.worlds.android.emulated_phone import LATIN_KEYBOARD, EmulatedPhone
from generators.worlds.android.keys import key_name
from generators.worlds.android.shell_commands import COMMANDS, run_line
from generators.worlds.android.shell_expansion import ShellSession, expand_fields
from generators.worlds.android.shell_line import LineError, parse_line
from generators.worlds.android.uiautomator import UiAutomatorNode, dump_xml
from generators.worlds.android.virtual_files import MAX_FILE, FileError, VirtualFiles
from pipelines.native.android_xml import views


class Shell:
    """A phone and its shell."""

    def __init__(self, harness: bool = True) -> None:
        self.backend = RecordingPhone()
        self.phone = EmulatedPhone(self.backend, harness=harness)

    def __call__(self, line: str) -> tuple[str, str, int]:
        ran = asyncio.run(run_line(self.phone, line))
        return bytes(ran.out).decode("utf-8", "replace"), bytes(ran.err).decode("utf-8", "replace"), ran.code


@pytest.fixture
def shell() -> Shell:
    return Shell()


def test_touch_inside_and_outside(shell: Shell) -> None:
    for line in (
        "input tap 360 10",
        "input tap 10 640",
        "input tap -1 5",
        "input tap 1e999 5",
        "input swipe 400 1 1 1",
        "input touchscreen tap 10.9 20",
    ):
        assert shell(line) == ("", "", 0)
    assert shell.backend.done == [("tap", 10, 20)]
    shell("input swipe 10 20 30 9999 150; input swipe 5 5 5 5 800; input draganddrop 1 2 3 4")
    assert shell.backend.done[1:] == [
        ("swipe", 10, 20, 30, 639, 150),
        ("swipe", 5, 5, 5, 5, 800),
        ("swipe", 1, 2, 3, 4, 300),
    ]
    shell.backend.done.clear()
    for line in ("DOWN 10 20", "MOVE 15 25", "UP 30 40", "UP 1 1", "DOWN 9 9", "CANCEL"):
        assert shell(f"input motionevent {line}; input press; input roll 1 1") == ("", "", 0)
    [(kind, *ends, _)] = shell.backend.done
    assert (kind, ends) == ("swipe", [10, 20, 30, 40])


@pytest.mark.parametrize(
    "line",
    [
        "input tap",
        "input tap 5",
        "input tap a b",
        "input tap nan 5",
        "input tap ١ 5",
        "input swipe 1 2 3",
        "input text",
        "input keyevent",
        "input",
        "input fly 1 2",
        "input motionevent DOWN 5",
        "input motionevent HOVER 5 5",
        "input tap 1_0 5",
    ],
)
def test_bad_input_commands_fail_and_do_nothing(shell: Shell, line: str) -> None:
    _, error, code = shell(line)
    assert code == 255 and error and shell.backend.done == []


def test_input_text_is_what_keys_can_type(shell: Shell) -> None:
    assert shell("input text 'a%sb%d%%s'")[2] == 0
    assert shell.backend.typed == b"a b%d% "
    for text in ("é", "你好", "a😀", "a\x01"):
        _, error, code = shell(f"input text {shlex.quote(text)}")
        assert code == 255 and "java.lang.NullPointerException" in error
    assert shell.backend.typed == b"a b%d% "
    shell("input text 'x\ny'")
    assert shell.backend.done[-3:] == [("text", 1), ("key", "KEYCODE_ENTER"), ("text", 1)]


def test_keys(shell: Shell) -> None:
    shell("input keyevent 4 KEYCODE_HOME ENTER --longpress 187; input keyevent 9999 NONSENSE")
    assert [call[1] for call in shell.backend.done] == [
        "KEYCODE_BACK",
        "KEYCODE_HOME",
        "KEYCODE_ENTER",
        "KEYCODE_APP_SWITCH",
    ]
    assert key_name("KEYCODE_A") == "KEYCODE_A" and key_name("29") == "KEYCODE_A" and key_name("٤") is None


def test_typing_by_broadcast_needs_its_keyboard(shell: Shell) -> None:
    text = "emoji 😀; rm -rf / '\"\n"
    line = f"am broadcast -a ADB_INPUT_B64 --es msg {base64.b64encode(text.encode()).decode()}"
    assert shell(line)[2] == 0 and shell.backend.typed == b""
    assert ADB_KEYBOARD in shell("ime list -s")[0]
    assert "selected" in shell(f"ime set {ADB_KEYBOARD}")[0]
    assert "result=0" in shell(line)[0] and shell.backend.typed == text.encode()
    for wrong in ("!!!", base64.b64encode(b"\xff\xfe").decode()):
        assert shell(f"am broadcast -a ADB_INPUT_B64 --es msg {wrong}")[2] == 0
    assert shell.backend.typed == text.encode()
    assert shell("ime set nobody/.Ime")[2] == 255
    shell("ime reset")
    assert shell("settings get secure default_input_method")[0].strip() == LATIN_KEYBOARD


def test_starting_apps(shell: Shell) -> None:
    out, _, code = shell("am start -W -n org.example.clock/.MainActivity")
    assert code == 0 and "Starting: Intent { cmp=org.example.clock/.MainActivity }" in out and "Status: ok" in out
    assert "org.example.clock/.MainActivity" in shell("dumpsys window | grep mCurrentFocus")[0]
    assert shell("am start -a android.intent.action.VIEW -d 'shop://item?id=1&x=2'")[2] == 0
    assert shell.backend.done[-1] == ("start", "", "shop://item?id=1&x=2")
    assert "topResumedActivity" in shell("dumpsys activity activities")[0]
    assert "does not exist" in shell("am start -n org.nobody/.Main")[1]
    assert "unable to resolve" in shell("am start -a android.intent.action.VIEW -d other://x")[1]
    assert shell("monkey -p org.example.shop -c android.intent.category.LAUNCHER 1")[2] == 0
    assert "monkey aborted" in shell("monkey -p org.nobody 1")[0]
    shell("am force-stop org.example.shop")
    assert shell.backend.done[-1] == ("key", "KEYCODE_HOME")
    for line in ("am", "am start", "am start -n", "am start --frob", "am broadcast --es a", "am frob"):
        assert shell(line)[2] != 0


def test_what_the_phone_says_of_itself(shell: Shell) -> None:
    assert shell("wm size; wm density")[0] == "Physical size: 360x640\nPhysical density: 160\n"
    assert shell("pm list packages")[0] == "package:org.example.clock\npackage:org.example.shop\n"
    assert shell("pm list packages -3 shop")[0] == "package:org.example.shop\n"
    assert shell("getprop ro.build.version.release")[0] == "13\n" and shell("getprop no.such")[0] == "\n"
    assert "[ro.product.model]: [Vesper Phone]" in shell("getprop")[0]
    assert shell("dumpsys package org.example.shop | grep versionName")[0].strip() == "versionName=1.0"
    assert shell("dumpsys package no.such") == ("Unable to find package: no.such\n", "", 0)
    assert shell("uiautomator dump")[0] == "UI hierchary dumped to: /sdcard/window_dump.xml\n"
    assert views(shell("cat /sdcard/window_dump.xml")[0].encode())
    assert shell("uiautomator dump /dev/tty")[0].endswith("</hierarchy>UI hierchary dumped to: /dev/tty\n")
    assert shell("screencap -p /sdcard/s.png && ls /sdcard/s.png")[0] == "/sdcard/s.png\n"
    assert shell.phone.files.read("/sdcard/s.png").startswith(b"\x89PNG")


def test_the_harness_resets_and_tells_only_where_there_is_one(shell: Shell) -> None:
    start = {"seed": 1, "text": "'; x 😀"}
    message = base64.b64encode(json.dumps(start).encode()).decode()
    shell("echo x > /sdcard/left")
    assert shell(f"am broadcast -a {HARNESS_RESET} --es start {message}")[2] == 0
    assert shell("ls /sdcard/left")[2] == 1
    data = shell(f"am broadcast -a {HARNESS_STATE}")[0].partition('data="')[2].partition('"')[0]
    assert json.loads(base64.b64decode(data))["start"] == start
    for wrong in ("!!", base64.b64encode(b"[1]").decode(), base64.b64encode(b"[" * 100_000).decode()):
        assert shell(f"am broadcast -a {HARNESS_RESET} --es start {wrong}")[2] == 255
    stock = Shell(harness=False)
    assert "data=" not in stock(f"am broadcast -a {HARNESS_STATE}")[0]
    stock(f"am broadcast -a {HARNESS_RESET} --es start {message}")
    assert stock.backend.done == []


@pytest.mark.parametrize(
    ("line", "out", "code"),
    [
        ("echo a  'b  c' \"d'e\" \\'f", "a b  c d'e 'f\n", 0),
        ("echo a;echo b\necho c # no", "a\nb\nc\n", 0),
        ("false && echo a || echo b", "b\n", 0),
        ("true && echo a && false", "a\n", 1),
        ("echo abc > /sdcard/f; echo d >> /sdcard/f; cat < /sdcard/f", "abc\nd\n", 0),
        ("foo 2>/dev/null || echo no", "no\n", 0),
        (
            "CLASSPATH=/data/local/tmp/own.jar app_process / org.example.Main 2>&1 | grep -c 'runs no Java'",
            "1\n",
            0,
        ),
        ("foo 2>&1 | grep found", "/system/bin/sh: foo: inaccessible or not found\n", 0),
        ("echo a | grep b", "", 1),
        ("echo hello | base64 | base64 -d", "hello\n", 0),
        ("echo '$HOME `x`'", "$HOME `x`\n", 0),
        ("echo a2>/dev/null", "", 0),
        ("mkdir /sdcard/n && ls -d /sdcard/n && rm -r /sdcard/n && ls /sdcard/n 2>/dev/null", "/sdcard/n\n", 1),
        ("rm -f /nothing", "", 0),
        ("exit 300", "", 44),
        ("", "", 0),
    ],
)
def test_lines(shell: Shell, line: str, out: str, code: int) -> None:
    found = shell(line)
    assert (found[0], found[2]) == (out, code)


@pytest.mark.parametrize(
    "line",
    [
        "echo 'open",
        "sleep 1 &",
        "(echo a)",
        "| cat",
        "a |",
        "&& a",
        "a &&",
        "a > ",
        "> > x",
        "grep 'a+' /sdcard",
        "screencap -x",
        "for x in a; do echo $x; done",
        "echo $((1/0))",
        "echo ${x%y}",
        "settings put system user_rotation 1",
        "sleep -1",
        "sleep 1e9",
        "ls -Z",
        "rm",
        "rm /",
        "rm -r /sdcard",
        "cat /sdcard",
        "echo a > /no/such/folder",
        "mkdir -p /system/app",
        "echo a > /data/a",
        "settings frob",
        "wm size 1x1",
        "dumpsys meminfo",
    ],
)
def test_what_it_cannot_do_is_told(shell: Shell, line: str) -> None:
    _, error, code = shell(line)
    assert code != 0 and error
    assert shell.backend.done == []


@given(text=st.text(max_size=80))
def test_no_text_breaks_the_shell_or_reaches_the_screen(text: str) -> None:
    shell = Shell()
    _, _, code = shell(text)
    assert 0 <= code <= 255
    name = text.split()[0] if text.split() else ""
    assert not shell.backend.done or name in COMMANDS


@given(words=st.lists(st.text(st.characters(exclude_characters="\0"), max_size=20), min_size=1, max_size=5))
def test_quoted_words_come_through_whole(words: list[str]) -> None:
    """The driver quotes by shlex: every text is one word, itself."""
    [pipeline] = parse_line("x " + " ".join(shlex.quote(word) for word in words))

    async def never(line: str) -> str:
        raise AssertionError(line)

    async def fields() -> list[str]:
        return [field for word in pipeline.calls[0].words for field in await expand_fields(word, ShellSession(), never)]

    assert asyncio.run(fields()) == ["x", *words]
    try:
        parse_line(" ".join(words))
    except LineError:
        pass


@given(path=st.text(st.sampled_from("/.ab\0é "), max_size=30), data=st.binary(max_size=50))
def test_files_stay_inside_and_read_back(path: str, data: bytes) -> None:
    files = VirtualFiles()
    assert ".." not in files.resolve(path).split("/") and files.resolve(path).startswith("/")
    try:
        files.write(f"/sdcard/{path}", data, parents=True)
    except FileError:
        return
    assert files.read(f"/sdcard/{path}") == data
    files.remove(f"/sdcard/{path}")
    assert files.stat(f"/sdcard/{path}") is None


def test_files_have_limits() -> None:
    files = VirtualFiles()
    with pytest.raises(FileError, match="No space"):
        files.write("/sdcard/x", bytes(MAX_FILE + 1))
    with pytest.raises(FileError, match="too long"):
        files.stat("/" + "a" * 2000)
    with pytest.raises(FileError, match="Not a directory|Is a directory"):
        files.write("/sdcard/a", b"")
        files.mkdir("/sdcard/a/b")
    with pytest.raises(FileError, match="No space"):
        for number in range(5000):
            files.write(f"/sdcard/{number}", b"")


NODES = st.builds(
    UiAutomatorNode,
    bounds=st.tuples(*[st.integers(0, 999)] * 4),
    text=st.text(max_size=20),
    description=st.text(max_size=20),
    resource_id=st.text(max_size=10),
    clickable=st.booleans(),
    parent=st.integers(-1, 6),
)


@given(nodes=st.lists(NODES, max_size=8))
def test_every_tree_reads_back(nodes: list[UiAutomatorNode]) -> None:
    """Text of any page survives the way through XML, but for what XML forbids."""
    found = views(dump_xml(nodes, (1000, 1000), "p"))[2:]  # after the hierarchy and the root frame
    legal = [node for node in nodes if not any(ord(mark) < 32 or ord(mark) in (0xFFFE, 0xFFFF) for mark in node.text)]
    assert len(found) == len(nodes)
    seen = Counter(view.text for view in found)
    assert not Counter(node.text for node in legal) - seen
    assert sorted(view.bounds or () for view in found) == sorted(node.bounds for node in nodes)


def test_a_very_deep_tree_is_written() -> None:
    deep = [UiAutomatorNode((0, 0, 1, 1), parent=index - 1) for index in range(5000)]
    assert dump_xml(deep, (1, 1), "p").count(b"<node") == 5001
