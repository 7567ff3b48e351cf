"""A store behind a URL that is down, hangs, cuts or lies; machines that are killed; two writers at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from s3_server import S3Server
from shared_store import commit, objects_of, picture

from pipelines.store import Store
from pipelines.store.asset_locks import holder
from pipelines.store.files import StoreError, sealed
from pipelines.store.object_store import leases
from pipelines.store.object_store.binding import copies_at
from pipelines.store.object_store.objects import Objects

pytestmark = pytest.mark.slow

Machines = Callable[[str], Store]


def forget(store: Store) -> None:
    """As a process that has just begun."""
    copies = copies_at(store.home)
    assert copies is not None
    copies._texts.clear()


def test_errors_of_the_server_are_told_and_nothing_half_done_is_read(
    s3_url: str, server: S3Server, machines: Machines
) -> None:
    first = machines(s3_url)
    made = commit(first)
    second = machines(s3_url)
    sha = made.read("steps")["screenshot_sha256"][0].as_py()
    name = f"{made.files[0].path}: expected {made.files[0].bytes} bytes with sha256 {made.files[0].sha256}, found"
    for fault, said in (("lie", name), ("cut", r"steps\.parquet|parquet"), ("500", "500|Internal|reached max")):
        server.fault = lambda method, path, fault=fault: fault if path.endswith(".parquet") else ""  # type: ignore[misc]
        with pytest.raises(StoreError, match=said) as told:
            second.require("unified/x").read("steps")
        assert "\n" not in str(told.value) and s3_url in str(told.value)
        assert not list(second.home.rglob("*.parquet")) and not list(second.home.rglob(".put-*"))
    server.fault = lambda method, path: "lie" if "/screens/" in path and method == "GET" else ""
    with pytest.raises(StoreError, match=f"{sha}.png: expected .* refused"):
        second.screen_path(sha)
    third = machines(s3_url)
    for name, said in (("current.json", "expected a pointer"), ("manifest.json", "expected a manifest")):
        server.fault = lambda method, path, name=name: "lie" if path.endswith(name) else ""  # type: ignore[misc]
        forget(third)
        with pytest.raises(StoreError, match=said):
            third.require("unified/x")
    server.fault = lambda method, path: ""
    assert third.require("unified/x") == made
    assert second.require("unified/x").read("steps").num_rows == 150


def test_one_failed_answer_is_asked_for_again(s3_url: str, server: S3Server, machines: Machines) -> None:
    first = machines(s3_url)
    made = commit(first)
    second = machines(s3_url)
    failed: list[str] = []

    def once(method: str, path: str) -> str:
        if path.endswith(".parquet") and path not in failed:
            failed.append(path)
            return ("500", "cut", "lie")[len(failed) - 1]
        return ""

    server.fault = once
    assert second.require("unified/x").read("steps").equals(made.read("steps")) and len(failed) == 3


def test_a_server_that_hangs_or_is_gone_ends_within_the_time_limit(
    s3_url: str, server: S3Server, machines: Machines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = machines(s3_url)
    commit(store)
    copies = copies_at(store.home)
    assert copies is not None
    monkeypatch.setattr(copies.objects, "timeout_s", 1.0)
    server.fault = lambda method, path: "hang" if path.endswith("current.json") else ""
    begun = time.monotonic()
    with pytest.raises(StoreError, match=r"current\.json got no answer within 1 s"):
        store.require("unified/x")
    assert time.monotonic() - begun < 20
    server.fault = lambda method, path: ""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=f"^{s3_url}-gone: .*store.json"):
        machines(f"{s3_url}-gone")
    monkeypatch.setenv("VESPER_STORE_TIMEOUT_S", "soon")
    with pytest.raises(StoreError, match="expected seconds above 0"):
        machines(f"{s3_url}-too")


def test_a_build_whose_store_fails_is_finished_by_a_rerun(s3_url: str, server: S3Server, machines: Machines) -> None:
    want = commit(machines(s3_url.replace("vesper", "other")))
    store = machines(s3_url)
    server.fault = lambda method, path: "500" if method == "PUT" and "part-p1" in path else ""
    ran: list[str] = []
    with pytest.raises(StoreError, match="part-p1"):
        commit(store, ran=ran)
    server.fault = lambda method, path: ""
    assert not [name for name in objects_of(store) if name.endswith(("manifest.json", "current.json", "lock.json"))]
    assert commit(store, ran=ran) == want and ran == ["p0", "p1", "p2"], "what was whole here was put, not made anew"


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_what_a_manifest_names_and_the_store_lost_is_told_or_put_again(url: str, machines: Machines) -> None:
    first = machines(url)
    made = commit(first)
    copies = copies_at(first.home)
    assert copies is not None
    copies.objects.delete([f"assets/unified/x/{made.files[1].path}"])
    second = machines(url)
    with pytest.raises(StoreError, match=rf"{made.files[1].path}: named by the store but missing"):
        second.require("unified/x").read("steps")
    ran: list[str] = []
    assert commit(second, ran=ran) == made and ran == ["p1"]
    copies.objects.delete([f"assets/unified/x/{made.files[0].path}"])
    assert commit(first) == made, "a copy is here, so it is put again"
    assert machines(url).require("unified/x").read("steps").equals(made.read("steps"))


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_a_store_that_names_files_elsewhere_is_refused(url: str, machines: Machines, tmp_path: Path) -> None:
    first = machines(url)
    made = commit(first)
    copies = copies_at(first.home)
    assert copies is not None
    name = f"assets/unified/x/{made.version}/manifest.json"
    text = made.to_json(seal=False)
    for old, new, said in (
        (made.files[0].path, "../../../../../etc/passwd", "expected the name of a file within x"),
        (made.files[0].sha256, "0" * 64, "its files give"),
        ('"unified/x"', '"unified/y"', "expected the manifest of unified/x"),
        ("{", "", "expected a manifest"),
    ):
        # Whoever forges a manifest seals it, too.
        copies.objects.put(name, sealed(text.replace(old, new)).encode())
        with pytest.raises(StoreError, match=said):
            machines(url).require("unified/x").read("steps")
    pointer = json.dumps({"version": "../../x", "data_version": ""}).encode()
    copies.objects.put("assets/unified/x/current.json", pointer)
    with pytest.raises(StoreError, match="expected the name of a version"):
        machines(url).current("unified/x")


def test_two_machines_that_write_at_once(url: str, machines: Machines) -> None:
    first, second = machines(url), machines(url)
    with first.build("unified/x", code_version="9", inputs={"raw/x": "v"}) as build:
        assert (found := holder(second.root("unified/x"))) is not None
        assert found.pid == os.getpid() and found.inputs == {"raw/x": "v"} and found.version == build.version
        with pytest.raises(StoreError, match=rf"unified/x: locked by process {os.getpid()}.*one writer per asset"):
            commit(second)
        commit(second, "gold/x")
    assert holder(second.root("unified/x")) is None
    copies = copies_at(first.home)
    assert copies is not None
    with first.build("unified/x", code_version="9") as build:  # and then this machine sleeps: its lease runs out
        found_lock = copies.objects.read("assets/unified/x/lock.json")
        assert found_lock is not None
        over = {**json.loads(found_lock.data), "expires": time.time() - 1}
        copies.objects.put("assets/unified/x/lock.json", json.dumps(over).encode())
        made = commit(second)
        with pytest.raises(StoreError, match="the lock was lost to another writer"):
            build.commit()
    assert first.require("unified/x") == made


def test_the_lease_of_another_machine_is_waited_for_unless_it_is_renewed(
    s3_url: str, machines: Machines, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = machines(s3_url)
    copies = copies_at(store.home)
    assert copies is not None
    monkeypatch.setattr(leases, "_LOOK_S", 0.1)
    name = "assets/unified/x/lock.json"
    there = {"host": "another", "machine": "another", "pid": 1, "mark": "m"}

    def says(seconds: float) -> bytes:
        return json.dumps({**there, "expires": time.time() + seconds}).encode()

    copies.objects.put(name, says(1.5))  # a container that is gone
    began = time.monotonic()
    made = commit(store)
    assert time.monotonic() - began > 1 and "waiting for the lock of process 1 on 'another'" in caplog.text
    assert store.require("unified/x") == made
    copies.objects.put(name, says(600))  # one that lives
    renews = threading.Timer(0.5, lambda: copies.objects.put(name, says(601)))
    renews.start()
    try:
        with pytest.raises(StoreError, match="locked by process 1 on 'another'"):
            commit(store, content="b")
    finally:
        renews.join()
        copies.objects.delete([name])


def test_a_lease_is_renewed_while_it_is_held(s3_url: str, machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = machines(s3_url), machines(s3_url)
    copies = copies_at(first.home)
    assert copies is not None
    monkeypatch.setattr(leases, "LEASE_S", 3.0)  # renewed every second

    def until() -> float:
        found = copies.objects.read("assets/unified/x/lock.json")
        assert found is not None
        return float(leases.parse(found)["expires"])

    with first.build("unified/x", code_version="9") as build:
        taken, end = until(), time.monotonic() + 60
        while until() == taken and time.monotonic() < end:
            time.sleep(0.1)
        assert until() > taken
        monkeypatch.setattr(leases, "LEASE_S", 300.0)
        with pytest.raises(StoreError, match="one writer per asset"):
            commit(second)
        build.commit()


def test_a_pointer_that_another_machine_changed_meanwhile_is_not_overwritten(url: str, machines: Machines) -> None:
    first = machines(url)
    one, two = commit(first, content="a"), commit(first, content="b")
    copies, pointer = copies_at(first.home), first.root("unified/x") / "current.json"
    assert copies is not None
    copies.read_text(pointer)
    other = json.dumps({"version": one.version, "data_version": one.data_version}).encode()
    copies.objects.put("assets/unified/x/current.json", other)
    with pytest.raises(StoreError, match="another machine changed it"):
        copies.replace_text(pointer, json.dumps({"version": two.version, "data_version": two.data_version}))
    assert first.require("unified/x").version == one.version


@pytest.mark.parametrize("fault", ["deaf", "501"])
def test_a_server_that_knows_no_conditions_is_found_out(
    s3_url: str, server: S3Server, machines: Machines, fault: str
) -> None:
    server.fault = lambda method, path: fault
    first, second = machines(s3_url), machines(s3_url)
    assert json.loads((first.home / "store_url.json").read_text())["exclusive"] is False
    made = commit(first)
    with first.build("unified/x", code_version="9"), pytest.raises(StoreError, match="one writer per asset"):
        commit(second)
    assert commit(second) == made


def test_where_nothing_is_conditional_the_second_of_two_still_sees_the_first(machines: Machines) -> None:
    objects = Objects("memory://plain")
    assert not objects.exclusive
    assert objects.create("a", b"1") and not objects.create("a", b"2")
    found = objects.read("a")
    assert objects.replace("a", b"3", found) and not objects.replace("a", b"4", found)


def test_kill_9_while_putting_and_another_machine_gives_the_same_bytes(tmp_path: Path, machines: Machines) -> None:
    script = textwrap.dedent(
        """
        import os, sys, pathlib
        sys.path[:0] = sys.argv[3:]
        from pipelines.store.object_store.folder import FolderObjects
        from pipelines.store import Store
        from shared_store import commit
        left = [int(sys.argv[2])]
        def counted(method):
            def inner(self, *arguments):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), 9)
                return method(self, *arguments)
            return inner
        for name in ("put", "put_file", "create", "replace"):
            setattr(FolderObjects, name, counted(getattr(FolderObjects, name)))
        commit(Store(os.environ["HOME_OF_IT"], sys.argv[1]))
        """
    )
    want = commit(Store(tmp_path / "plain"))
    here = [str(Path(__file__).parents[3] / "support"), str(Path(__file__).parents[4])]
    for place, puts in enumerate((6, 20, 22)):
        url = f"file://{tmp_path / f'share{place}'}"
        killed = subprocess.run(
            [sys.executable, "-c", script, url, str(puts), *here],
            env={**os.environ, "HOME_OF_IT": str(tmp_path / f"killed{place}")},
        )
        assert killed.returncode == -signal.SIGKILL, puts
        store = machines(url)
        assert commit(store) == want
        assert store.require("unified/x").read("steps").equals(want.read("steps"))
        assert store.screen_bytes(want.read("steps")["screenshot_sha256"][0].as_py()) == picture(0)
