"""Pulling from a stand-in for the hub, through the real client libraries: faults, revisions, rows by stream."""

from __future__ import annotations

import ast
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hub import REPO, Hub, gets, pull

from pipelines.mapping.card import Download
from pipelines.raw import hub as pulling
from pipelines.raw.pull import copy_tree, pull_source
from pipelines.raw.remote_file import PullError

pytestmark = [pytest.mark.real_parts, pytest.mark.slow]

BIG = random.Random(0).randbytes(3_000_000)
FILES = {"data/rows.json": b"[1, 2]", "data/big.bin": BIG, ".gitattributes": b"*"}


def test_a_second_pull_fetches_nothing(hub: Hub, tmp_path: Path) -> None:
    commit = hub.commit(REPO, FILES)
    assert sorted(pull(hub, tmp_path).fetched) == ["data/big.bin", "data/rows.json"]
    assert (tmp_path / "data/big.bin").read_bytes() == BIG
    record = json.loads((tmp_path / ".vesper/pull.json").read_text())
    assert (
        record["commit"] == commit
        and record["files"][0]["sha256"] == pulling.read_record(tmp_path)["files"][0]["sha256"]
    )  # type: ignore[index]
    hub.requests.clear()
    assert pull(hub, tmp_path).fetched == []
    assert not [line for line in hub.requests if line.startswith("GET /datasets/")]


@pytest.mark.parametrize(
    "faults",
    [["429", "429"], ["500", "503"], ["cut:70000", "cut:900000"], ["corrupt"], ["cut:1000", "500", "corrupt"]],
    ids=",".join,
)
def test_a_passing_fault_costs_no_byte(hub: Hub, tmp_path: Path, faults: list[str]) -> None:
    hub.commit(REPO, FILES)
    hub.faults["GET data/big.bin"] = list(faults)
    hub.faults["API"] = ["429", "500"]
    pull(hub, tmp_path)
    assert (tmp_path / "data/big.bin").read_bytes() == BIG
    assert hub.faults["GET data/big.bin"] == [] == hub.faults["API"]


def test_a_cut_download_goes_on_where_it_stopped(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 50_000)  # 10 MB: longer than the file
    hub.commit(REPO, FILES)
    hub.faults["GET data/big.bin"] = ["cut:2000000"]
    pull(hub, tmp_path)
    assert hub.bytes_sent < len(BIG) + 100_000, "the first two million bytes weren't fetched twice"


def test_a_lying_hub_is_refused_and_leaves_nothing(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, FILES)
    hub.faults["GET data/big.bin"] = ["corrupt"] * 9
    with pytest.raises(PullError, match="'data/big.bin' came twice with another checksum"):
        pull(hub, tmp_path)
    assert not (tmp_path / "data/big.bin").exists()
    hub.faults.clear()
    assert "data/big.bin" in pull(hub, tmp_path).fetched


def test_a_hub_that_stays_down_ends_in_one_line(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, FILES)
    hub.faults["API"] = ["500"] * 9
    with pytest.raises(PullError, match=r"^acme/gui: the hub didn't answer in 5 attempts; last: HTTP 500$"):
        pull(hub, tmp_path)
    hub.faults.clear()
    hub.gated.add(REPO)
    with pytest.raises(PullError, match="ask for consent"):
        pull(hub, tmp_path)
    hub.gated.clear()
    with pytest.raises(PullError, match="no revision 'v9'"):
        pull(hub, tmp_path, revision="v9")
    with pytest.raises(PullError, match="no such dataset repository"):
        pulling.pull("acme/none", tmp_path, endpoint=hub.url)


def test_a_damaged_local_file_is_fetched_again(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, FILES)
    pull(hub, tmp_path)
    (tmp_path / "data/big.bin").write_bytes(BIG[:-1] + b"?")
    assert pull(hub, tmp_path).fetched == ["data/big.bin"]
    assert (tmp_path / "data/big.bin").read_bytes() == BIG


def test_a_new_revision_is_told_and_taken_only_on_update(hub: Hub, tmp_path: Path) -> None:
    first = hub.commit(REPO, FILES)
    pull(hub, tmp_path)
    second = hub.commit(REPO, {"data/rows.json": b"[1, 2, 3]", "data/large.bin": BIG})
    stayed = pull(hub, tmp_path)
    assert (stayed.commit, stayed.newer, stayed.fetched) == (first, second, [])
    hub.requests.clear()
    moved = pull(hub, tmp_path, update=True)
    assert moved.commit == second and moved.fetched == ["data/rows.json"]
    assert moved.renamed == [("data/big.bin", "data/large.bin")] and gets(hub, "large.bin") == 0
    assert not (tmp_path / "data/big.bin").exists() and (tmp_path / "data/large.bin").read_bytes() == BIG
    back = pull(hub, tmp_path, revision=first)
    assert back.commit == first and (tmp_path / "data/rows.json").read_bytes() == b"[1, 2]"


def test_a_renamed_file_that_a_pattern_asks_for_is_an_error(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"data/train_new.json": b"[]"})
    with pytest.raises(
        PullError, match=r"no file matches 'data/train\.json'; was it renamed\? There are data/train_new"
    ):
        pull(hub, tmp_path, files=("data/train.json",))


def test_a_name_that_leads_out_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"../evil.json": b"[]"})
    with pytest.raises(PullError, match="leads out of the folder"):
        pull(hub, tmp_path / "raw")
    assert not (tmp_path / "evil.json").exists()


def test_a_killed_pull_is_taken_up(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {f"part-{n:02}.bin": BIG for n in range(4)} | {"last.bin": BIG[:-1]})
    hub.faults["GET part-02.bin"] = ["hang"] * 3
    code = f"from pathlib import Path; from pipelines.raw.hub import pull; pull({REPO!r}, Path({str(tmp_path)!r}))"
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
    for _ in range(300):
        if (tmp_path / "part-01.bin").exists():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    assert (tmp_path / "part-01.bin").exists() and not (tmp_path / ".vesper/pull.json").exists()
    hub.faults.clear()
    done = pull(hub, tmp_path)
    assert {"part-00.bin", "part-01.bin"} <= set(done.unchanged) and "part-03.bin" in done.fetched
    assert all((tmp_path / f"part-{n:02}.bin").read_bytes() == BIG for n in range(4))


def test_rows_are_streamed_without_the_rest(hub: Hub, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from webnative import png

    sink = pa.BufferOutputStream()
    pictures = [png(40, 30, n) + random.Random(n).randbytes(20_000) for n in range(300)]
    rows = [{"image": {"bytes": data, "path": None}, "n": n} for n, data in enumerate(pictures)]
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=10)
    whole = sink.getvalue().to_pybytes()
    hub.commit(REPO, {f"data/train-0000{n}.parquet": whole for n in range(5)})
    code = (
        f"from pathlib import Path; from pipelines.raw.pull import first_rows as f; print(f({REPO!r}, 12, Path('.')))"
    )
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(tmp_path / "hf"),
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    ran = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    [(name, count)] = ast.literal_eval(ran.stdout).items()
    assert count == 12 and pq.read_table(tmp_path / name)["n"].to_pylist() == list(range(12))
    assert pq.read_table(tmp_path / name)["image"][0].as_py()["bytes"] == pictures[0]
    assert hub.bytes_sent < 2 * len(whole), "four of five files aren't touched but for their schema"


def test_a_copy_from_another_file_system_goes_on_and_is_checked(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pipe("/bucket/aitw/general/a.tfrecord", BIG)
    memory.pipe("/bucket/aitw/splits.json", b"{}")
    assert copy_tree("memory://bucket/aitw", tmp_path / "aitw") == (2, 0)
    assert copy_tree("memory://bucket/aitw", tmp_path / "aitw") == (0, 2)
    assert (tmp_path / "aitw/general/a.tfrecord").read_bytes() == BIG
    with pytest.raises(PullError, match="found nothing"):
        copy_tree("memory://bucket/none", tmp_path / "none")
    told = pull_source(Download(url="memory://bucket/aitw"), tmp_path / "aitw")
    assert told == "0 files copied, 2 there already"


def test_the_command_pulls_what_a_descriptor_names(hub: Hub, tmp_path: Path) -> None:
    hub.commit("acme/mind2web", {"data/train/train_0.json": b"[]", "README.md": b"#"})
    environment = {**os.environ, "HF_HUB_OFFLINE": "0", "VESPER_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "dagster_project.cli", "sources", "pull", "mind2web", "--endpoint", hub.url]
    command += ["--from", "hf://datasets/acme/mind2web", "--to", str(tmp_path / "raw")]
    where = Path(__file__).parents[3]
    first = subprocess.run(command, env=environment, cwd=where, capture_output=True, text=True)
    assert first.returncode == 0 and "mind2web: 2 files fetched, 0 there already, at revision " in first.stdout
    assert (tmp_path / "raw/mind2web/data/train/train_0.json").read_bytes() == b"[]"
    settings = tmp_path / "deployment.yaml"
    settings.write_text('licences: {deny: ["*"]}')
    refused = subprocess.run(
        command, env={**environment, "VESPER_DEPLOYMENT": str(settings)}, cwd=where, capture_output=True, text=True
    )
    assert refused.returncode != 0 and "mind2web: licence" in refused.stderr and "denied" in refused.stderr
