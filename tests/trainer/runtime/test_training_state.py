"""States saved beside training: the same bytes, one at a time, and the state before until the new one is whole."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from forked import kill_myself, run_until_killed
from torch import nn

from pipelines import whole_files
from trainer.runtime.parallel import Ranks
from trainer.runtime.training_state import StateFile, TrainingState


def tied() -> dict[str, torch.Tensor]:
    """Two names of one tensor, and a part of another."""
    table, wide = torch.arange(6.0), torch.arange(20.0)
    return {"in": table, "out": table, "part": wide[5:9]}


def test_beside_training_the_bytes_are_those_of_a_save_that_waits(tmp_path: Path) -> None:
    saved = {}
    for background in (False, True):
        folder = tmp_path / str(background)
        file, weights = StateFile(folder / "state.pt", "a run", background), tied()
        file.save(model=weights, step=3)
        weights["in"].add_(1)  # training goes on
        file.saves.check(wait=True)
        saved[background] = (folder / "state.pt").read_bytes()
        assert [path.name for path in folder.iterdir()] == ["state.pt"]
        kept = file.load()
        assert kept is not None and torch.equal(kept["model"]["out"], torch.arange(6.0)) and kept["step"] == 3
    assert saved[False] == saved[True]


class SlowDisk:
    """Bytes are on the disk once `goes_on` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.goes_on, self.most, self._now, sync = threading.Event(), 0, 0, whole_files.sync

        def slow(path: Path) -> None:
            self._now += 1
            self.most = max(self.most, self._now)
            assert self.goes_on.wait(60)
            sync(path)
            self._now -= 1

        monkeypatch.setattr(whole_files, "sync", slow)


def test_training_waits_for_no_disk_and_no_two_saves_are_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, ended = StateFile(tmp_path / "state.pt", "a run", background=True), list[int]()
    file.save(step=1, then=lambda: ended.append(1))
    file.saves.check(wait=True)
    disk = SlowDisk(monkeypatch)
    file.save(step=2, then=lambda: ended.append(2))
    file.saves.check()
    assert ended == [1] and (file.load() or {})["step"] == 1, "until the new one is whole"
    third = threading.Thread(target=lambda: file.save(step=3, then=lambda: ended.append(3)))
    third.start()
    third.join(0.05)
    assert third.is_alive(), "it waits for the one before"
    disk.goes_on.set()
    third.join(60)
    file.saves.check(wait=True)
    assert ended == [1, 2, 3] and disk.most == 1 and (file.load() or {})["step"] == 3


@pytest.mark.parametrize("background", [False, True])
def test_a_full_disk_is_told_with_the_file_and_leaves_the_state_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, background: bool
) -> None:
    file = StateFile(tmp_path / "state.pt", "a run", background)
    file.save(step=1)
    file.saves.check(wait=True)

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(whole_files, "sync", full)
        with pytest.raises((OSError, RuntimeError), match=r"No space left on device.*state\.pt") as told:
            file.save(step=2, then=lambda: pytest.fail("it isn't saved"))
            assert background, "the caller waits, and so hears of it at once"
            file.saves.check(wait=True)
    assert "\n" not in str(told.value)
    assert (file.load() or {})["step"] == 1 and [path.name for path in tmp_path.iterdir()] == ["state.pt"]
    file.save(step=3)
    file.saves.check(wait=True)
    assert (file.load() or {})["step"] == 3, "the next one is tried"


def saves_until_killed(path: Path) -> None:
    file = StateFile(path, "a run", background=True)
    file.save(step=1)
    file.saves.check(wait=True)
    whole_files.sync = lambda _: kill_myself()
    file.save(step=2)
    file.saves.check(wait=True)


def test_a_kill_in_the_middle_of_a_save_leaves_the_last_whole_state(tmp_path: Path) -> None:
    run_until_killed(saves_until_killed, tmp_path / "state.pt")
    file = StateFile(tmp_path / "state.pt", "a run", background=True)
    assert (file.load() or {})["step"] == 1
    file.save(step=3)
    file.saves.check(wait=True)
    assert [path.name for path in tmp_path.iterdir()] == ["state.pt"], "nothing is left of what was killed"


@contextmanager
def group_of_one() -> Iterator[Ranks]:
    """A process group whose only member saves as one of several would: in parts."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield Ranks(0, 2)
    finally:
        dist.destroy_process_group()


def test_parts_are_copied_at_once_and_named_when_all_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    model = nn.Linear(3, 2)
    optimiser = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    taken: dict[str, Any] = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with group_of_one() as group:
        state = TrainingState(tmp_path, "a run", group, background=True)
        with state.saves:
            state.save(model, optimiser, {"step": 1})
            with torch.no_grad():
                model.weight.add_(1)  # training goes on
        with monkeypatch.context() as patched:
            disk = SlowDisk(patched)
            state.save(model, optimiser, {"step": 2})
            # as a kill would leave it
            other, again = TrainingState(tmp_path, "a run", group), nn.Linear(3, 2)
            assert other.load(again, torch.optim.AdamW(again.parameters())) == {"step": 1}
            assert all(torch.equal(tensor, taken[name]) for name, tensor in again.state_dict().items())
            disk.goes_on.set()
            state.saves.check(wait=True)
        assert {path.name for path in tmp_path.iterdir()} == {"state.pt", "state-2"}
        assert other.load(again, torch.optim.AdamW(again.parameters())) == {"step": 2}
        assert torch.equal(again.weight, model.weight)
