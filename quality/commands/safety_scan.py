"""`vesper scan`: the safety scan of one unified folder, without a store."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.commands import write_report
from quality.items.folder import read_directory
from quality.refinement.gold import licence_of
from quality.safety.licence_report import terms
from quality.safety.looks import Findings, scan_texts
from quality.safety.personal_data import Policy
from quality.safety.scan import TRIGGERS, scan_triggers
from quality.safety.trigger_facts import facts_of, look_at, on_screen
from quality.safety.trigger_pictures import montage


def scan_directory(in_dir: Path, out_dir: Path, policy: Policy = "report") -> dict[str, object]:
    """Scan what `vesper unify` wrote → findings.parquet, triggers.parquet, report.json, triggers.png if there are any;
    with policy `quarantine` also quarantine.parquet, the items with personal data. Returns the report.

    Raises `ValueError` if the folder isn't one."""
    part = read_directory(in_dir)
    texts = scan_texts(part)
    items = on_screen(part)
    looked, unreadable = look_at(items, part.bank.source.screen_bytes)
    sources = sorted({*part.steps.column("source").to_pylist(), *part.samples.column("source").to_pylist()})
    # A folder of several sources is looked through as one: a trigger may be planted in all of them.
    name = sources[0] if len(sources) == 1 else "several"
    found = scan_triggers(name, looked, facts_of(part), items, part.bank.source.screen_bytes)
    out_dir.mkdir(parents=True, exist_ok=True)
    findings = [*texts.findings, *found.findings]
    pq.write_table(pa.Table.from_pylist(findings, schema=Findings.schema), out_dir / "findings.parquet")
    pq.write_table(pa.Table.from_pylist(found.rows(name), schema=TRIGGERS), out_dir / "triggers.parquet")
    if found.triggers:
        (out_dir / "triggers.png").write_bytes(montage(found.triggers, part.bank.source.screen_bytes))
    if policy == "quarantine":
        # Sorted, so that the same folder gives the same bytes.
        rows = [{"item_id": item, "kind": kind} for item, kind in sorted(texts.held.items())]
        schema = pa.schema([("item_id", pa.string()), ("kind", pa.string())])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), out_dir / "quarantine.parquet")
    return write_report(
        out_dir,
        {
            "items": texts.counts["items"],
            "screens": len(looked),
            "unreadable": unreadable,
            "triggers": len(found.triggers),
            "items_trigger": len({row["item_id"] for row in found.findings}),
            "items_personal": texts.counts["items_personal"],
            "items_credential": texts.counts["items_credential"],
            "rules": dict(sorted(Counter(f"{r['rule']}: {r['kind']}" for r in findings if not r["synthetic"]).items())),
            "synthetic": dict(sorted(Counter(r["kind"] for r in findings if r["synthetic"]).items())),
            "patterns": [{k: v for k, v in row.items() if k != "source"} for row in found.rows(name)],
            "licences": _licences(part.samples, sources),
        },
    )


def _licences(samples: pa.Table, sources: list[str]) -> dict[str, dict[str, str]]:
    """Licence of each source as its rows say it, else its adapter; and the family that is read from it."""
    said = dict(zip(samples.column("source").to_pylist(), samples.column("licence").to_pylist(), strict=True))
    named = {source: said.get(source) or licence_of(source) for source in sources}
    return {source: {"licence": text, "family": terms(text).family} for source, text in named.items()}
