"""Man pages as capabilities, and these as tasks that a real desktop shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from generators.tasks.task_spec import TaskSpec
from generators.worlds.app_tasks import work_of
from generators.worlds.desktop.desktop_task import DesktopTask, failed_checks, sha256_of
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.documented_tasks import DocumentedDraft, tried
from generators.worlds.desktop.manuals import Capability, capabilities_of, documented, filters, man_page, passages
from generators.worlds.desktop.plan import prove, refute
from generators.worlds.desktop.sealing import why_not_sealed
from generators.worlds.desktop.session import find_base_missing, open_desktop

PAGE = """FILT(1)

SYNOPSIS
       filt [OPTION]... [FILE]...

DESCRIPTION
       -r, --reverse
              print it “backwards”; see tac
       -w, --width=WIDTH
              use WIDTH columns
       --style=STYLE
              use STYLE
       -k, --keep
              like --reverse
       --odd$(touch x)
              say nothing
       --reverse
              a second time
       --help display this help and exit
"""
REVERSE = Capability("sort", "--reverse", "reverse the result of comparisons")
needs_man = pytest.mark.skipif(not man_page("sort"), reason="apt-get install man-db coreutils")
needs_desktop = pytest.mark.skipif(
    bool(find_base_missing() or why_not_sealed() or not filters()), reason="no desktop can be sealed off here"
)


def test_of_a_page_only_plain_flags_with_words_of_their_own_are_taken() -> None:
    # Left out: a flag whose argument has a form of its own, one told by way of another, one that is no plain word, the
    # second of a name, and those about the program itself.
    assert list(capabilities_of("filt", PAGE)) == [
        Capability("filt", "--reverse", "print it backwards"),
        Capability("filt", "--width", "use WIDTH columns", "WIDTH"),
    ]


@pytest.mark.parametrize("page", ["", "SYNOPSIS", PAGE.replace("[FILE]...", "SOURCE DEST"), PAGE.replace("filt", "x")])
def test_a_program_that_is_no_filter_has_no_capabilities(page: str) -> None:
    assert list(capabilities_of("filt", page)) == []


@needs_man
def test_installed_pages_say_what_their_filters_can_do() -> None:
    assert REVERSE in documented("sort") and "sort" in filters()
    assert documented("no-such-program") == () and passages("desktop/nothing") == []
    assert any("mousepad" in line for line in passages("desktop/mousepad")) or not man_page("mousepad")


@pytest.mark.parametrize(
    "printed, plain, why",
    [
        (None, "a", "fails, or never prints the same"),
        ("", "a", "prints nothing of the file"),
        ("a", "a", "no effect to be seen"),
    ],
)
def test_what_shows_nothing_gives_no_task(printed: str | None, plain: str, why: str) -> None:
    assert DocumentedDraft(REVERSE, 0).task(printed, plain) == why


def task_of(draft: DocumentedDraft) -> DesktopTask:
    made = draft.task("b\na\n", "a\nb\n")
    assert not isinstance(made, str)
    return made


def test_a_goal_names_what_a_flag_is_for_and_not_the_flag() -> None:
    made = task_of(DocumentedDraft(REVERSE, 3))
    assert REVERSE.words in made.goal and "--" not in made.goal
    [path] = [path for path in made.start["files"] if not path.startswith(".")]
    out = made.evaluator()["checks"][0]["path"]
    held = [{"path": path, "text": "", "sha256": sha256_of(made.start["files"][path])}]
    done = {"files": [*held, {"path": out, "text": "b\na\n", "sha256": ""}], "window": {}}
    assert failed_checks(made.evaluator(), done) == []
    # Nothing written, what is printed without the flag, and a file that was changed on the way.
    for wrong in (
        held,
        [*held, {"path": out, "text": "a\nb\n", "sha256": ""}],
        [{**held[0], "sha256": "x"}, done["files"][1]],
    ):
        assert failed_checks(made.evaluator(), {"files": wrong, "window": {}})


@needs_man
def test_the_scripted_policy_finds_the_plan_again_by_the_page() -> None:
    made = task_of(DocumentedDraft(REVERSE, 3))
    work = work_of(TaskSpec.from_row(made.contract().as_row()))
    assert work is not None and work.plan == made.plan
    assert work_of(replace(made.contract(), capabilities=("manual.sort.no-such-flag",))) is None


@pytest.mark.slow
@pytest.mark.real_parts
@needs_man
@needs_desktop
def test_what_a_sealed_desktop_shows_is_done_in_a_terminal() -> None:
    wanted = {"sort.reverse": "", "sort.parallel": "no effect", "sort.random-sort": "never", "df.total": "nothing"}
    drafts = [
        DocumentedDraft(one, 1)
        for key in wanted
        for one in documented(key.partition(".")[0])
        if one.key == f"manual.{key}"
    ]
    with open_desktop(sealed=True) as endpoint, DesktopWorld(endpoint) as world:
        world.begin({})
        found = list(tried(drafts, world))
        task, *others = found
        assert not isinstance(task, str), task
        for why, said in zip(list(wanted.values())[1:], others, strict=True):
            assert isinstance(said, str) and why in said, (why, said)
        assert len(prove(task, world)) == task.expected_steps
        refute(task, world)
