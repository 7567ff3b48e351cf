"""Task files as read, what can't be played counted by reason, getters' and functions' arithmetic: no desktop needed."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.worlds.osworld import metrics, obstacles
from generators.worlds.osworld.accessibility_xml import SelectorError, parse_selector, select, window_nodes
from generators.worlds.osworld.evaluation import evaluate
from generators.worlds.osworld.file_cache import file_of
from generators.worlds.osworld.metrics import METRICS, alike, score
from generators.worlds.osworld.osworld_tasks import read_folder
from generators.worlds.osworld.pattern_search import RuleError, found_in
from generators.worlds.osworld.task_file import EvaluatorPart, OsworldTask, TaskFileError, read_task, tasks_in
from generators.worlds.osworld.task_machine import FetchedFile, TaskMachine

FIXTURES = Path(__file__).parents[3] / "fixtures" / "osworld"
PLAIN = {"id": "a", "snapshot": "os", "instruction": "Do it.", "evaluator": {"func": "infeasible"}}


def test_the_folder_is_read_whole_and_every_task_is_played_or_named() -> None:
    found = read_folder(FIXTURES)
    read = [one for one in tasks_in(FIXTURES) if isinstance(one, OsworldTask)]
    assert len(found.playable) + len(found.unplayed) == len(read) == 17
    assert list(found.report()["bad_files"]) == ["examples/os/d505-no-instruction.json"]  # type: ignore[call-overload]
    assert all(task.obstacles for task in found.unplayed)
    kinds = {task.id: {one.kind for one in task.obstacles} for task in found.unplayed}
    assert kinds["c303-new-user"] == {"rights"}
    assert {"setup step", "getter", "metric"} <= kinds["c101-tabs"]
    assert {"metric", "file"} <= kinds["c202-table"]


def test_ids_depend_on_files_and_not_on_where_they_lie(tmp_path: Path) -> None:
    for name in ("examples/mousepad/0a1c-append-line.json", "file_cache/mousepad/0a1c-append-line/list.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((FIXTURES / name).read_bytes())
    gold = tmp_path / "file_cache/mousepad/0a1c-append-line/list_gold.txt"
    gold.write_text("bread\nmilk\nhoney\n")
    [here] = read_folder(FIXTURES, ["0a1c-append-line"]).playable
    [there] = read_folder(tmp_path).playable
    assert here.task_id == there.task_id
    gold.write_text("bread\n")
    [other] = read_folder(tmp_path).playable
    assert other.task_id != here.task_id


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"evaluator": []}, "evaluator: expected an object"),
        (
            {"evaluator": {"func": ["a", "b"], "result": [{"type": "rule"}]}},
            "evaluator.result: expected 2, one a function",
        ),
        ({"evaluator": {"func": "a", "conj": "xor"}}, "expected 'and' or 'or'"),
        ({"config": {"type": "sleep"}}, "config: expected a list"),
        ({"config": [{"type": 3}]}, "config.type: expected a text"),
        ({"related_apps": "os"}, "related_apps: expected a list"),
    ],
)
def test_another_form_is_refused_with_what_was_expected(change: dict[str, Any], why: str) -> None:
    with pytest.raises(TaskFileError, match=why):
        read_task({**PLAIN, **change})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["func", "type", "x"]), inner, max_size=3)
    ),
    max_leaves=9,
)


@given(st.dictionaries(st.sampled_from([*PLAIN, "config", "related_apps"]), JSON))
@settings(max_examples=200, deadline=None)
def test_no_file_breaks_the_reader(change: dict[str, Any]) -> None:
    try:
        task = read_task({**PLAIN, **change})
    except TaskFileError:
        return
    assert task.parts and isinstance(task.native, dict)
    for step in task.calls:
        list(obstacles.command_obstacles(step.parameters.get("command"), True))


@pytest.mark.parametrize(
    ("command", "shell", "kinds"),
    [
        (["gsettings", "set", "no.such.schema", "a", "b"], False, {"settings schema"}),
        ("echo {CLIENT_PASSWORD} | sudo -S ls", True, {"rights"}),
        ("cd x && curl https://example.com | sh", True, {"network"}),
        ("which spotify", True, {"network"}),
        ("for f in *.txt; do no-such-program $f; done", True, {"program"}),
        ("X=1 ls; [ -f a ] && echo 'no-such; program' || cat <a", True, set()),
        (["python", "-c", "import pyautogui; import time; pyautogui.press('a')"], False, set()),
        (["python3", "-c", "import docx"], False, {"python module"}),
        (["timedatectl", "status"], False, {"system service"}),
        ({"not": "a command"}, False, {"task file"}),
    ],
)
def test_what_a_command_needs_and_the_desktop_lacks_is_found(command: object, shell: bool, kinds: set[str]) -> None:
    assert {one.kind for one in obstacles.command_obstacles(command, shell)} - {"program"} == kinds - {"program"}
    if "program" in kinds:
        assert "no-such-program" in {one.what for one in obstacles.command_obstacles(command, shell)}


def test_files_are_looked_for_below_the_cache_alone(tmp_path: Path) -> None:
    (tmp_path / "file_cache" / "os" / "a").mkdir(parents=True)
    (tmp_path / "file_cache" / "os" / "a" / "b.txt").write_text("inside")
    (tmp_path / "secret.txt").write_text("outside")
    (tmp_path / "file_cache" / "link.txt").symlink_to(tmp_path / "secret.txt")
    found = file_of(tmp_path, "https://x.org/d/resolve/main/os/a/b.txt?download=1", "other", "id")
    assert found == FetchedFile("b.txt", b"inside")
    assert file_of(tmp_path, "https://drive.x.org/b.txt", "os", "a") == found
    for address in ("https://x.org/resolve/main/../secret.txt", "https://x.org/resolve/main/link.txt", "", "x\0"):
        assert file_of(tmp_path, address, "os", "../..") is None


def text(name: str, said: str) -> FetchedFile:
    return FetchedFile(name, said.encode())


def scored(func: str, result: object, expected: object, **options: object) -> float:
    return score(EvaluatorPart(func, None, None, options), result, expected)


MATCHED = {"key": ["k", 1], "method": "re", "ref": "^a"}
CASES: list[tuple[str, object, object, object]] = [
    # function, what solves it, what almost does, its rules
    ("check_include_exclude", "a 1", "a 1 error", {"include": ["a"], "exclude": ["error"]}),
    ("exact_match", "100\n", "100", {"expected": "100\n"}),
    ("match_in_list", "b", "c", {"expected": ["a", "b"]}),
    ("is_in_list", ["x", "y"], ["x"], {"expected": "y"}),
    ("literal_match", "7", "7 ", 7),
    ("is_utc_0", "Time zone: UTC (UTC, +0000)", "Time zone: CET (CET, +0100)", None),
    ("check_gnome_favorite_apps", "['b', 'a']", "['a']", {"expected": ["a", "b"]}),
    ("check_text_enlarged", "1.25", "1.0", None),
    ("check_moved_jpgs", {"children": [{"name": "a"}]}, {"children": []}, {"expected": ["a"]}),
    ("compare_text_file", text("a", "x\r\ny"), text("a", "x\ny "), text("b", "x\ny")),
    ("compare_python_pure_text", text("a", "#! sh\nx = 1 \n\n"), text("a", "x = 2"), text("b", "x = 1")),
    ("file_contains", text("a", "one two"), text("a", "one"), {"expected": ["one", "two"]}),
    ("check_list", text("a", "x1\ny\n"), text("a", "x\ny\n"), {"expect": [r"x\d"], "unexpect": ["z"]}),
    ("check_csv", text("a", "k,v\na,1\n"), text("a", "k,v\na,2\n"), {"expect": [{"k": "a", "v": "1"}]}),
    ("check_line_number", text("a", "at 10:00:00\nno\n"), text("a", "no\n"), {"expected": "1"}),
    ("compare_csv", text("a", "k\n1\n"), text("a", "k\n2\n"), [text("b", "k\n3\n"), text("b", "k\n1\n")]),
    ("check_json", text("a", '{"k": [1, "ab"]}'), text("a", '{"k": [1, "b"]}'), {"expect": [MATCHED]}),
    ("check_json_settings", text("a", '{"k": 1, "l": 2}'), text("a", '{"k": "1"}'), {"expected": {"k": 1}}),
    ("check_json_keybindings", text("a", '[{"key": "f"}]'), text("a", "[]"), {"expected": {"key": "f"}}),
    ("compare_config", text("a", '{"k": 1, "l": 2}'), text("a", '{"k": 2}'), {"expected": '{"k": 1}'}),
    ("compare_terminal_and_txt", text("a", "said"), text("a", "sad"), "said"),
    ("check_image_file_size", text("a", "123"), text("a", "12345"), {"max_size": 4}),
]


@pytest.mark.parametrize(("func", "right", "wrong", "rules"), CASES, ids=[case[0] for case in CASES])
def test_a_function_tells_a_solution_from_a_near_miss(func: str, right: object, wrong: object, rules: object) -> None:
    assert scored(func, right, rules) == 1.0
    assert scored(func, wrong, rules) == 0.0


UNASKED = {"literal_match", "check_accessibility_tree", "check_image_file_size"}
"""Functions that anything, a tree, or any small file is right for."""


@pytest.mark.parametrize("func", sorted(METRICS.keys() - UNASKED))
def test_nothing_that_an_agent_left_breaks_a_function(func: str) -> None:
    rules = next((case[3] for case in CASES if case[0] == func), {"expected": "a"})
    results: list[object] = [None, FetchedFile("x", b"\xff\x00{"), "", []]
    for left in results:
        assert scored(func, left, rules) < 1.0


def test_what_is_partly_right_scores_partly() -> None:
    assert scored("diff_text_file", text("a", "a\nb\n"), text("b", "a\nc\n")) == 0.5
    assert scored("fuzzy_match", "abc", {"expected": "abd"}) == pytest.approx(2 * 2 / 6)
    assert alike("", "") == 1.0 and alike("a", "") == 0.0
    packed = [archive({"n/a.txt": b"1", "n/b.txt": other}) for other in (b"2", b"3")]
    assert scored("compare_archive", packed[0], packed[1], file_path="n") == 0.5
    assert scored("compare_archive", packed[0], archive({"n/a.txt": b"1"})) == 0.0


def archive(files: dict[str, bytes]) -> FetchedFile:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as packed:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return FetchedFile("a.tar.gz", out.getvalue())


def test_rules_that_cant_be_read_are_the_tasks_fault_and_leave_it_undecided() -> None:
    with pytest.raises(RuleError):
        scored("check_list", text("a", "x"), {"expect": ["("]})
    with pytest.raises(RuleError):
        scored("exact_match", "x", "not an object")
    rules = {"type": "rule", "rules": ["not an object"]}
    task = read_task({**PLAIN, "evaluator": {"func": "exact_match", "result": rules, "expected": rules}})
    assert evaluate(task, TaskMachine(None), refused=False).undecided.startswith("exact_match: ")  # type: ignore[arg-type]


def test_a_pattern_that_takes_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generators.worlds.osworld.pattern_search.SEARCH_S", 1.0)
    with pytest.raises(RuleError, match="took longer"):
        found_in("(a+)+$", ["a" * 60 + "b"])


@pytest.mark.parametrize(("conj", "whole"), [("and", 0.0), ("or", 1.0)])
def test_functions_are_joined_as_the_file_says(conj: str, whole: float) -> None:
    rules = [{"type": "rule", "rules": one} for one in ("a", "b")]
    wanted = [{"type": "rule", "rules": {"expected": "a"}}] * 2
    evaluator = {"func": ["exact_match"] * 2, "conj": conj, "result": rules, "expected": wanted}
    found = evaluate(read_task({**PLAIN, "evaluator": evaluator}), TaskMachine(None), refused=False)  # type: ignore[arg-type]
    assert (found.score, found.parts) == (whole, (1.0, 0.0))


WINDOWS: list[dict[str, Any]] = [
    {
        "app": "calc",
        "items": [
            {"path": "calc:0", "role": "frame", "name": "calc", "states": ["SENSITIVE"]},
            {"path": "calc:0.0", "role": "push button", "name": "Say 4", "states": ["SENSITIVE", "CHECKED"]},
            {"path": "calc:0.1.0", "role": "text", "name": "", "text": "42"},
        ],
    }
]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("application[name=calc] text", 1),
        ('frame>push-button[name*="4"][st|checked=true]', 1),
        ("application>text", 1),  # its parent isn't listed
        ("frame>text", 0),
        ("[name^='Say']", 1),
        ('push-button[name="say 4"]', 0),
        ("*", 4),
    ],
)
def test_selectors_name_items_of_the_tree(selector: str, found: int) -> None:
    assert len(select(window_nodes(WINDOWS), selector)) == found


@pytest.mark.parametrize("selector", ["", "a~b", "label[attr|id=x]", "a[", "a:first-child"])
def test_other_selectors_are_refused_before_the_task_is_played(selector: str) -> None:
    with pytest.raises(SelectorError):
        parse_selector(selector)
    rule = {"type": "rule", "rules": [{"selectors": [selector]}]}
    evaluator = {"func": "check_accessibility_tree", "result": {"type": "accessibility_tree"}, "expected": rule}
    [part] = read_task({**PLAIN, "evaluator": evaluator}).parts
    assert [one.kind for one in metrics.obstacles_of(part)] == ["selector"]


def test_fixtures_are_json_of_one_form() -> None:
    for path in FIXTURES.rglob("*.json"):
        assert json.loads(path.read_text()) and path.read_text().endswith("}\n")
