"""Three nights, for real: PostgreSQL, code location, web server and daemon as processes, cron every few minutes.

python bench/nights.py [--minutes 2] [--json FILE] [--shards DIR] [--keep]

Each night new native files of two sources, a new revision of a third on a hub, and answers of people arrive. During the
second night a run worker, PostgreSQL, the daemon, the code location and the web server get `kill -9` in turn and come
back, and beside it devices, gateway nodes and the lease authority under the generation loop (`bench/soak.py`). After
the last night rounds of the generation loop are made by a backfill, during which the daemon is killed, and by another,
which must change nothing. The jobs of the nights are those that make sense in minutes: `refresh_sources` and
`build_corpus`; the training tail's sensor is switched off, as somebody would in the UI. The judge is a model behind the
OpenAI protocol (a stand-in on loopback that counts what it is asked).

A second house that nobody disturbs makes the same from nothing: the data of each night must be the same bytes, and what
it spent is what a whole build costs.

Exit code 1 if data differs, is missing or damaged, if a part that was whole was made again, a text embedded twice, or
if a later night spent more than 1.5 times the changed share of any figure.
"""

import argparse
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import yaml  # noqa: E402
from hub import Hub, serve  # noqa: E402
from openai_server import OpenAIServer  # noqa: E402
from postgres import PostgresMissing, postgres  # noqa: E402

from bench import nights_figures as figures  # noqa: E402
from bench import nights_rounds  # noqa: E402
from bench.nights_arrivals import ON_HUB, Arrivals, answer, make_shards  # noqa: E402
from bench.nights_house import OPEN, House  # noqa: E402
from bench.nights_kills import KILLED, Kills  # noqa: E402
from dagster_project.stages.generation import ROUND_STAGES  # noqa: E402
from pipelines.store import Store  # noqa: E402

SEEDS: tuple[tuple[int, ...], ...] = ((0, 1, 2, 3), (4,), (5,))
"""Shards that arrive each night."""
ANSWERED = 4
"""Items that each person answers a night."""
LATENCY_S = 0.1
"""Of the judge's answers."""
NIGHT_S = 2400.0
MOST = 1.5
AT_ONCE = 32
"""Questions that a judge has in flight at most: what a kill may cost of its answers."""
ROUNDS = ("round_001", "round_002", "round_003")
WHOLE_BUILD = """
import logging, dagster as dg
logging.disable(logging.CRITICAL)
from dagster_project import definitions
from dagster_project.settings import deployment
loaded = definitions.build(deployment.load())
with dg.DagsterInstance.ephemeral() as history:
    for job in ("refresh_sources", "build_corpus"):
        quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
        loaded.resolve_job_def(job).execute_in_process(instance=history, run_config=quiet)
"""


@dataclass
class Nights:
    """The soak under way."""

    folder: Path
    house: House
    arrivals: Arrivals
    judge: OpenAIServer
    other_judge: OpenAIServer
    ended: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    gateway_minutes: float = 2.0
    devices: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.parts = figures.Parts(self.house.home)
        self.store = Store(self.house.home)
        self.rows = 0
        self.whole: figures.Cost | None = None
        self.whole_rows = 0

    def run(self, count: int = len(SEEDS)) -> None:
        for number, seeds in enumerate(SEEDS[:count], 1):
            promoted = self._people(number) if number > 1 else 0
            if number > 1:
                shutil.copytree(self.house.home / "feedback", self.folder / f"feedback-{number}")
            self._night(number, seeds, promoted)
            if number > 1:
                self._compare(number)
        self._relate()
        self._rounds()

    def _rounds(self) -> None:
        """Rounds by a backfill, and by another, which finds them made."""
        began = time.monotonic()
        self.faults += nights_rounds.backfill(self.house, ROUNDS, kill="daemon")
        made = nights_rounds.made(self.store, ROUNDS)
        if len(made) != len(ROUNDS) * len(ROUND_STAGES):
            self.faults.append(f"backfill: expected {len(ROUND_STAGES)} stages of each round, found {sorted(made)}")
        self.faults += nights_rounds.backfill(self.house, ROUNDS)
        again = nights_rounds.made(self.store, ROUNDS)
        self.faults += [f"backfill: {asset} was made again" for asset in made if again.get(asset) != made[asset]]
        self.faults += [f"backfill: damaged: {what}" for what in figures.damage(self.house.home)]
        print(
            f"backfill of {', '.join(ROUNDS)}, twice: {time.monotonic() - began:.0f} s, {len(made)} stages", flush=True
        )

    def _people(self, number: int) -> int:
        """Answers arrive and are promoted; how often the judge was asked about them."""
        asked, since = self.judge.asked.total(), time.time()
        made = answer(self.store, ANSWERED)
        print(f"night {number}: {made} answers of people", flush=True)
        self.house.wait(
            lambda: any(
                run["status"] == "SUCCESS" and run["creationTime"] >= since
                for run in self.house.runs("promote_human_verdicts")
            ),
            300,
            "the promotion of people's answers",
            self.parts.look,
        )
        return self.judge.asked.total() - asked

    def _night(self, number: int, seeds: Sequence[int], promoted: int) -> None:
        before = figures.Look.at(self.house.home, self.parts, self.judge.asked.total())
        began, since = time.monotonic(), time.time()
        commit = self.arrivals.arrive(seeds)
        print(f"night {number}: shards {', '.join(map(str, seeds))}, {ON_HUB} at {commit[:7]}", flush=True)
        if number == 1:
            self.house.begin()
        kills = Kills(self.house, self.parts, before.parts) if number == 2 else None
        devices = self._devices() if number == 2 and self.gateway_minutes else None

        def each() -> None:
            self.parts.look()
            if kills is not None:
                kills.step()

        self.house.wait(lambda: (kills is None or kills.over) and self._ended(since), NIGHT_S, f"night {number}", each)
        if devices is not None:
            self.house.wait(lambda: devices.poll() is not None, NIGHT_S, "the gateway's soak", each)
            said = (self.folder / "gateway.log").read_text(encoding="utf-8", errors="replace").strip()
            print(f"  gateway: {said.rpartition(chr(10))[2]}", flush=True)
            if devices.returncode:
                self.faults.append(f"night {number}: gateway: {said.rpartition(chr(10))[2]}")
        after = figures.Look.at(self.house.home, self.parts, self.judge.asked.total())
        rows = figures.rows_of(self.store)
        spent = figures.cost(before, after, self.house.home)
        runs = [run for run in self.house.runs() if run["creationTime"] >= since]
        self.ended.append(
            {
                "night": number,
                "seconds": time.monotonic() - began,
                "rows": rows,
                "changed": (rows - self.rows) / rows,
                "cost": spent,
                "judge_asked_about_promoted": promoted,
                "killed": kills.done if kills else [],
                "runs": {
                    job: [run["status"] for run in runs if run["jobName"] == job]
                    for job in sorted({run["jobName"] for run in runs})
                },
                "versions": figures.versions(self.house.home),
            }
        )
        print(f"  {time.monotonic() - began:.0f} s, {rows} rows, runs {self.ended[-1]['runs']}", flush=True)
        self.faults += [f"night {number}: damaged: {what}" for what in figures.damage(self.house.home)]
        self.rows = rows

    def _devices(self) -> subprocess.Popen[bytes]:
        """The generation loop over leased devices, whose gateway nodes, authority, devices and workers are killed at
        random meanwhile (`bench/soak.py`, which holds its own account)."""
        words = ["--minutes", str(self.gateway_minutes), "--browsers", "1", "--json", str(self.folder / "gateway.json")]
        with (self.folder / "gateway.log").open("wb") as log:
            self.devices = subprocess.Popen(
                [sys.executable, str(ROOT / "bench" / "soak.py"), *words], cwd=ROOT, stdout=log, stderr=log
            )
        return self.devices

    def _ended(self, since: float) -> bool:
        """Whether a nightly refresh that began after the arrivals has succeeded, the corpus was built after it, and no
        run is left that was asked for before that. (On a busy machine the next ticks' runs are waiting by then.)"""
        runs = [run for run in self.house.runs() if run["creationTime"] >= since]
        done = [run for run in runs if run["status"] == "SUCCESS"]
        whole = [run for run in done if run["jobName"] == "refresh_sources" and "because" not in run["tags"]]
        refreshed = min((run["endTime"] for run in whole), default=float("inf"))
        built = [
            run["creationTime"] for run in done if run["jobName"] == "build_corpus" and run["creationTime"] >= refreshed
        ]
        return bool(built) and not any(run["status"] in OPEN and run["creationTime"] < min(built) for run in runs)

    # -- the house that nobody disturbs ---------------------------------------------------------------------------
    def _compare(self, number: int) -> None:
        """The same inputs in another home, without kills, from nothing the first time."""
        home = self.folder / "undisturbed"
        parts = figures.Parts(home)
        before = figures.Look.at(home, parts, self.other_judge.asked.total())
        shutil.rmtree(home / "feedback", ignore_errors=True)
        shutil.copytree(self.folder / f"feedback-{number}", home / "feedback")
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", WHOLE_BUILD],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                **self.house.environment,
                "OMP_NUM_THREADS": "1",
                "VESPER_HOME": str(home),
                "VESPER_JUDGE_BASE_URL": self.other_judge.url,
                "DAGSTER_HOME": "",
            },
        )
        if done.returncode:
            raise SystemExit(f"nights: the undisturbed house failed: {done.stderr.strip()[-2000:]}")
        if self.whole is None:
            self.whole = figures.cost(before, figures.Look.at(home, parts, self.other_judge.asked.total()), home)
            self.whole_rows = figures.rows_of(Store(home))
        expected, found = figures.versions(home), self.ended[-1]["versions"]
        other = sorted(asset for asset in expected.keys() | found.keys() if expected.get(asset) != found.get(asset))
        self.faults += [f"night {number}: {asset} differs from that of a night without kills" for asset in other]
        print(
            f"  undisturbed: {time.monotonic() - began:.0f} s, {len(expected)} assets, {len(other)} differ", flush=True
        )

    def _relate(self) -> None:
        """Each night's cost against that of a whole build of as many rows, and what was done twice."""
        assert self.whole is not None
        for night in self.ended:
            scale = night["rows"] / self.whole_rows
            whole = dataclasses.replace(
                self.whole, **{name: getattr(self.whole, name) * scale for name in figures.SPENT}
            )
            night["spent"] = figures.against(night["cost"], whole, night["changed"])
            if night["night"] > 1:
                self.faults += [
                    f"night {night['night']}: {name}: {said['times']} times the changed share, expected at most {MOST}"
                    for name, said in night["spent"].items()
                    if (said["times"] or 0) > MOST
                ]
        self.faults += [f"a part that was whole was made again: {name}" for name in self.parts.again]
        texts = figures.embedded_texts(self.house.home)
        if len(texts) != len(set(texts)):
            self.faults.append(f"{len(texts) - len(set(texts))} texts were embedded twice")
        again = sum(count - 1 for count in self.judge.delivered.values() if count > 1)
        if again > AT_ONCE * len(KILLED):
            self.faults.append(f"{again} answers of the judge were asked for again, expected at most those in flight")


@contextmanager
def nights(shards: Path, folder: Path, bench: Path, minutes: int) -> Iterator[Nights]:
    """All parts of the soak, stopped at the end."""
    count = sum(map(len, SEEDS))
    make_shards(shards, count)
    hub = Hub()
    judge, other = OpenAIServer(latency_s=LATENCY_S, keep_bodies=False), OpenAIServer(keep_bodies=False)
    with postgres() as database, serve(hub) as endpoint, judge, other:
        deployment = folder / "deployment.yaml"
        deployment.write_text(
            yaml.safe_dump(
                {
                    "raw_root": str(folder / "incoming"),
                    "embedded": {"enabled": False},
                    "strata_edges": [2, 4],
                    "sources": {ON_HUB: {"enabled": True}},
                    "upstream": {"hub": True, "endpoint": endpoint},
                    "generation": {"ground": "fsm", "targets": 1, "tasks": 2, "error_rate": 0.0, "rounds": 0},
                }
            )
        )
        house = House(
            folder,
            database,
            {
                "VESPER_DEPLOYMENT": str(deployment),
                "VESPER_NIGHTLY_CRON": f"*/{minutes} * * * *",
                "VESPER_JUDGE": "openai",
                "VESPER_JUDGE_BASE_URL": judge.url,
                "VESPER_JUDGE_MODEL": "stand-in",
                "HF_HUB_OFFLINE": "0",
            },
        )
        for home in (house.home, folder / "undisturbed"):
            take_judge_bench(bench, home)
        soak = Nights(folder, house, Arrivals(shards, folder / "incoming", hub, count), judge, other)
        try:
            yield soak
        finally:
            house.stop()
            if soak.devices is not None and soak.devices.poll() is None:
                soak.devices.send_signal(signal.SIGINT)  # it stops what it started
                soak.devices.wait(60)


def take_judge_bench(source: Path, home: Path) -> None:
    """The corpus has a part that depends on nothing that arrives, and takes minutes in a browser: the judge bench. That
    of `source`, if it has one, is taken over, so that it is in no night's cost; else each house makes its own."""
    if (source / "assets" / "bench").is_dir():
        shutil.copytree(source / "assets" / "bench", home / "assets" / "bench", symlinks=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where figures go")
    parser.add_argument("--shards", type=Path, help="rendered native files, kept (default: $VESPER_HOME/cache/nights)")
    parser.add_argument("--bench", type=Path, help="a home whose judge bench is taken as it is (default: $VESPER_HOME)")
    parser.add_argument("--nights", type=int, choices=(2, 3), default=3, help="2: for a look")
    parser.add_argument("--minutes", type=int, default=2, help="between two ticks of the nightly schedule")
    parser.add_argument("--gateway-minutes", type=float, default=2.0, help="of night 2's soak of the gateway; 0: none")
    parser.add_argument("--keep", action="store_true", help="leave the folder with homes and logs")
    options = parser.parse_args()
    home = Path(os.environ.get("VESPER_HOME", ".vesper"))
    shards = options.shards or home / "cache" / "nights"
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # all processes end with this one
    folder = Path(tempfile.mkdtemp(prefix="nights-"))
    began = time.monotonic()
    try:
        with nights(shards.resolve(), folder, (options.bench or home).resolve(), options.minutes) as soak:
            soak.gateway_minutes = options.gateway_minutes
            soak.run(options.nights)
    except PostgresMissing as missing:
        print(f"nights: {missing}", file=sys.stderr)
        return 2
    finally:
        if options.keep:
            print(f"everything lies in {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(figures.table(soak.ended))
    made = {
        "seconds": round(time.monotonic() - began),
        "faults": soak.faults,
        "nights": [{k: dataclasses.asdict(v) if k == "cost" else v for k, v in night.items()} for night in soak.ended],
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    for fault in soak.faults:
        print(f"FAULT: {fault}")
    print(f"{made['seconds']} s; {len(soak.faults)} faults" if soak.faults else f"{made['seconds']} s; nothing lost")
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
