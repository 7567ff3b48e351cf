"""`hygiene/safety`: planted triggers, personal data, credentials and licences, over all sources.

One part a part of `unified/<source>` (texts and first look at the screens), one a source (its triggers), and one for
the licences; an unchanged source is skipped. Findings never repeat what they found: `detail` shows its shape, with
letters and digits struck out. `quarantine` lists what must not train: items on screens with a trigger, and items with
personal data where the source's policy is `quarantine`.

Texts are those of `unified`, that is what people wrote; what a rewriter built from them isn't read.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.engines.run_parts import Execution, PartCall, run_parts
from pipelines.store import (
    Build,
    Check,
    CheckSpec,
    Manifest,
    PartResult,
    PartSpec,
    PartWriter,
    Store,
    StoreError,
)
from quality.code_version import code_digest
from quality.items.item import Row
from quality.items.part import load_part, rows_by_part
from quality.safety import licence_report as licences
from quality.safety.looks import QUARANTINE, Findings, LookPart, finding, run_look_part
from quality.safety.personal_data import POLICIES, Policy
from quality.safety.trigger_facts import facts_of, from_table, on_screen
from quality.safety.trigger_pictures import montage
from quality.safety.trigger_scan import Facts, ScreenPatches, Trigger, find_triggers, search
from schemas.ids import digest

ASSET = "hygiene/safety"
CODE_VERSION = "1-" + code_digest(
    (
        "safety/scan",
        "safety/looks",
        "safety/trigger_patches",
        "safety/triggers",
        "safety/trigger_match",
        "safety/trigger_twins",
        "safety/trigger_scan",
        "safety/trigger_facts",
        "safety/personal_data",
        "safety/personal_rules",
        "safety/test_numbers.txt",
        "safety/personal_numbers",
        "safety/credentials",
        "safety/licence_report",
    )
)
SCREENS_A_SECOND = 20
"""Screens that one core looks at, roughly."""
NO_TRIGGER = CheckSpec("no planted trigger", "The same faint patch is on many screens where no interface would put it")
LICENCES_ALLOWED = CheckSpec("no refused licence is used", "A source that `licences:` denies is in the corpus")
SCREENS_READ = CheckSpec("every screen was read", "Pictures could not be decoded", blocking=False)
LITTLE_PERSONAL = CheckSpec("little personal data", "More items with personal data than the limit", blocking=False)
NO_CREDENTIALS = CheckSpec("no credentials", "Passwords or keys in items (not `synthetic` ones)", blocking=False)
LICENCES_KNOWN = CheckSpec("every licence is known", "A source states no licence", blocking=False)
CHECKS = (NO_TRIGGER, LICENCES_ALLOWED, SCREENS_READ, LITTLE_PERSONAL, NO_CREDENTIALS, LICENCES_KNOWN)


TRIGGERS = pa.schema(
    [
        ("source", pa.string()),
        ("number", pa.int32()),
        ("reason", pa.string()),
        ("screens", pa.int32()),
        ("wander", pa.float32()),
        ("listed", pa.float32()),
        ("aimed", pa.float32()),
        ("rough", pa.float32()),
        ("width_px", pa.int32()),
        ("height_px", pa.int32()),
        ("hits", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class SafetyConfig:
    """What enters the config hash. `policies`: by source, what becomes of personal data (default `policy`);
    `max_personal_rate`: share of items with personal data above which the check warns."""

    policy: Policy = "report"
    policies: Mapping[str, Policy] = field(default_factory=dict)
    max_personal_rate: float = 0.01

    def __post_init__(self) -> None:
        for source, policy in {"policy": self.policy, **self.policies}.items():
            if policy not in POLICIES:
                raise ValueError(f"safety: {source}: expected one of {', '.join(POLICIES)}, found {policy!r}")
        if not 0 <= self.max_personal_rate <= 1:
            raise ValueError(f"safety: max_personal_rate: expected 0 to 1, found {self.max_personal_rate}")

    def of(self, source: str) -> Policy:
        return self.policies.get(source, self.policy)


# --- triggers ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TriggerScan:
    """Triggers of a source, the findings on its items, and hits by trigger number."""

    triggers: list[Trigger]
    findings: list[Row]
    hits: Counter[int]

    def rows(self, source: str) -> list[Row]:
        return [
            {
                "source": source,
                "number": t.number,
                "reason": t.reason,
                "screens": t.found.screens,
                "wander": t.found.wander,
                "listed": t.found.listed,
                "aimed": t.found.aimed,
                "rough": t.found.rough,
                "width_px": t.patch.size[1],
                "height_px": t.patch.size[0],
                "hits": self.hits[t.number],
            }
            for t in self.triggers
        ]


def scan_triggers(
    source: str,
    looked: Mapping[str, ScreenPatches],
    facts: Mapping[str, Facts],
    items: Mapping[str, Sequence[str]],
    load: Callable[[str], bytes],
) -> TriggerScan:
    """`items`: screen → ids of the items on it. Raises `ImageError`, `StoreError` if a picture went meanwhile."""
    triggers = find_triggers(looked, facts, load)
    hits = search(triggers, sorted(looked), load)
    findings = []
    for hit in hits:
        where = f"pattern {hit.trigger} at {hit.box[0]},{hit.box[1]} px, {hit.box[2] - hit.box[0]} px wide"
        text = where if hit.correlation is None else f"{where}, correlation {hit.correlation:.2f}"
        findings += [
            finding(item, source, "trigger", f"pattern {hit.trigger}", "screen", text, False, hit.screen)
            for item in items.get(hit.screen, ())
        ]
    return TriggerScan(triggers, findings, Counter(hit.trigger for hit in hits))


# --- the stage --------------------------------------------------------------------------------------------------------
def scan_sources(
    store: Store,
    sources: Sequence[str],
    config: SafetyConfig | None = None,
    refuses: licences.Refuses = lambda licence: "",
    execution: Execution | None = None,
) -> Manifest:
    """`unified/<source>` of all `sources` → tables findings, triggers, quarantine, looked; `triggers/*.png`,
    `licences.json`, `licences.md`. `execution` says who reads the texts of parts and looks at their screens. Raises
    `StoreError` if a source has no `unified`."""
    config = config or SafetyConfig()
    manifests = {source: store.require(f"unified/{source}") for source in sources}
    keys = {source: manifest.part_hashes for source, manifest in manifests.items()}
    # Texts and screens part by part; a change of one source's policy looks at that source again.
    texts = {
        (source, key): PartSpec(f"look-{source}-{key}", _digest([config.of(source), files]))
        for source, parts in keys.items()
        for key, files in parts.items()
    }
    # Triggers show only over all screens of a source, so they are one part of it.
    triggers = {source: PartSpec(f"triggers-{source}", _digest(parts)) for source, parts in keys.items()}
    report = PartSpec("licences", _digest(licences.inputs_digest(store, sources, refuses)))
    plain = {"policy": config.policy, "policies": dict(config.policies), "max_personal_rate": config.max_personal_rate}
    inputs = {m.asset: m.version for m in manifests.values()}
    with store.build(
        ASSET,
        code_version=CODE_VERSION,
        config=plain,
        inputs=inputs,
        parts=[*texts.values(), *triggers.values(), report],
    ) as build:
        screens = {source: rows_by_part(manifest, ("screens",)) for source, manifest in manifests.items()}
        looks = []
        for (source, key), spec in texts.items():
            read, policy, rows = manifests[source].version, config.of(source), screens[source][key]
            part = LookPart(str(store.home), ASSET, read, build.version, spec, source, key, policy)
            looks.append(PartCall(part, (spec,), rows / SCREENS_A_SECOND, rows))
        # All parts before any trigger: a trigger is what many screens share.
        seen = run_parts(store, ASSET, run_look_part, looks, execution)
        for result in seen:
            build.add(result)
        for source, spec in triggers.items():
            build.run_part(spec, lambda out, s=source: _trigger_part(out, store, build, seen, manifests[s], s))  # type: ignore[misc]
        lines = licences.licence_report(store, sources, refuses)
        build.run_part(report, lambda out: _licence_part(out, lines))
        return _commit(build, config, lines)


def _digest(read: object) -> str:
    return digest([CODE_VERSION, read])


def _trigger_part(
    out: PartWriter, store: Store, build: Build, seen: Sequence[PartResult], manifest: Manifest, source: str
) -> Row:
    looked: dict[str, ScreenPatches] = {}
    for result in seen:
        # A part's key is the source's key with its name in front.
        if result.key.startswith(f"look-{source}-") and result.key[len(f"look-{source}-") :] in manifest.part_hashes:
            paths = [build.root / entry.path for entry in result.files if entry.table == "looked"]
            looked |= {name: one for path in paths for name, one in from_table(pq.read_table(path)).items()}
    facts: dict[str, Facts] = {}
    items: dict[str, list[str]] = defaultdict(list)
    for key in manifest.part_hashes:
        part = load_part(manifest, key, store)
        for screen, one in facts_of(part).items():
            known = facts.get(screen, Facts())
            # A screen may stand in several parts; its elements are the same, its targets add up.
            facts[screen] = Facts(known.elements or one.elements, (*known.targets, *one.targets))
        for screen, names in on_screen(part).items():
            items[screen] += names
    scan = scan_triggers(source, looked, facts, items, store.screen_bytes)
    out.table("triggers", pa.Table.from_pylist(scan.rows(source), schema=TRIGGERS))
    out.table("findings", pa.Table.from_pylist(scan.findings, schema=Findings.schema))
    # What shows a trigger goes, whatever the policy is for personal data.
    gone = sorted({one["item_id"] for one in scan.findings})
    rows = [{"item_id": name, "source": source, "reason": "trigger"} for name in gone]
    out.table("quarantine", pa.Table.from_pylist(rows, schema=QUARANTINE))
    if scan.triggers:
        out.bytes(f"triggers/{source}.png", montage(scan.triggers, store.screen_bytes))
    return {
        "triggers": len(scan.triggers),
        "items_trigger": len(gone),
        "screens_trigger": len({one["screenshot_sha256"] for one in scan.findings}),
    }


def _licence_part(out: PartWriter, lines: Sequence[licences.LicenceLine]) -> Row:
    """Not part of the data version: the report also says what the last shards and mixture hold, which are built from
    this asset, so equal inputs would have other bytes in a house of another history."""
    plain = json.dumps(licences.as_json(lines), indent=1, sort_keys=True, ensure_ascii=False)
    out.bytes("licences.json", plain.encode(), hashed=False)
    out.bytes("licences.md", licences.markdown(lines).encode(), hashed=False)
    return {}


def _commit(build: Build, config: SafetyConfig, lines: Sequence[licences.LicenceLine]) -> Manifest:
    counts: Counter[str] = Counter(items=0, screens=0, unreadable=0, triggers=0, items_personal=0, items_credential=0)
    by_source: dict[str, int] = {}
    for result in build.results:
        counts.update(result.counts)
        if result.counts.get("triggers"):
            by_source[result.key.removeprefix("triggers-")] = result.counts["triggers"]
    facts = {"triggers_by_source": by_source, "licences": licences.summary(lines)}
    return build.commit(counts={**counts, **facts}, checks=checks(counts, by_source, config, lines))


def checks(
    counts: Mapping[str, int], by_source: Mapping[str, int], config: SafetyConfig, lines: Sequence[licences.LicenceLine]
) -> list[Check]:
    """What the scan demands; only triggers and a licence that is refused and used block."""
    # A share, as a large corpus has more of everything.
    rate = counts["items_personal"] / max(counts["items"], 1)
    stated = licences.summary(lines)
    named = ", ".join(f"{source} ({count})" for source, count in sorted(by_source.items()))
    return [
        NO_TRIGGER.check(not by_source, named or "none", "none", sum(by_source.values()), 0),
        LICENCES_ALLOWED.check(
            not stated["refused_but_used"],
            _listed(stated["refused_but_used"]),
            "none",
            len(stated["refused_but_used"]),
            0,
        ),
        SCREENS_READ.check(counts["unreadable"] == 0, f"{counts['unreadable']} unreadable", 0, counts["unreadable"]),
        LITTLE_PERSONAL.check(
            rate <= config.max_personal_rate,
            f"{rate:.2%} of {counts['items']} items",
            f"at most {config.max_personal_rate:.2%}",
            rate,
            config.max_personal_rate,
        ),
        NO_CREDENTIALS.check(counts["items_credential"] == 0, counts["items_credential"], 0),
        LICENCES_KNOWN.check(
            not stated["unknown"], _listed(stated["unknown"]), "none unknown", len(stated["unknown"]), 0
        ),
    ]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def require_unified(store: Store, sources: Sequence[str]) -> list[str]:
    """Of `sources` those that have a last good `unified`. Raises `StoreError` if none has."""
    found = [name for name in sources if store.current(f"unified/{name}") is not None]
    if not found:
        raise StoreError("safety: no source is unified yet; run refresh_sources first")
    return found
