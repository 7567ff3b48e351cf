"""Every command in README.md and docs/: run for real where its block is marked so, else held against the program that
it names. How blocks are marked: `tests/support/doc_blocks.py`."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from corpusmaker import SOURCES, build_all, build_checkpoints, build_corpus, commit
from doc_blocks import SHELLS, Block, blocks, command_lines, same_words, simple_commands
from doc_commands import PYTHON, ROOT, VESPER, run_as_program, said_to_ours, understand

from dagster_project import cli
from pipelines.store import Store, choose_version
from quality.review.queue import Queue
from schemas import tables
from schemas.ids import item_step
from schemas.tables import Pairs, Steps, Tasks, Trajectories, TrajectoryRuns
from trainer.suites.leaderboard import Standings

GENERATED = {"sources.md"}
"""Written by a command."""
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.name not in GENERATED)]


def shell_blocks() -> list[Block]:
    """All blocks of commands. A block without a language is one if it begins with a program of ours."""
    found = []
    for page in PAGES:
        for block in blocks(page):
            first = (block.text.split() or [""])[0]
            ours = first in (*VESPER, *PYTHON, "make", "torchrun") or first.startswith("deploy/")
            if block.language in SHELLS or (not block.language and ours):
                found.append(block)
    return found


MIXTURE, MID = "mid_training/mixture", "checkpoints/mid_trained"
BLOCKS = shell_blocks()
RUN = [block for block in BLOCKS if block.mark.startswith("run")]
READ = [block for block in BLOCKS if not block.mark]
NOT_RUN = [block for block in BLOCKS if block.mark.startswith("not run")]


@pytest.fixture(autouse=True)
def _no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page names stands in the reader's store: a demo's beside this checkout doesn't have it."""
    monkeypatch.setenv("VESPER_HOME", str(tmp_path / ".vesper"))


def commands_of(block: Block) -> list[list[str]]:
    """All commands of a block, each as words."""
    return [words for line in command_lines(block) for words in simple_commands(line)]


@pytest.mark.parametrize("block", READ, ids=lambda block: block.place)
def test_a_command_is_understood_by_its_program(block: Block) -> None:
    for words in commands_of(block):
        understand(words)


@pytest.mark.parametrize("block", NOT_RUN, ids=lambda block: block.place)
def test_what_a_block_that_is_not_run_says_to_our_programs_is_understood(block: Block) -> None:
    for words in commands_of(block):
        if ours := said_to_ours(words):
            understand(ours)


@pytest.mark.parametrize("block", [b for b in RUN if b.left_out], ids=lambda block: block.place)
def test_what_is_left_out_of_a_block_that_is_run_is_there_and_understood(block: Block) -> None:
    left = [words for words in commands_of(block) if block.leaves_out(words)]
    assert len(left) < len(commands_of(block)), "nothing of it is run"
    for name in block.left_out:
        assert any(replace(block, mark=f"run but {name}:").leaves_out(words) for words in left), f"no {name} there"
    for words in left:
        understand(words)


def test_what_is_not_run_says_why() -> None:
    for block in NOT_RUN:
        assert len(block.mark.split()) > 3, f"{block.place}: {block.mark}"
    assert len(RUN) >= 20 and len(READ) >= 20, "hardly anything is run"


def test_every_variable_of_ours_is_one_that_something_reads() -> None:
    folders = (
        "schemas",
        "pipelines",
        "quality",
        "generators",
        "trainer",
        "dagster_project",
        "bench",
        "deploy",
        "tests",
    )
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".sh")]
    known = set(re.findall(r"VESPER_[A-Z][A-Z_]*[A-Z]", "".join(p.read_text(encoding="utf-8") for p in sources)))
    for page in PAGES:
        named = set(re.findall(r"VESPER_[A-Z][A-Z_]*[A-Z]", page.read_text(encoding="utf-8")))
        assert named <= known, f"{page.name}: nothing reads {sorted(named - known)}"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """AITZ and ScreenQA from native files to checkpoints, and a row or none of what else the pages ask for."""
    home = tmp_path_factory.mktemp("docs") / "home"
    commit(Store(home), "gold/aitz", {}, {"steps": Steps.table([])})  # a version to go back to
    store = build_all(home, home / "raw")
    assert cli.main(["unify", "aitz", "--raw", str(home / "raw/aitz/raw"), "--out", str(home.parent / "out")]) == 0
    build_corpus(store)
    build_checkpoints(store)
    task = {
        "task_id": "a" * 32,
        "instruction": "Open the cart",
        "platform": "web",
        "target": "pages/shop",
        "capabilities": [],
        "initial_state": "{}",
        "evaluator": "{}",
        "expected_steps": 2,
        "stratum": "easy",
        "origin": "static",
        "parents": [item_step("aitz", "e", 0)],
    }
    run = {
        "trajectory_id": "t-0",
        "task_id": "a" * 32,
        "policy": "scripted",
        "seed": 0,
        "ended": "finished",
        "turns": 2,
        "answer": "",
        "outcome": "failed",
        "verified": False,
        "reason": "world: not met",
        "failure_kind": "task",
        "votes": "[]",
        "end_state": "{}",
    }
    spent = {
        "trajectory_id": "t-0",
        "device": "local/fsm/1",
        "seconds": 2.0,
        "resumed": 0,
        "anew": 0,
        "failures": [],
        "observe_s": [0.1],
        "decide_s": [0.1],
        "act_s": [0.1],
        "prompt_tokens": 0,
        "completion_tokens": 0,
    }
    commit(store, "task_pool/shards", {}, {"tasks": Tasks.table([task])})
    commit(store, "generation/task_bank/round_001", {}, {"tasks": Tasks.table([task])})
    made = {"trajectories": Trajectories.table([run]), "trajectory_runs": TrajectoryRuns.table([spent])}
    commit(store, "generation/verified/round_001", {}, made)
    commit(store, "review/queue", {}, {"queue": Queue.schema.empty_table()})
    commit(store, "leaderboard/standings", {}, {"rows": Standings.schema.empty_table()})
    duplicates = store.require("hygiene/duplicates")
    kept = {name: duplicates.read(name) for name in ("displaced", "keep")}
    commit(store, "hygiene/duplicates", duplicates.inputs, {**kept, "pairs": Pairs.schema.empty_table()})
    hit = {
        "item_id": "sample:x",
        "source": "aitz",
        "reason": "same picture",
        "suite": "aitz_test",
        "suite_item": "q1",
        "because": "sha256",
        "text": "",
        "picture_sha256": "",
    }
    commit(store, "hygiene/contamination", {}, {"quarantine": pa.Table.from_pylist([hit])})
    return store


@pytest.fixture
def here(corpus: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder: a checkout whose store is a copy of the corpus."""
    raw = tmp_path / ".vesper/raw"
    shutil.copytree(corpus.home, raw.parent)
    for source in SOURCES:  # where the demo has them
        (raw / source).rename(raw / f"_{source}")
        (raw / f"_{source}" / "raw").rename(raw / source)
    for name in ("docs", "tests", "deploy"):
        (tmp_path / name).symlink_to(ROOT / name)
    withdrawn = stand_ins(corpus)["step:aitz/5020101251009000000/3"]
    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "text": "Open the cart"}\n{"id": "b", "text": "Call Ann"}\n')
    (tmp_path / "withdrawn.csv").write_text(f"id,reason\n{withdrawn},a person asked\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VESPER_HOME", str(tmp_path / ".vesper"))
    yield tmp_path


def stand_ins(store: Store) -> dict[str, str]:
    """What the pages name of the demo's store → what there is of its kind in the tests' store."""
    refined = store.require("gold/aitz")
    steps = refined.read("steps").to_pylist()
    shown = next(row for row in steps if row["screenshot_sha256"])
    step = item_step("aitz", shown["episode_id"], shown["step_index"])
    sample = store.require("gold/screenqa").read("samples").to_pylist()[0]
    refused = store.require("unified/aitz").read("quarantine").to_pylist()[0]
    versions = {name: f"{name}@{store.require(name).version}" for name in ("gold/aitz", "unified/aitz", MIXTURE, MID)}
    [before] = {one.manifest.version for one in choose_version.versions(store, "gold/aitz")} - {refined.version}
    return {
        "step:aitz/5020101251009000000/3": step,
        "step:aitz/5020101251009000000/5": step,
        "focus-text-2_C7600A209A_d1": shown["episode_id"],
        "screenqa/answers_and_bboxes/train.json#row 16": f"aitz/{refused['file']}#{refused['record']}",
        "7f590bdb…d44d6": shown["screenshot_sha256"],
        "task:1dbfe3b7…": f"task:{'a' * 32}",
        "sample:4b97…": f"sample:{sample['sample_id']}",
        "mid_training/mixture@62553a9e": versions[MIXTURE],
        "mid_trained@d1d2261c": versions[MID],
        "gold/aitz@17b391e3": versions["gold/aitz"],
        "unified/aitz@aa9153b9043a0e11": versions["unified/aitz"],
        "be6ab347597ff7af": refined.version,  # after a rollback
        "ITEM_ID": step,
        "gold/aitw": "gold/aitz",
        "gold/aitw@A": f"gold/aitz@{before}",
        "gold/aitw@B": versions["gold/aitz"],
        "out/aitw": str(store.home.parent / "out"),
        "mind2web": "aitz",
        ".vesper/incoming/mind2web": ".vesper/raw/aitz",
    }


@pytest.fixture
def run_here(here: Path, corpus: Store, capsys: pytest.CaptureFixture[str]) -> Callable[[Block], str]:
    """Run the commands of a block in the folder; returns what they printed."""
    names = stand_ins(corpus)

    def run(block: Block) -> str:
        printed = ""
        for words in commands_of(block):
            if block.leaves_out(words):
                continue
            words = [names.get(word, word) for word in words]
            if words[0] in VESPER:
                code: object = cli.main(words[1:])
            elif words[0] in PYTHON:
                pytest.importorskip("duckdb", reason="the extra `dagster` isn't installed")
                with pytest.raises(SystemExit) as ended:
                    run_as_program(ROOT / words[1], words[2:])
                code = ended.value.code
            else:
                code = subprocess.run(words, check=False).returncode
            told = capsys.readouterr()
            assert not code, f"{shlex.join(words)}: {told.err or told.out}"
            printed += told.out
        return printed

    return run


@pytest.mark.parametrize("page", sorted({block.page for block in RUN}), ids=lambda page: page.name)
def test_the_commands_of_a_page_run_one_after_the_other(page: Path, run_here: Callable[[Block], str]) -> None:
    for block in RUN:
        if block.page != page:
            continue
        printed = run_here(block)
        if block.mark == "run, same words":
            at, found = 0, same_words(printed)
            for piece in same_words(block.follows).split("…"):
                assert (at := found.find(piece.strip(), at)) >= 0, f"{block.place}: {piece!r} isn't in {found!r}"


def test_every_table_has_its_question() -> None:
    page = (ROOT / "docs/duckdb.md").read_text(encoding="utf-8")
    names = {re.sub(r"(?<!^)(?=[A-Z])", "_", one.__name__).lower() for one in vars(tables).values() if _is_table(one)}
    assert {"steps", "trajectory_runs"} <= names
    for name in names:
        assert f".{STORED_AS.get(name, name)} " in page, f"docs/duckdb.md asks nothing of the table {name}"


STORED_AS = {"judge_costs": "costs"}


def _is_table(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, tables.Table) and one is not tables.Table


MADE_BY_THE_READER = {"pipelines/sources/taps.py", "tests/fixtures/taps.py", "quality/judges/landing.py"}


def test_every_file_that_a_page_names_is_there() -> None:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no git checkout: nothing tells the repository's files from what was made beside them")
    there = {f"/{name}" for name in listed.stdout.splitlines()}
    for page in PAGES:
        for name in re.findall(r"`([\w-]+/[\w./-]+\.(?:py|sh|yaml|md|html))`", page.read_text(encoding="utf-8")):
            if name not in MADE_BY_THE_READER:
                assert any(path.endswith(f"/{name}") for path in there), f"{page.name}: there is no {name}"


def python_blocks() -> list[Block]:
    """All blocks of Python."""
    return [block for page in PAGES for block in blocks(page) if block.language == "python"]


@pytest.mark.parametrize("block", python_blocks(), ids=lambda block: block.place)
def test_an_example_in_python_is_python_and_its_imports_are_there(block: Block) -> None:
    text = "async def _():\n" + re.sub(r"^", "    ", block.text, flags=re.MULTILINE)  # `async with` may stand alone
    tree = ast.parse(text if "__future__" not in block.text else block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            name = str(node.module)
            if f"`{name.replace('.', '/')}.py`" in block.page.read_text(encoding="utf-8"):  # the page itself makes it
                continue
            module = importlib.import_module(name)
            for one in node.names:
                assert hasattr(module, one.name), f"{block.place}: {name} has no {one.name}"
