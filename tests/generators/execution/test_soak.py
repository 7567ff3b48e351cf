"""The soak's account finds what was lost, doubled, changed or decided again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from executing import PathPolicy, fsm_contracts, pool

from bench.soak import account
from bench.soak_worker import fingerprint, note
from generators.execution.journal import Journal
from generators.execution.scheduling import run_all
from generators.generation.annotators import TreeEvidence, WorldRule
from generators.generation.verify import Verifier
from generators.policies.policy import Decision, PolicyView
from generators.policies.policy_maker import PolicyMaker
from pipelines.store import Store


class Noting(PathPolicy):
    def __init__(self, folder: Path, task: str) -> None:
        super().__init__()
        self._folder, self._task = folder, task

    def decide(self, view: PolicyView) -> Decision:
        note(self._folder / "decisions", [self._task, self._seed, len(view.past)])
        return super().decide(view)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("soak")
    store = Store(folder / "home")
    verifier = Verifier([WorldRule(), TreeEvidence(store)])
    makers = PolicyMaker("path", lambda contract, world: Noting(folder, contract.task_id))
    with Journal(folder / "journals", "shard0") as journal:
        for done in run_all(fsm_contracts(3), pool(), makers, journal, store=store):
            verdict = verifier.verify(done)
            note(folder / "told", [done.trajectory_id, fingerprint(done), verdict.verified, verdict.failure_kind])
    return folder


def cut_journal(folder: Path) -> None:
    path = folder / "journals/shard0.journal"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))


def tell_twice(folder: Path) -> None:
    lines = (folder / "told").read_text().splitlines(keepends=True)
    (folder / "told").write_text("".join([*lines, lines[0]]))


def tell_otherwise(folder: Path) -> None:
    lines = (folder / "told").read_text().splitlines(keepends=True)
    (folder / "told").write_text("".join([lines[0].replace('","', '","0', 1), *lines[1:]]))


def decide_again(folder: Path) -> None:
    lines = (folder / "decisions").read_text().splitlines(keepends=True)
    (folder / "decisions").write_text("".join([*lines, *lines[:4]]))


SOUND = {"verified_lost": 0, "told_lost": 0, "duplicated": 0, "differing": 0, "missing": 0, "decided_again": 0}


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (lambda folder: None, {}),
        (cut_journal, {"verified_lost": 1, "told_lost": 1}),
        (tell_twice, {"duplicated": 1}),
        (tell_otherwise, {"differing": 1}),
        (decide_again, {"decided_again": 4}),
        (lambda folder: note(folder / "survived", [0, 0, {}]), {"missing": 6}),
    ],
)
def test_the_account(whole: Path, tmp_path: Path, harm: Callable[[Path], None], found: dict[str, Any]) -> None:
    folder = tmp_path / "soak"
    shutil.copytree(whole, folder)
    harm(folder)
    counted = account(folder, kills=0)
    assert {name: counted[name] for name in SOUND} == SOUND | found
    assert counted["verified"] + counted["verified_lost"] == 3 and counted["in_flight_at_most"] == 0
