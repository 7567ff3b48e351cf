"""The judge bench as an asset, after a run that was killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from generators.proving.judge_bench import stages
from generators.proving.judge_bench.worlds import recorders
from pipelines.store import Store


def test_what_a_killed_run_left_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, real = Store(tmp_path), stages.build
    one = {"own_phone": recorders()["own_phone"]}  # of the worlds: what is left and taken away is the same for all
    monkeypatch.setattr("generators.proving.judge_bench.build.recorders", lambda pages: one)
    left: list[Path] = []

    def killed(folder: Path, *rest: Any) -> dict[str, Any]:
        left.append(folder / "screens" / "00" / "0000.png")
        left[0].parent.mkdir(parents=True)
        left[0].write_bytes(b"half a pict")
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "build", killed)
    small = stages.BenchConfig(traces=2, screens=2, copies=1, natural=0)
    with pytest.raises(KeyboardInterrupt):
        stages.build_bench(store, small)
    assert left[0].is_file()
    monkeypatch.setattr(stages, "build", real)
    made = stages.build_bench(store, small)
    assert stages.bench_folder(made).parts == left[0].parents[2].parts and not left[0].exists()
