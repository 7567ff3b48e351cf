"""What the emulated phone's shell expands, and the commands that read text: as Android's own shell gives it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording_phone import RecordingPhone

from generators.worlds.android.emulated_phone import EmulatedPhone
from generators.worlds.android.shell_commands import MAX_OUTPUT, run_line
from generators.worlds.android.shell_expansion import ShellSession, arithmetic


def ran(line: str, session: ShellSession | None = None) -> tuple[str, str, int]:
    found = asyncio.run(run_line(EmulatedPhone(RecordingPhone()), line, session))
    return found.out.decode("utf-8", "replace"), found.err.decode("utf-8", "replace"), found.code


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("echo $?; false; echo $?; exit 3", "0\n1\n"),
        ("nothing_such 2>/dev/null; echo code $?", "code 127\n"),
        ("echo $((2 + 3 * 4)) $(( (2+3)*4 )) $((7/-2)) $((-7%3)) $((0x1F))", "14 20 -3 -1 31\n"),
        ("echo $((2147483647 + 1)) $((1<<31)) $((-8>>1)) $((~0)) $((!5))", "-2147483648 -2147483648 -4 -1 0\n"),
        ("echo $((1 < 2 && 2 >= 2)) $((1 == 2 || 0)) $((6 & 3 | 8 ^ 1))", "1 0 11\n"),
        ("X=5; echo $((X*2)) $(($X+1)) ${X}a \"$X b\" '$X' \\$X", "10 6 5a 5 b $X $X\n"),
        ("echo $((1 + $(echo 2)))", "3\n"),
        ("echo a$(echo b; echo c)d", "ab cd\n"),
        ('echo "a$(echo "x  y")b"', "ax  yb\n"),
        ("echo `echo one \\`echo two\\``", "one two\n"),
        ("X=$(false); echo $?; X=1; echo $?", "1\n0\n"),
        ("X='a  b'; echo $X; echo \"$X\"", "a b\na  b\n"),
        ('X=; echo a $X "$X" b', "a  b\n"),
        ("echo ${X:-none} ${#HOME} $EXTERNAL_STORAGE", "none 1 /sdcard\n"),
        ("X=in; echo $(X=out; echo $X) $X", "out in\n"),
        ("CLASSPATH=/x true && echo [$CLASSPATH]", "[]\n"),
        ("echo 5$ $ '$' \"$\"", "5$ $ $ $\n"),
        ("F=/sdcard/f; echo hi > $F; cat $F", "hi\n"),
        ("sh -c 'echo in; exit 4'; echo $?", "in\n4\n"),
        ("echo out; echo err >&2", "out\n"),
        ("toybox echo same; /system/bin/echo same", "same\nsame\n"),
    ],
)
def test_what_is_expanded(line: str, out: str) -> None:
    assert ran(line)[0] == out


@pytest.mark.parametrize(
    ("line", "out", "code"),
    [
        ("pm list packages | grep shop", "package:org.example.shop\n", 0),
        ("pm list packages | grep -c example; pm list packages | wc -l", "2\n2\n", 0),
        ("dumpsys window | grep -E 'mCurrentFocus|mNothing' | wc -l", "1\n", 0),
        ("dumpsys window | grep 'mNothing\\|mCurrentFocus' | wc -l", "1\n", 0),
        ("echo abc | grep '^a.c$'; echo abcd | grep '^a.c$'", "abc\n", 1),
        ("echo a-x-b-y-c | grep 'a.*b.*c' | grep -v 'z'", "a-x-b-y-c\n", 0),
        ("echo Abc | grep -i -n abc; echo Abc | grep -q abc || echo no", "1:Abc\nno\n", 0),
        ("echo 'a.c' | grep -F 'a.c'; echo abc | grep -F 'a.c'", "a.c\n", 1),
        ("getprop | head -n 1; getprop | head -1; getprop | tail -n1 | wc -l", None, 0),
        ("echo one two three | head -c 3", "one", 0),
        ("echo one two | wc; echo one two | wc -w", "1 2 8\n2\n", 0),
        ("echo hi > /sdcard/f; md5sum /sdcard/f", "764efa883dda1e11db47671c4a3bbd9e  /sdcard/f\n", 0),
        ("[ -d /sdcard ] && test ! -e /sdcard/f && [ 3 -gt 2 ] && [ a != b ] && echo yes", "yes\n", 0),
        ("cat /nowhere | wc -c", "0\n", 0),
    ],
)
def test_text_is_read_as_by_a_phone(line: str, out: str | None, code: int) -> None:
    found = ran(line)
    assert found[2] == code and (out is None or found[0] == out), found


def test_an_unknown_command_is_named_with_127_wherever_it_stands() -> None:
    for line in (
        "frobnicate --all",
        "echo a | frobnicate",
        "X=1 frobnicate",
        "sh -c frobnicate",
        "toybox frobnicate",
        "true && frobnicate",
        "false; frobnicate",
    ):
        _, error, code = ran(line)
        assert code == 127 and "frobnicate: inaccessible or not found" in error, line
    out, error, code = ran("echo before $(frobnicate) after")
    assert (out, code) == ("before after\n", 0) and "frobnicate" in error


def test_a_shell_remembers_from_line_to_line() -> None:
    session = ShellSession()
    assert ran("X=7; frobnicate", session)[2] == 127
    assert ran("echo $X $?", session)[0] == "7 127\n"
    assert ran("echo 'open", session)[2] == 1
    assert ran("echo $?", session)[0] == "1\n"


@pytest.mark.parametrize(
    "line",
    [
        "X=aaaaaaaa;" + "X=$X$X;" * 40 + "echo $X",
        "echo " + "$(" * 100_000,
        "echo " + "$(echo " * 40 + "x" + ")" * 40,
        "echo $((" + "(" * 5_000 + "1" + ")" * 5_000 + "))",
        "echo $((" + "-" * 5_000 + "1))",
        "echo $((" + "1+" * 5_000 + "1))",
        "".join(f"X{number}=1;" for number in range(1000)),
    ],
)
def test_no_line_takes_memory_or_time(line: str) -> None:
    out, error, code = ran(line)
    assert code != 0 and error and len(out) < MAX_OUTPUT


def test_output_has_a_limit() -> None:
    phone = EmulatedPhone(RecordingPhone())
    phone.files.write("/sdcard/big", bytes(20 << 20))
    found = asyncio.run(run_line(phone, "cat /sdcard/big;" * 50))
    assert found.code == 137 and len(found.out) <= MAX_OUTPUT + (20 << 20)


def test_a_pattern_takes_linear_time() -> None:
    import time

    phone = EmulatedPhone(RecordingPhone())
    phone.files.write("/sdcard/a", b"a" * 200_000)
    began = time.monotonic()
    assert asyncio.run(run_line(phone, f"grep '{'.*a' * 30}b' /sdcard/a")).code == 1
    assert time.monotonic() - began < 2


@given(
    left=st.integers(-(2**31), 2**31 - 1),
    right=st.integers(-(2**31), 2**31 - 1),
    mark=st.sampled_from(["+", "-", "*", "/", "%", "<", ">=", "==", "&", "|", "^", "&&", "||"]),
)
def test_sums_are_those_of_c_on_32_bits(left: int, right: int, mark: str) -> None:
    import ctypes

    if mark in "/%" and right == 0:
        return
    quotient = int(abs(left) // abs(right or 1)) * (1 if (left < 0) == (right < 0) else -1)
    truth = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "/": quotient,
        "%": left - right * quotient,
        "<": left < right,
        ">=": left >= right,
        "==": left == right,
        "&": left & right,
        "|": left | right,
        "^": left ^ right,
        "&&": bool(left and right),
        "||": bool(left or right),
    }[mark]
    assert arithmetic(f"{left} {mark} {right}", {}) == ctypes.c_int32(int(truth)).value


@given(text=st.text(st.sampled_from("$(){}'\"`\\;|&<> ab1=?-+*/"), max_size=40))
def test_no_line_breaks_it(text: str) -> None:
    assert 0 <= ran(text)[2] <= 255
