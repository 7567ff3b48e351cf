"""`leaderboard/standings`: checkpoints x suites with intervals and controls, and everything that was ever measured.

Rows come from three kinds of assets: `evaluations/<checkpoint>` (the held-out evaluation of each stage),
`suites/<suite>` (the merged agent on a suite, made by the graph) and `leaderboard/results/<suite>/<policy>` (suites run
by `vesper eval --record`). Every committed version of them gives rows, and a new standing starts from the last one's
rows, so history outlives versions that were cleared away. `current` marks the version that is the newest of its
evaluation. Dates are those of the commits; they stand in a table beside, which doesn't enter the data version.
"""

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.markdown_text import markdown_text
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import Check, CheckSpec, Manifest
from schemas.ids import canonical_json, digest
from schemas.tables import Column, Table
from trainer.suites.care import BESIDE

ASSET, RESULTS, SUITES_GROUP = "leaderboard/standings", "leaderboard/results", "suites"
CODE_VERSION = "2"
REPORT, RECORDS = "report.json", "records.jsonl"
HELDOUT_MEASURES = {"grounding": "hit", "navigation": "step"}
WIDEST = 80
"""Characters of a name in a cell."""
MEASURED = CheckSpec("something was measured", "A suite's report holds no figure, or one over nothing")
NOTHING_MISSING = CheckSpec("nothing measured before is missing", "A version yields fewer suites than it did")
ALL_BOUNDED = CheckSpec("every figure has its interval", "A mean outside of its own interval")
CHECKS = (NOTHING_MISSING, ALL_BOUNDED)


class Standings(Table, version=1):
    """A figure of a policy on a suite, of every version that was measured."""

    suite = Column(pa.string(), "what was asked")
    policy = Column(pa.string(), "who answered")
    measure = Column(pa.string(), "what was counted")
    mean = Column(pa.float64(), "the figure; null where nothing was asked", null=True)
    low = Column(pa.float64(), "lower end of its 95 % interval", null=True)
    high = Column(pa.float64(), "upper end of its 95 % interval", null=True)
    n = Column(pa.int64(), "questions or episodes")
    clusters = Column(pa.int64(), "groups of them that the interval draws from")
    control = Column(pa.string(), "the best control measured beside it", null=True)
    control_mean = Column(pa.float64(), "the control's figure", null=True)
    evaluation = Column(pa.string(), "asset that it is from")
    version = Column(pa.string(), "version of that asset")
    code_version = Column(pa.string(), "version of the code that measured")
    checkpoint_version = Column(pa.string(), "version of the checkpoint; empty where it has none")
    current = Column(pa.bool_(), "whether that version is the current one")


DATES = pa.schema([("evaluation", pa.string()), ("version", pa.string()), ("committed", pa.string())])
Row = dict[str, Any]


def result_asset(suite: str, policy: str) -> str:
    """Asset key of a policy's result on a suite; two policies whose names differ never share one."""
    # Names may hold anything; asset keys are lower-case words.
    plain = re.sub(r"[^a-z0-9]+", "_", policy.lower()).strip("_")[:40] or "model"
    # the digest tells apart names that look alike once they are plain
    return f"{RESULTS}/{suite}/{plain}_{digest(policy)[:8]}"


def record(store: Store, report: Mapping[str, Any]) -> Manifest:
    """Keep a suite's report (of `trainer.suites.run`) in the store: a version per distinct result."""
    asset = result_asset(report["suite"], report["policy"])
    spec = PartSpec("result", digest([CODE_VERSION, *_texts(report)]))
    inputs = dict(report.get("inputs") or {})
    with store.build(
        asset, code_version=CODE_VERSION, config=_plain(report["config"]), inputs=inputs, parts=[spec]
    ) as build:
        build.run_part(spec, lambda out: put_report(out, report))
        counts = {"suite": report["suite"], "policy": report["policy"], "records": len(report["records"])}
        return build.commit(counts=counts, checks=[measured(max((row["n"] for row in figures(report)), default=0))])


def put_report(out: PartWriter, report: Mapping[str, object]) -> dict[str, object]:
    """Write a report, and its records one a line; returns how many these are."""
    text, records = _texts(report)
    out.bytes(REPORT, (text + "\n").encode())
    out.bytes(RECORDS, "".join(f"{line}\n" for line in records).encode())
    return {"records": len(records)}


def measured(most: int) -> Check:
    """The check of a report whose largest figure is over `most` samples."""
    return MEASURED.check(most > 0, most, "1 sample or more", limit=1)


def _texts(report: Mapping[str, Any]) -> tuple[str, list[str]]:
    """(the report without its records, the records), as canonical JSON."""
    light = {name: value for name, value in report.items() if name != "records"}
    return canonical_json(_plain(light)), [canonical_json(_plain(one)) for one in report["records"]]


def _plain(value: object) -> Any:
    """JSON values without NaN."""
    # refuses NaN, which JSON hasn't
    return json.loads(json.dumps(value, allow_nan=False, default=str))


def figures(report: Mapping[str, Any]) -> Iterator[Row]:
    """The figures of a report that make a row: its headline first and what stands beside it, or one a domain of the
    held-out suite."""
    summary = report["summary"]
    if "headline" in summary:
        yield _row(report["suite"], str(summary["headline_of"]), summary["headline"], summary.get("controls") or {})
        yield from (
            _row(report["suite"], name.replace("_", " "), summary[name], {}) for name in BESIDE if name in summary
        )
        return
    for domain, found in sorted(summary.items()):
        measure = HELDOUT_MEASURES[domain.partition("/")[0]]
        yield _row(f"heldout/{domain}", measure, found[measure], found.get("controls") or {})


def _row(suite: str, measure: str, found: Mapping[str, Any], controls: Mapping[str, Any]) -> Row:
    """A figure beside the best of the controls that were measured on its scale."""
    known = {
        name: value["mean"]
        for name, value in controls.items()
        # a control of the type alone is easier than the measure it would stand beside
        if not name.endswith("_type") and value.get("mean") is not None
    }
    # Sorted first: of equal controls the first by name stays, whatever their order in the report.
    best = max(sorted(known), key=lambda name: known[name]) if known else None
    return {
        "suite": suite,
        "measure": measure,
        **{key: found.get(key) for key in ("mean", "low", "high")},
        "n": int(found.get("n") or 0),
        "clusters": int(found.get("clusters") or 0),
        "control": best,
        "control_mean": known[best] if best else None,
    }


def evaluations(store: Store) -> list[str]:
    """Keys of all assets that hold evaluations."""
    root = store.home / "assets"
    staged = [path.parent for path in root.glob("evaluations/*/current.json")]
    suites = [path.parent for path in root.glob(f"{SUITES_GROUP}/*/current.json")]
    recorded = [path.parent for path in root.glob(f"{RESULTS}/*/*/current.json")]
    return sorted(path.relative_to(root).as_posix() for path in (*staged, *suites, *recorded))


def collect(store: Store) -> tuple[list[Row], dict[tuple[str, str], str]]:
    """(rows of every committed version of every evaluation, (evaluation, version) → date of its commit)."""
    rows: list[Row] = []
    dates: dict[tuple[str, str], str] = {}
    for asset in evaluations(store):
        newest = store.current(asset)
        for path in sorted(store.root(asset).glob("*/manifest.json")):
            manifest = store.version(asset, path.parent.name)
            report = _report(manifest)
            # a version that failed its checks measured something else
            if report is None or not manifest.checks_passed:
                continue
            named = {
                "policy": report.get("policy") or asset.rpartition("/")[2],
                "evaluation": asset,
                "version": manifest.version,
                "code_version": manifest.code_version,
                "checkpoint_version": _checkpoint_version(manifest),
                "current": newest is not None and newest.version == manifest.version,
            }
            rows += [{**figure, **named} for figure in figures(report)]
            dates[asset, manifest.version] = _date(path)
    return rows, dates


def _report(manifest: Manifest) -> dict[str, Any] | None:
    """The report in a manifest; None for an asset of another kind (held-out shards, benches of judges)."""
    for name in (REPORT, "evaluation.json"):
        for entry in manifest.files:
            if entry.path.rpartition("/")[2] == name:
                found: dict[str, Any] = json.loads((manifest.root / entry.path).read_text(encoding="utf-8"))
                domains = {key.partition("/")[0] for key in found.get("summary", {})}
                # held-out shards and benches lie under the same keys, and hold no such summary
                known = "headline" in domains or bool(domains) and domains <= set(HELDOUT_MEASURES)
                return found if known else None
    return None


def _checkpoint_version(manifest: Manifest) -> str:
    found = [version for asset, version in manifest.inputs.items() if asset.startswith("checkpoints/")]
    # Several checkpoints (or none) as inputs: then none is the one that was measured.
    return found[0] if len(found) == 1 else ""


def _date(path: Path) -> str:
    # the manifest's own: it is written once, at the commit
    return datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC).date().isoformat()


def build_standings(store: Store) -> Manifest:
    """What is committed now, and all that the last standings knew → `leaderboard/standings`."""
    rows, dates = collect(store)
    before = store.current(ASSET)
    seen = {(row["evaluation"], row["version"]) for row in rows}
    for row in before.read("rows").to_pylist() if before is not None else []:
        # of a version that is still there its own rows stand already
        if (row["evaluation"], row["version"]) not in seen:
            rows.append({**row, "current": False})  # its version was cleared away
    for path in before.paths("dates") if before is not None else []:
        for row in pq.read_table(path).to_pylist():
            dates[row["evaluation"], row["version"]] = row["committed"]  # the first date that was seen stays
    # In a fixed order: the rows' digest is the version.
    rows.sort(key=lambda row: (row["suite"], row["measure"], row["policy"], row["evaluation"], row["version"]))
    spec = PartSpec("standings", digest([CODE_VERSION, rows]))
    inputs = {asset: found.version for asset in evaluations(store) if (found := store.current(asset)) is not None}
    with store.build(ASSET, code_version=CODE_VERSION, inputs=inputs, parts=[spec]) as build:
        build.run_part(spec, lambda out: _write(out, rows, dates))
        had = before.rows("rows") if before is not None else 0
        listed = len({(row["evaluation"], row["version"]) for row in rows})
        checks = [
            NOTHING_MISSING.check(_holds(rows, before), len(rows), f"all {had} rows of the last standings", limit=had),
            ALL_BOUNDED.check(all(_bounded(row) for row in rows), len(rows), "low <= mean <= high"),
        ]
        return build.commit(
            counts={
                "rows": len(rows),
                "evaluations": listed,
                "suites": len({row["suite"] for row in rows}),
                "policies": len({row["policy"] for row in rows}),
            },
            checks=checks,
        )


def _holds(rows: Sequence[Row], before: Manifest | None) -> bool:
    keys = {(row["evaluation"], row["version"], row["suite"]) for row in rows}
    old = before.read("rows").to_pylist() if before is not None else []
    return all((row["evaluation"], row["version"], row["suite"]) in keys for row in old)


def _bounded(row: Row) -> bool:
    if row["mean"] is None:
        return row["n"] == 0
    if row["low"] is None:  # too few clusters to have one
        return row["high"] is None
    # a mean may lie on an end of its interval, up to rounding
    return bool(row["low"] - 1e-9 <= row["mean"] <= row["high"] + 1e-9)


def _write(out: PartWriter, rows: Sequence[Row], dates: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    out.table("rows", pa.Table.from_pylist(list(rows), schema=Standings.schema))
    listed = [
        {"evaluation": asset, "version": version, "committed": date} for (asset, version), date in sorted(dates.items())
    ]
    # dates and page enter no version: equal figures are equal standings
    path = out.path("part-standings.dates.parquet", table="dates", hashed=False)
    pq.write_table(pa.Table.from_pylist(listed, schema=DATES), path)
    out.bytes("standings.md", markdown(rows, dates).encode(), hashed=False)
    return {"rows": len(rows)}


def markdown(rows: Sequence[Row], dates: Mapping[tuple[str, str], str]) -> str:
    """The standings as a table, best first in each suite, then what was measured before. Names come from data: they
    are escaped."""
    lines = []
    for title, wanted in (("Standings", True), ("Before", False)):
        shown = [row for row in rows if row["current"] is wanted and row["mean"] is not None]
        if not shown:
            continue
        lines += [
            f"### {title}",
            "",
            "| suite | policy | measure | mean [95 %] | n | best control | version | date |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for row in sorted(shown, key=lambda row: (row["suite"], row["measure"], -row["mean"], row["policy"])):
            control = f"{_cell(row['control'])} {row['control_mean']:.3f}" if row["control"] else ""
            date = dates.get((row["evaluation"], row["version"]), "")
            cells = [
                _cell(row["suite"]),
                _cell(row["policy"]),
                _cell(row["measure"]),
                f"{row['mean']:.3f} [{_bounds(row)}]",
                str(row["n"]),
                control,
                _cell(row["version"][:8]),
                date,
            ]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines) or "Nothing is evaluated yet.\n"


def _bounds(row: Row) -> str:
    return "no interval" if row["low"] is None else f"{row['low']:.3f}, {row['high']:.3f}"


def _cell(text: str) -> str:
    return markdown_text(text, WIDEST)
