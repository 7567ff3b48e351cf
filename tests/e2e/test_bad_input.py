"""Bad input by the command line: quarantined with its true reason, or one line and an exit code; nothing is lost."""

from __future__ import annotations

import json
import shutil
import struct
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from model_asking import answers_kept
from tfrecords import small_aitw, small_episode, write_examples
from webnative import demo, png, press, web_action, web_episode, write

from dagster_project import cli
from pipelines.store import Store, StoreError
from quality.judges.rules import RulesJudge
from quality.judges.verdicts import judge_source
from quality.model_client import client as model_client

HOME_KEY = {"step_id": 0, "length": 1, "code": 6}


def bomb() -> bytes:
    """A PNG that says 60,000 x 60,000 in a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def question(**changes: Any) -> dict[str, Any]:
    rater = {"full_answer": "Two.", "ui_elements": [{"text": "x", "bounds": [10, 20, 30, 40], "vh_index": -1}]}
    row = {"image_id": 7, "image_width": 100, "image_height": 200, "question": "How many?", "ground_truth": [rater]}
    return {name: value for name, value in (row | changes).items() if value is not None}


def line(*codes: str, **changes: Any) -> dict[str, Any]:
    traj = [{"index": place, "image": f"{place}.png", "value": {"code": code}} for place, code in enumerate(codes)]
    return {"task_id": "t", "instruction": "Do it", "traj": traj, **changes}


def lines(root: Path, *rows: Any, tail: str = "\n", pictures: tuple[bytes, ...] = ()) -> None:
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    write(root / "agentnet_ubuntu_5k.jsonl", "\n".join(texts) + tail)
    for place, data in enumerate(pictures):
        write(root / "ubuntu_images" / f"{place}.png", data)


def truncated_tfrecord(root: Path) -> None:
    path = root / "general/general-00000-of-00001"
    write_examples(path, [small_aitw(**HOME_KEY), small_aitw(**HOME_KEY, episode_id=["78"])], compress=False)
    path.write_bytes(path.read_bytes()[:-20])


def truncated_gzip(root: Path) -> None:
    path = root / "general/general-00000-of-00001"
    write_examples(path, [small_aitw(**HOME_KEY, episode_id=[str(n)]) for n in range(40)])
    path.write_bytes(path.read_bytes()[:-30])


def android(root: Path, *actions: Any) -> None:
    write_examples(root / "android_control-00000-of-00020", [small_episode(actions)])


HERE, FAR = {"action_type": "click", "x": 10, "y": 20}, {"action_type": "click", "x": 5000, "y": 20}
SHOWN = "pyautogui.click(0.1, 0.1)"

# What is written → (source, items in, mapped, quarantined; reasons; rows of steps and samples)
QUARANTINED: dict[str, tuple[str, Callable[[Path], None], tuple[int, int, int], dict[str, int], int]] = {
    "truncated TFRecord": ("aitw", truncated_tfrecord, (2, 1, 1), {"truncated_record": 1}, 1),
    "JSON with a missing field": (
        "screenqa",
        lambda root: write(root / "test.json", [question(), question(question="B?", ground_truth=None)]),
        (2, 1, 1),
        {"missing_field": 1},
        2,
    ),
    "JSON that ends in the middle": (
        "agentnet",
        lambda root: lines(root, line(SHOWN), json.dumps(line(SHOWN, task_id="u"))[:-9], tail=""),
        (2, 1, 1),
        {"truncated_record": 1},
        1,
    ),
    "JSON that is none": ("agentnet", lambda root: lines(root, "{oops", line(SHOWN)), (1, 1, 0), {"bad_json": 1}, 1),
    "an image that is none": (
        "agentnet",
        lambda root: lines(root, line(SHOWN), pictures=(b"GIF? no",)),
        (1, 1, 0),
        {"image_unreadable": 1},
        1,
    ),
    "an image that is a bomb": (
        "agentnet",
        lambda root: lines(root, line(SHOWN), pictures=(bomb(),)),
        (1, 1, 0),
        {"image_bomb": 1},
        1,
    ),
    "an image that is cut": (
        "agentnet",
        lambda root: lines(root, line(SHOWN), pictures=(png(96, 54)[:-40],)),
        (1, 1, 0),
        {"image_truncated": 1},
        1,
    ),
    "coordinates off screen, pixels": (
        "android_control",
        lambda root: android(root, HERE, FAR, HERE),
        (3, 2, 1),
        {"off_screen": 1},
        3,
    ),
    "coordinates off screen, shares": (
        "agentnet",
        lambda root: lines(root, line(SHOWN, "pyautogui.click(1.2, 0.5)")),
        (2, 1, 1),
        {"off_screen": 1},
        1,
    ),
    "an exact repeat": ("agentnet", lambda root: lines(root, line(SHOWN), line(SHOWN)), (2, 1, 1), {"duplicate": 1}, 1),
    "an unseen column": (
        "agentnet",
        lambda root: lines(root, line(SHOWN, mood="fine")),
        (1, 1, 0),
        {"unknown_field:mood": 1},
        1,
    ),
    "an unseen action word": (
        "android_control",
        lambda root: android(root, HERE, {"action_type": "wink"}),
        (2, 1, 1),
        {"unknown_action:wink": 1},
        2,
    ),
    "an unseen event": (
        "miniwob_demos",
        lambda root: write(root / "a_d1.json.gz", demo(*press(16, 21), {"type": "wink", "x": 1, "y": 1})),
        (2, 1, 1),
        {"unknown_action:wink": 1},
        2,
    ),
    "an unseen operation": (
        "mind2web",
        lambda root: write(
            root / "data/train/train_0.json", [web_episode([web_action(), web_action("WINK", uid="w")])]
        ),
        (2, 1, 1),
        {"unknown_action:WINK": 1},
        1,
    ),
}


ANY_DAMAGE = ("--damaged-files", "1")


def unify(source: str, root: Path, out: Path, *more: str) -> int:
    return cli.main(["unify", source, "--raw", str(root), "--out", str(out), *more])


@pytest.mark.parametrize("case", QUARANTINED)
def test_bad_records_are_quarantined_with_their_reason(case: str, tmp_path: Path, capsys: Any) -> None:
    source, make, items, reasons, rows = QUARANTINED[case]
    make(tmp_path / "raw")
    out = tmp_path / "out"
    assert unify(source, tmp_path / "raw", out, *ANY_DAMAGE) == 0
    report = json.loads((out / "report.json").read_text())
    found = report["items"]
    assert (found["in"], found["mapped"], found["quarantined"]) == items
    assert report["quarantine_reasons"] == reasons
    listed = [json.loads(text) for text in (out / "quarantine.jsonl").read_text().splitlines()]
    assert {row["reason"] for row in listed} == set(reasons)
    assert sum(row["items"] for row in listed) == items[2]
    assert all(row["file"] and row["record"] and "native" in row for row in listed)
    tables = [pq.read_table(path) for name in ("steps", "samples") for path in out.glob(f"{name}-*.parquet")]
    assert sum(table.num_rows for table in tables) == rows
    told = capsys.readouterr()
    assert told.err == "" and f"{items[2]} quarantined" in told.out
    unseen = [reason for reason in reasons if reason.startswith("unknown_")]
    assert ("note: vocabulary_known failed" in told.out) is bool(unseen) and all(name in told.out for name in unseen)


def test_a_cut_gzip_stops_its_source_and_gives_what_was_whole_where_that_is_allowed(
    tmp_path: Path, capsys: Any
) -> None:
    truncated_gzip(tmp_path / "raw")
    assert unify("aitw", tmp_path / "raw", tmp_path / "refused") == 2
    assert "files_readable: found 1 of 1 files damaged: general/general-00000-of-00001" in capsys.readouterr().err
    assert unify("aitw", tmp_path / "raw", tmp_path / "out", *ANY_DAMAGE) == 0
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert set(report["quarantine_reasons"]) == {"truncated_record"} and report["items"]["mapped"] >= 30


def test_an_id_that_stands_twice_with_other_content_is_two_episodes(tmp_path: Path) -> None:
    lines(tmp_path / "raw", line(SHOWN), line("pyautogui.click(0.2, 0.2)"))
    assert unify("agentnet", tmp_path / "raw", tmp_path / "out") == 0
    [path] = (tmp_path / "out").glob("steps-*.parquet")
    names = pq.read_table(path)["episode_id"].to_pylist()
    assert names[0] == "t" and names[1].startswith("t#") and len(names[1]) == len("t#") + 8


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return path


def test_an_archive_is_read_like_its_folder(tmp_path: Path, capsys: Any) -> None:
    row = json.dumps([question()]).encode()
    archive = zipped(tmp_path / "screenqa.zip", {"answers_and_bboxes/test.json": row})
    rico = zipped(tmp_path / "rico.zip", {"combined/7.jpg": png(100, 200)})
    write(tmp_path / "raw/answers_and_bboxes/test.json", row)
    write(tmp_path / "rico/combined/7.jpg", png(100, 200))
    versions = []
    for raw, pictures in ((archive, rico), (tmp_path / "raw", tmp_path / "rico")):
        out = tmp_path / f"out-{raw.name}"
        words = ["unify", "screenqa", "--raw", str(raw), "--companion", f"rico={pictures}", "--out", str(out)]
        assert cli.main(words) == 0
        report = json.loads((out / "report.json").read_text())
        assert report["rows"]["screens"] == 1 and report["images_missing"] == 0
        versions.append(report["data_version"])
    assert versions[0] == versions[1]


ONE_LINE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "zip slip": (lambda root: zipped(root / "a.zip", {"ok.json": b"[]", "../../evil.json": b"[]"}), "leads out"),
    "zip with an absolute name": (lambda root: zipped(root / "a.zip", {"/evil.json": b"[]"}), "leads out"),
    "an archive that is none": (lambda root: write(root / "a.zip", b"PK nothing"), "damaged or unreadable archive"),
    "an archive without its files": (
        lambda root: zipped(root / "a.zip", {"read.me": b"hello"}),
        "found others, such as read.me",
    ),
    "a folder without its files": (
        lambda root: write(root / "raw/read.me", b"hello").parent,
        "found others, such as read.me",
    ),
    "nothing that can be mapped": (
        lambda root: write(root / "raw/test.json", [question(question="")]).parent,
        "checks failed: something_mapped",
    ),
    "mostly garbage": (
        lambda root: (
            write(root / "raw/test.json", [question(), *[question(question="", image_id=n) for n in range(3)]]).parent
        ),
        "checks failed: mostly_mapped",
    ),
}


@pytest.mark.parametrize("case", ONE_LINE)
def test_what_can_t_be_used_is_one_line_and_an_exit_code(case: str, tmp_path: Path, capsys: Any) -> None:
    make, message = ONE_LINE[case]
    out = tmp_path / "out"
    assert unify("screenqa", make(tmp_path), out) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1 and told[0].startswith("vesper unify: ") and message in told[0]
    assert not list(tmp_path.parent.rglob("evil.json")) and not list(tmp_path.parent.parent.glob("evil.json"))


@pytest.mark.parametrize("command", ["unify", "judge", "refine", "shard"])
def test_nobody_s_files_are_replaced(command: str, tmp_path: Path, capsys: Any) -> None:
    """An output folder that is the input, or holds tables which no run of ours wrote, is refused untouched."""
    lines(tmp_path / "raw", line(SHOWN), pictures=(png(96, 54),))
    assert unify("agentnet", tmp_path / "raw", tmp_path / "in") == 0
    source = "raw" if command == "unify" else "in"
    words = ["unify", "agentnet", "--raw"] if command == "unify" else [command]
    write(tmp_path / source / "my-table.parquet", b"mine")
    if command != "unify":  # which wrote that folder: without its store it might be anyone's
        shutil.rmtree(tmp_path / "in/.store")
    write(tmp_path / ("other/shards/my-table.parquet" if command == "shard" else "other/my-table.parquet"), b"mine")
    refused = [source] if command in ("judge", "refine") else [source, "other"]  # these two replace no table
    for out in refused:
        before = {path: path.read_bytes() for path in (tmp_path / out).rglob("*") if path.is_file()}
        capsys.readouterr()
        assert cli.main([*words, str(tmp_path / source), "--out", str(tmp_path / out)]) == 2
        told = capsys.readouterr().err.strip().splitlines()
        assert len(told) == 1 and "--out" in told[0]
        assert {path: path.read_bytes() for path in (tmp_path / out).rglob("*") if path.is_file()} == before


def test_a_stage_refuses_what_failed_its_checks(tmp_path: Path) -> None:
    write(tmp_path / "raw/test.json", [question(question="")])
    assert unify("screenqa", tmp_path / "raw", tmp_path / "out") == 2
    with pytest.raises(StoreError, match="unified/screenqa: nothing committed yet"):
        judge_source(Store(tmp_path / "out/.store"), "screenqa", RulesJudge())


# --- a judge that misbehaves ------------------------------------------------------------------------------------------
class Judge:
    """A server of the OpenAI protocol on loopback that behaves as `mode` says, after `right` right answers."""

    def __init__(self) -> None:
        self.mode, self.right, self.asked = "right", 0, 0
        self.patience_s, self.closing = 30.0, threading.Event()  # how long its clients wait; ends what hangs
        self.lock, own = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                own.answer(self)

            def log_message(self, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        with self.lock:
            self.asked += 1
            mode, self.right = ("right" if self.right > 0 else self.mode), self.right - 1
        if mode == "hangs":
            self.closing.wait(30)
        names = body["response_format"]["json_schema"]["schema"]["required"]
        text = json.dumps({name: "it fits" if name == "reason" else 8 for name in names})
        text = {"answers garbage": "Certainly! I'd say eight."}.get(mode, text)
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        plain = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        status = {"says 429": 429, "says 500": 500, "says 401": 401}.get(mode, 200)
        try:
            request.send_response(status)
            data = json.dumps(plain if status == 200 else {"error": {"message": "no"}}).encode()
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", str(len(data)))
            request.end_headers()
            request.wfile.write(data)
        except OSError:  # the client has gone
            pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    made = Judge()

    def quick() -> Any:
        return retry(3, base_s=0.01, cap_s=0.02, timeout_s=made.patience_s, deadline_s=60, breaker_limit=4)

    retry = model_client.Retry
    monkeypatch.setattr(model_client, "Retry", quick)
    yield made
    made.closing.set()
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.parametrize("mode", ["answers garbage", "says 429", "says 500", "says 401", "hangs"])
@pytest.mark.parametrize("command", ["judge", "refine"])
def test_a_judge_that_fails_is_one_line_and_costs_nothing_that_was_answered(
    command: str, mode: str, server: Judge, tmp_path: Path, capsys: Any
) -> None:
    rows = [line(SHOWN, "pyautogui.click(0.5, 0.5)", task_id=name, instruction=f"Open {name}") for name in "ab"]
    lines(tmp_path / "raw", *rows, pictures=(png(96, 54), png(96, 54, 3)))
    assert unify("agentnet", tmp_path / "raw", tmp_path / "in") == 0
    out = tmp_path / "out"
    words = [
        command,
        str(tmp_path / "in"),
        "--out",
        str(out),
        "--judge",
        "openai",
        "--base-url",
        server.url,
        "--model",
        "m",
    ]
    server.mode, server.right, server.patience_s = mode, 2, 1.0 if mode == "hangs" else 30.0
    capsys.readouterr()
    assert cli.main(words) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1 and told[0].startswith(f"vesper {command}: "), told
    assert not (out / "verdicts.parquet").exists() and not (out / "report.json").exists()
    kept = answers_kept(out / "cache" / "judge")
    assert kept == 2, "complete answers stay, failures are never answers"
    server.closing.set()
    server.mode, server.right, server.asked, server.patience_s = "right", 0, 0, 30.0  # no answer is late here
    assert cli.main(words) == 0
    assert server.asked == 6 - kept  # two episodes and four steps
    scores = pq.read_table(out / "verdicts.parquet")["score"].to_pylist()
    assert scores == [8] * 6
    server.asked = 0
    assert cli.main(words) == 0 and server.asked == 0
