"""The journal gives back what was written, up to the last whole record, whatever ended the process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from executing import fsm_contracts
from hypothesis import given
from hypothesis import strategies as st

from generators.execution.journal import (
    AttemptClaim,
    ClaimLost,
    Journal,
    JournalError,
    read_journal,
    read_journals,
    turn_from_plain,
    turn_to_plain,
)
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from schemas.action_types import Click, Type

TURN = ExecutedTurn(
    "0" * 64,
    (1024, 640),
    ({"box": [1.5, 2, 3, 4], "role": "button", "text": "", "name": "é"},),
    "r",
    Click((1, 2)),
    observe_s=0.25,
)


def begin(journal: Journal, seed: int = 0) -> AttemptClaim:
    return journal.claim(fsm_contracts()[0], seed, "path", "device")


def done(claim: AttemptClaim) -> ExecutedTrajectory:
    one = claim.attempt
    turns = tuple(one.turns)
    return ExecutedTrajectory(
        one.contract, "path", "d", one.seed, turns, TURN, {"a": [1, None]}, "no", "asked", seconds=1.25
    )


@given(st.text(), st.text(alphabet=st.characters(codec="utf-8")), st.none() | st.just("é\n\\"))
def test_a_turn_comes_back_as_it_was(reply: str, typed: str, thought: str | None) -> None:
    turn = replace(TURN, reply=reply, action=None if thought is None else Type(typed), thought=thought or "")
    assert turn_from_plain(turn_to_plain(turn)) == turn


def test_a_journal_cut_anywhere_loses_its_last_record_at_most(tmp_path: Path) -> None:
    sizes, states = [], []
    with Journal(tmp_path) as journal:
        claim = begin(journal)
        for number in range(3):
            claim.turn(replace(TURN, reply=f"{number}\n"), "state")
            sizes.append(journal.path.stat().st_size)
            states.append([turn.reply for turn in claim.attempt.turns])
        whole = journal.path.read_bytes()
    for cut in range(sizes[0], len(whole) + 1, 7):
        (tmp_path / "cut.journal").write_bytes(whole[:cut])
        kept = max(n for n, size in enumerate(sizes) if size <= cut)
        with Journal(tmp_path, "cut") as journal:
            [attempt] = journal.unfinished.values()
            assert [turn.reply for turn in attempt.turns] == states[kept]
            assert journal.dropped == (cut not in sizes)
            begin(journal).turn(TURN)  # what comes after a cut can be read
        assert len(read_journal(tmp_path, "cut")[attempt.trajectory_id].turns) == kept + 2


def test_damage_before_the_end_is_never_passed_over(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        claim = begin(journal)
        claim.turn(TURN)
        claim.turn(TURN)
    data = bytearray(journal.path.read_bytes())
    data[len(data) // 2] ^= 1
    journal.path.write_bytes(data)
    with pytest.raises(JournalError, match="is damaged and isn't the last"):
        Journal(tmp_path)


def test_one_writer_a_file_and_one_claim_an_attempt(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        with pytest.raises(JournalError, match="another process writes it"):
            Journal(tmp_path)
        old = begin(journal)
        old.turn(TURN)
        new = begin(journal)
        for write in (lambda: old.turn(TURN), lambda: old.end(done(old)), lambda: old.anew("x")):
            with pytest.raises(ClaimLost):
                write()
        assert old.lost and not new.lost and len(new.attempt.turns) == 1
        new.end(done(new))
        with pytest.raises(ClaimLost):
            new.end(done(new))
        with pytest.raises(JournalError, match="has ended already"):
            begin(journal)
        other = begin(journal, 1)
        journal.revoke(other.attempt.trajectory_id)
        with pytest.raises(ClaimLost):
            other.turn(TURN)
        with pytest.raises(JournalError, match="begun by the policy"):
            journal.claim(fsm_contracts()[0], 1, "another", "device")
        ended = journal.finished
    assert {key: one.trajectory for key, one in read_journal(tmp_path).items() if one.trajectory} == ended
    with Journal(tmp_path, "second") as second:
        claim = begin(second)
        claim.end(done(claim))
    with pytest.raises(JournalError, match="also ended in another"):
        read_journals(tmp_path)


def test_what_was_lost_is_begun_anew_so_often_and_nothing_else(tmp_path: Path) -> None:
    for life in range(4):
        with Journal(tmp_path) as journal:
            ended_before = journal.finished
            assert journal.reopen_lost(2) == (1 if life in (1, 2) else 0)
            if life == 3:  # it stays lost
                assert journal.finished == ended_before and len(ended_before) == 3
                break
            if life == 0:
                for seed, kind in ((1, None), (2, "task")):
                    claim = begin(journal, seed)
                    claim.turn(TURN)
                    claim.end(replace(done(claim), failure_kind=kind))
            claim = begin(journal)
            assert (claim.attempt.reopened, claim.attempt.turns, claim.attempt.broken) == (life, [], [])
            claim.turn(TURN)
            claim.broke("the gateway doesn't answer")
            claim.end(replace(done(claim), ended="failed", failure_kind="infrastructure"))
            kept = {key: one for key, one in journal.finished.items() if key in ended_before}
            assert len(kept) == (3 if life else 0)
            assert [one.failure_kind for one in kept.values() if one.seed] == [None, "task"][: len(kept)]
    assert {key: one.trajectory for key, one in read_journal(tmp_path).items()} == ended_before


def test_a_record_that_cant_be_written_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path) as journal:
        claim = begin(journal)
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(JournalError, match="No space left"):
                claim.turn(TURN)
        assert claim.attempt.turns == []
        claim.turn(replace(TURN, reply="after"))
    [attempt] = read_journal(tmp_path).values()
    assert [turn.reply for turn in attempt.turns] == ["after"]
