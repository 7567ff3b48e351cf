"""Do two checkouts make the same data? python bench/compare_checkouts.py BEFORE AFTER [--records DIR]

In each checkout, with the environment that runs this: the whole demo (online RL in step, for rollouts that come in any
order repeat no run), a round of scripted generation, and for each source with a folder of native files in `--records`
`unify`, `refine`, `shard` and `scan`. Then every file that came of it is compared: tables row by row, pictures and
weights byte by byte, JSON by its values. What names the code itself (rubric and code versions, and the versions that
are hashed from them) and what a clock wrote isn't compared.

`--keep DIR` keeps what each checkout made below DIR and takes what is there already, so that BEFORE runs once for many
AFTERs. Prints one line for each file that differs; exit code 1 if any does, or if a file is on one side alone.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TRAINER = {"online": {"mode": "sync"}}
CODE_COLUMNS = frozenset({"rubric_version", "code_version", "version"})
"""Columns and keys that are hashed from the code."""
CLOCKS = re.compile(r"(_s|_ms|_ns|seconds|second|time|took|timings|minutes|began|ended|when|date|per_s|latency.*)$")
"""Keys and columns that a clock wrote."""
RACES = frozenset({"device"})
"""Columns and keys that say which of several workers came first."""
HEX = re.compile(r"\b[0-9a-f]{8,64}\b")
SKIPPED = frozenset({"dagster", "cache", "lock", "manifest.json", "current.json", "journals"})
"""Dagster's history and caches hold no data; manifests are read for their rows and checks alone, and what journals
hold stands in the trajectories, too."""
CURVES = "events.out.tfevents."
"""How the names of curves begin, which name the machine and the second."""
UNREPEATABLE = frozenset({"staircase/web"})
"""Assets that no run repeats: their rollouts come in any order."""


def run(checkout: Path, home: Path, *words: str) -> float:
    """Run one `vesper` command of a checkout; its seconds. What it printed is appended to `home`.log.

    Raises SystemExit with the end of that log if the command fails.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "VESPER_HOME": str(home),
        "VESPER_TRAINER": json.dumps(TRAINER),
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }
    environment.pop("DAGSTER_HOME", None)
    home.parent.mkdir(parents=True, exist_ok=True)
    log = home.with_name(f"{home.name}.log")
    began = time.monotonic()
    with log.open("ab") as output:
        command = [sys.executable, "-m", "dagster_project.cli", *words]
        done = subprocess.run(command, cwd=checkout, env=environment, stdout=output, stderr=output)
    if done.returncode:
        raise SystemExit(f"{checkout}: vesper {' '.join(words)} failed: {log.read_text(errors='replace')[-2000:]}")
    return time.monotonic() - began


def record(checkout: Path, out: Path, size: str, records: Path | None) -> None:
    """Make everything that is compared below `out`; what an earlier call finished there is kept."""
    done = out / "done"
    done.mkdir(parents=True, exist_ok=True)

    def once(name: str, *commands: tuple[str, ...], may_refuse: bool = False) -> None:
        """Run commands whose outputs lie in `out/name`, unless they were run before. With `may_refuse` a command that
        refuses its input ends them, and its name is kept to be compared: both checkouts have to refuse it."""
        if (done / name).exists():
            return
        took = 0.0
        for command in commands:
            try:
                took += run(checkout, out / name, *command)
            except SystemExit:
                if not may_refuse:
                    raise
                (out / name).mkdir(parents=True, exist_ok=True)
                (out / name / "refused_by").write_text(command[0])
                break
        (done / name).write_text(f"{took:.1f}\n")
        print(f"{checkout}: {name} in {took:.0f} s", flush=True)

    once(size, ("demo", "--size", size, "--report", str(out / f"{size}.json")))
    once("generate", ("generate", "--rounds", "1", "--targets", "4", "--tasks", "8", "--seed", "3"))
    known = sources(checkout)
    for folder in sorted(records.iterdir()) if records else ():
        if folder.name not in known:  # an evaluation suite, or a list of tasks
            continue
        unified, gold = out / folder.name / "unified", out / folder.name / "gold"
        commands: list[tuple[str, ...]] = [("unify", folder.name, "--raw", str(folder), "--out", str(unified))]
        commands.append(("refine", str(unified), "--out", str(gold)))
        commands.append(("shard", str(gold), "--out", str(out / folder.name / "shards")))
        commands.append(("scan", str(unified), "--out", str(out / folder.name / "scan")))
        once(folder.name, *commands, may_refuse=True)


def sources(checkout: Path) -> frozenset[str]:
    """Ids that `vesper unify` of a checkout takes."""
    return frozenset(path.stem for path in (checkout / "pipelines" / "sources").glob("*.py"))


def unlike(name: str) -> bool:
    """Whether what a column or key of this name holds is another in each run."""
    return name in CODE_COLUMNS or name in RACES or CLOCKS.search(name) is not None


def plain(value: Any, in_json: bool = False) -> Any:
    """A value without what names the code or what a clock wrote; bytes by their digest."""
    if isinstance(value, dict):
        return {key: plain(part, in_json) for key, part in value.items() if not unlike(str(key))}
    if isinstance(value, list):
        return [plain(part, in_json) for part in value]
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if in_json and isinstance(value, str):
        return HEX.sub("#", value)
    return value


def digest(path: Path) -> str:
    """What a file holds, as one digest: rows of a table, values of JSON, bytes of all else."""
    if path.suffix in (".parquet", ".arrow"):
        table = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
        table = table.drop_columns([name for name in table.column_names if unlike(name)])
        content = json.dumps(plain(table.to_pylist()), sort_keys=True, default=repr).encode()
    elif path.suffix in (".json", ".jsonl"):
        content = _json_content(path)
    else:
        content = path.read_bytes()
    return hashlib.sha256(content).hexdigest()


def _json_content(path: Path) -> bytes:
    """The values of a JSON file or of JSON lines; the bytes of what is neither, such as an empty report."""
    text = path.read_text()
    try:
        values = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
    except ValueError:
        return text.encode()
    return json.dumps(plain(values, in_json=True), sort_keys=True).encode()


def held(home: Path) -> Iterator[tuple[str, Path]]:
    """The files of a home: of each asset those of its current version, named without it; pictures; the rest."""
    assets = home / "assets"
    for current in sorted(assets.rglob("current.json")):
        asset = current.parent.relative_to(assets).as_posix()
        if asset in UNREPEATABLE:
            continue
        folder = current.parent / json.loads(current.read_text())["version"]
        for path in files(folder):
            yield f"{asset}/{path.relative_to(folder)}", path
    for path in files(home):
        name = path.relative_to(home)
        if name.parts[0] not in ("assets", "raw"):
            yield name.as_posix(), path


def files(folder: Path) -> Iterator[Path]:
    """All files below a folder but those skipped."""
    for path in sorted(folder.rglob("*")):
        if path.name.startswith(CURVES) or SKIPPED.intersection(path.relative_to(folder).parts):
            continue
        if path.is_file():
            yield path


def digests(out: Path, homes: frozenset[str]) -> dict[str, str]:
    """Name → digest of every file below those of the `homes` that `record` made."""
    named = {
        f"{home.name}/{name}": path for home in sorted(out.iterdir()) if home.name in homes for name, path in held(home)
    }
    with ThreadPoolExecutor() as pool:
        return dict(zip(named, pool.map(digest, named.values()), strict=True))


def main() -> int:
    """Record both, print what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("before", type=Path, help="a checkout")
    parser.add_argument("after", type=Path, help="another checkout")
    parser.add_argument("--size", choices=("tiny", "demo"), default="tiny", help="how much embedded data (tiny)")
    parser.add_argument("--records", type=Path, help="folder with a folder of native files for each source (none)")
    parser.add_argument("--keep", type=Path, help="where what each checkout made stays (a temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="compare-") as name:
        keep = options.keep or Path(name)
        for side in ("before", "after"):
            record(getattr(options, side).resolve(), keep / side, options.size, options.records)
        done = ({path.name for path in (keep / side / "done").iterdir()} for side in ("before", "after"))
        homes = frozenset(set.intersection(*done))
        before, after = (digests(keep / side, homes) for side in ("before", "after"))
    other = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    for key in other:
        where = "differs" if key in before and key in after else "only before" if key in before else "only after"
        print(f"{where}: {key}")
    print(f"{len(before)} files before, {len(after)} after: {f'{len(other)} differ' if other else 'all the same'}")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
