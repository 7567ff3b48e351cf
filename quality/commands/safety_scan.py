"""`vesper scan`: the safety scan of one unified folder, in the graph's parts, by any engine."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.commands import SOURCE, write_report
from pipelines.engines.run_parts import Execution
from pipelines.store import Store
from quality.commands.folder_store import unified_folder
from quality.refinement.gold import licence_of
from quality.safety.licence_report import terms
from quality.safety.looks import QUARANTINE, Findings
from quality.safety.personal_data import Policy
from quality.safety.scan import TRIGGERS, SafetyConfig, scan_sources
from schemas.tables import Samples, Steps

PERSONAL = "personal_data: "


def scan_directory(
    in_dir: Path, out_dir: Path, policy: Policy = "report", execution: Execution | None = None
) -> dict[str, object]:
    """Scan what `vesper unify` wrote → findings.parquet, triggers.parquet, report.json, triggers.png if there are any;
    with policy `quarantine` also quarantine.parquet, the items with personal data. Returns the report. `execution` says
    who runs the parts.

    Raises `ValueError` if the folder isn't one."""
    out_dir.mkdir(parents=True, exist_ok=True)
    # Gone afterwards: it holds the rows as they are, and what a scan writes repeats nothing that it found.
    with tempfile.TemporaryDirectory(prefix=".scan-", dir=out_dir) as home:
        store = Store(Path(home).resolve())
        unified = unified_folder(store, in_dir, execution or Execution())
        made = scan_sources(store, [SOURCE], SafetyConfig(policy), execution=execution)
        samples = unified.read("samples", Samples.schema, ["source", "licence"])
        steps = unified.read("steps", Steps.schema, ["source"])
        sources = sorted({*steps["source"].unique().to_pylist(), *samples["source"].unique().to_pylist()})
        # A folder of several sources is looked through as one: a trigger may be planted in all of them.
        name = sources[0] if len(sources) == 1 else "several"
        findings = _named(made.read("findings", Findings.schema), name)
        triggers = _named(made.read("triggers", TRIGGERS), name)
        looked = made.read("looked", columns=["screenshot_sha256"])
        held = made.read("quarantine", QUARANTINE).to_pylist()
        if triggers.num_rows:
            shutil.copyfile(made.file(f"{SOURCE}.png"), out_dir / "triggers.png")
    pq.write_table(findings, out_dir / "findings.parquet")
    pq.write_table(triggers, out_dir / "triggers.parquet")
    if policy == "quarantine":
        # What shows a trigger stands among the findings; sorted, so that the same folder gives the same bytes.
        kinds = {row["item_id"]: row["reason"] for row in held if row["reason"].startswith(PERSONAL)}
        rows = [{"item_id": item, "kind": kind.removeprefix(PERSONAL)} for item, kind in sorted(kinds.items())]
        schema = pa.schema([("item_id", pa.string()), ("kind", pa.string())])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), out_dir / "quarantine.parquet")
    told = findings.to_pylist()
    return write_report(
        out_dir,
        {
            "items": made.counts["items"],
            # A screen of several parts was looked at in each of them.
            "screens": len(looked["screenshot_sha256"].unique()),
            "unreadable": made.counts["unreadable"],
            "triggers": triggers.num_rows,
            "items_trigger": len({row["item_id"] for row in told if row["rule"] == "trigger"}),
            "items_personal": made.counts["items_personal"],
            "items_credential": made.counts["items_credential"],
            "rules": dict(sorted(Counter(f"{r['rule']}: {r['kind']}" for r in told if not r["synthetic"]).items())),
            "synthetic": dict(sorted(Counter(r["kind"] for r in told if r["synthetic"]).items())),
            "patterns": triggers.drop_columns(["source"]).to_pylist(),
            "licences": _licences(samples, sources),
        },
    )


def _named(table: pa.Table, name: str) -> pa.Table:
    """Rows that speak of the folder as a whole, by the name of its source."""
    place = table.schema.get_field_index("source")
    column = pc.if_else(pc.equal(table["source"], SOURCE), name, table["source"])
    return table.set_column(place, table.schema.field(place), column)


def _licences(samples: pa.Table, sources: list[str]) -> dict[str, dict[str, str]]:
    """Licence of each source as its rows say it, else its adapter; and the family that is read from it."""
    said = dict(zip(samples.column("source").to_pylist(), samples.column("licence").to_pylist(), strict=True))
    named = {source: said.get(source) or licence_of(source) for source in sources}
    return {source: {"licence": text, "family": terms(text).family} for source, text in named.items()}
