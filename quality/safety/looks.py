"""A part's texts and the first look at its screens: what `hygiene/safety` finds without seeing other parts."""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pipelines.store import Manifest, PartResult, PartSpec, PartWriter, Store, run_part
from pipelines.unify.origin import made_here
from quality.items.item import Row
from quality.items.part import SourcePart, load_part
from quality.safety.credentials import credential_in
from quality.safety.personal_data import Policy, Span, find_personal, sample_texts, shape, step_texts
from quality.safety.trigger_facts import LOOKED, look_at, on_screen, to_rows
from schemas.ids import item_sample, item_step
from schemas.tables import Column, Table


class Findings(Table, version=1):
    """What was found, each once an item."""

    item_id = Column(pa.string(), "step or sample that holds it")
    source = Column(pa.string(), "name of the dataset")
    rule = Column(pa.string(), "trigger, personal_data or credential")
    kind = Column(pa.string(), "what of it, e.g. a phone number")
    field = Column(pa.string(), "where in the row; screen for triggers")
    detail = Column(pa.string(), "why, without the thing itself")
    synthetic = Column(pa.bool_(), "made up by the source (a reserved number or domain), so that nothing is removed")
    screenshot_sha256 = Column(pa.string(), "screen that shows it", null=True)


QUARANTINE = pa.schema([("item_id", pa.string()), ("source", pa.string()), ("reason", pa.string())])


@dataclass(frozen=True)
class LookPart:
    """All a worker needs to read and look at a part of `unified/<source>`: plain data."""

    home: str
    asset: str
    unified: str
    """The version of the source that is looked at."""
    version: str
    """Of the asset."""
    spec: PartSpec
    source: str
    key: str
    policy: Policy


def run_look_part(item: LookPart) -> PartResult:
    """Read a part's texts and look at its screens; called by an engine's workers."""
    store = Store(item.home)
    unified = store.version(f"unified/{item.source}", item.unified)
    return run_part(
        store.root(item.asset),
        item.version,
        item.spec,
        lambda out: _look_part(out, store, unified, item.source, item.key, item.policy),
    )


def _look_part(out: PartWriter, store: Store, manifest: Manifest, source: str, key: str, policy: Policy) -> Row:
    part = load_part(manifest, key, store)
    scan = scan_texts(part, invented=made_here(manifest))
    looked, unreadable = look_at(on_screen(part), store.screen_bytes)
    out.table("findings", pa.Table.from_pylist(scan.findings, schema=Findings.schema))
    out.table("looked", pa.Table.from_pylist(to_rows(looked), schema=LOOKED))
    # Held are items with real data; the policy says whether they go.
    gone = [{"item_id": name, "source": source, "reason": f"personal_data: {kind}"} for name, kind in scan.held.items()]
    out.table("quarantine", pa.Table.from_pylist(gone if policy == "quarantine" else [], schema=QUARANTINE))
    return {**scan.counts, "screens": len(looked), "unreadable": unreadable}


@dataclass
class TextScan:
    """What the texts of a part hold: rows of `findings`, items by id that hold personal data."""

    findings: list[Row] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


def scan_texts(part: SourcePart, *, invented: bool = False) -> TextScan:
    """Personal data and credentials in the texts of a part. `invented`: Vesper drew its passwords and keys at random,
    so that they are nobody's."""
    scan = TextScan()
    for row in part.steps.to_pylist():
        name = item_step(row["source"], row["episode_id"], row["step_index"])
        _scan_item(scan, name, row["source"], step_texts(row), invented)
    for row in part.samples.to_pylist():
        _scan_item(scan, item_sample(row["sample_id"]), row["source"], sample_texts(row), invented)
    return scan


def _scan_item(scan: TextScan, item_id: str, source: str, texts: Sequence[tuple[str, str]], invented: bool) -> None:
    scan.counts["items"] += 1
    found = [(name, text, span) for name, text in texts for span in _personal(text)]
    for name, text, span in found:
        # The shape alone: a finding must not repeat what it found.
        detail = f"{span.rule}: {shape(text[span.start : span.end])}"
        scan.findings.append(finding(item_id, source, "personal_data", span.kind, name, detail, span.synthetic))
        scan.counts[f"{'synthetic' if span.synthetic else 'personal'}: {span.kind}"] += 1
    # Invented values (example.com, 555-01xx) are counted and hold nothing.
    real = [span.kind for _, _, span in found if not span.synthetic]
    if real:
        scan.held[item_id] = real[0]
        scan.counts["items_personal"] += 1
    lines = [(name, kind) for name, text in texts if (kind := credential_in(text)) is not None]
    for name, kind in lines:
        scan.findings.append(finding(item_id, source, "credential", kind, name, f"holds a {kind}", invented))
    # Passwords that Vesper drew itself are nobody's.
    scan.counts["items_credential"] += bool(lines) and not invented


@functools.lru_cache(maxsize=4096)
def _personal(text: str) -> tuple[Span, ...]:
    """An instruction stands in every step of its episode: it is read once."""
    return tuple(find_personal(text))


def finding(
    item_id: str, source: str, rule: str, kind: str, name: str, detail: str, synthetic: bool, screen: str | None = None
) -> Row:
    """A row of `Findings`."""
    return {
        "item_id": item_id,
        "source": source,
        "rule": rule,
        "kind": kind,
        "field": name,
        "detail": detail,
        "synthetic": synthetic,
        "screenshot_sha256": screen,
    }
