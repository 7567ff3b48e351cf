"""What an item's name means: a step, an episode (a trace), a sample, or something that was quarantined."""

import json
from dataclasses import dataclass, field

import pyarrow.compute as pc

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.rows import Row, TableVersions, plain_json, without_round
from dagster_project.lineage.subjects import HEX32, ITEM
from pipelines.store.manifest import Manifest
from schemas.ids import GENERATED_SOURCE

QUARANTINE = ["source", "unit", "items", "reason", "detail", "file", "record", "native"]


@dataclass(frozen=True)
class Identity:
    """`kind`: step, episode, sample or quarantined. `key`: `<source>/<rest>` of a step or episode, a sample's id, or
    the native record's id. `rows`: of the quarantine table."""

    kind: str
    source: str
    key: str
    rows: list[Row] = field(default_factory=list)

    @property
    def item_id(self) -> str:
        """The item's id; a quarantined record has none and goes by its own name."""
        return f"{self.source}: {self.key}" if self.kind == "quarantined" else f"{self.kind}:{self.key}"


def identify(manifests: Manifests, word: str) -> Identity:
    """Find an item by its id (`step:...`, `episode:...`, `sample:...`), by a sample's bare id, by an episode's,
    trajectory's or native record's own id, or by `<source>/<file>#<place>` of what was quarantined.

    Raises `ValueError` if nothing of that name is there, or if several are, naming them.
    """
    word = without_round(word.strip())
    match = ITEM.fullmatch(word)
    found = _named(manifests, match[1], match[2]) if match else _bare(manifests, word)
    if not found:
        raise ValueError(
            f"{word[:120]!r}: no such item in this store; expected step:<source>/<episode>/<number>, "
            "episode:<source>/<episode>, sample:<id>, or the id of an episode, a trajectory or a native record"
        )
    # Several readings: the person chooses, as a guess would explain another item.
    if len(found) > 1:
        raise ValueError(f"{word[:120]!r} is {', '.join(one.item_id for one in found[:5])}: give one of these")
    return found[0]


def current(manifests: Manifests, *groups: str) -> list[Manifest]:
    """The current versions of some groups of assets (`gold/`)."""
    found = (manifests.current(asset) for asset in sorted(manifests.pointers) if asset.startswith(groups))
    return [manifest for manifest in found if manifest is not None]


def _named(manifests: Manifests, kind: str, key: str) -> list[Identity]:
    if kind == "sample":
        return _sample(manifests, key)
    source, _, rest = key.partition("/")
    # Generated sources have gold without unified, so both are looked into.
    here = [m for m in current(manifests, "unified/", "gold/") if m.asset.partition("/")[2] == source]
    where = None
    if kind == "step":
        episode, _, index = rest.rpartition("/")
        if not episode or not index.isdecimal():
            raise ValueError(f"step:{key[:100]}: expected step:<source>/<episode>/<number>, found no number last")
        where = pc.field("step_index") == int(index)
        rest = episode
    # In the order of how far it came: rows, else rejects, else the quarantine.
    if TableVersions(here, "steps").with_ids(["step_index"], "episode_id", [rest], where):
        return [Identity(kind, source, key)]
    item = f"{kind}:{key}"
    if TableVersions(here, "rejects").with_ids(["item_id"], "item_id", [item]):
        return [Identity(kind, source, key)]
    rows = quarantined(here, rest)
    return [Identity("quarantined", source, rest, rows)] if rows else []


def _sample(manifests: Manifests, name: str) -> list[Identity]:
    for table in ("samples", "rejects"):
        column, wanted = ("sample_id", name) if table == "samples" else ("item_id", f"sample:{name}")
        tables = TableVersions(current(manifests, "gold/", "unified/"), table)
        rows = tables.with_ids([column], column, [wanted])
        if rows:
            [(asset, _), *_] = sorted(tables.versions([rows[0][0]]))
            return [Identity("sample", asset.partition("/")[2], name)]
    return []


def _bare(manifests: Manifests, word: str) -> list[Identity]:
    """An id without its kind: of a sample, else of a step or an episode, else of a native record."""
    # 32 hex digits are a sample's id; anything else may still look like one.
    if HEX32.fullmatch(word) and (found := _sample(manifests, word)):
        return found
    source, _, rest = word.partition("/")
    known = {asset.partition("/")[2] for asset in manifests.pointers if asset.startswith(("unified/", "gold/"))}
    # `source/…`: a step by its number, an episode, else a place in a native file.
    if rest and source in known:
        for kind in ("step", "episode"):
            if kind == "step" and not rest.rpartition("/")[2].isdecimal():
                continue
            if found := [one for one in _named(manifests, kind, word) if one.kind == kind]:
                return found
        rows = _placed(manifests, source, rest)
        if rows:
            return [Identity("quarantined", source, rest, rows)]
    # A bare episode id may occur in several sources.
    steps = TableVersions(current(manifests, "unified/", "gold/", "generation/verified/"), "steps")
    met = steps.with_ids(["source"], "episode_id", [word])
    ran = TableVersions(current(manifests, "generation/verified/"), "trajectories")
    sources = {row["source"] for _, row in met}
    sources |= {GENERATED_SOURCE for _ in ran.where(["trajectory_id"], pc.field("trajectory_id") == word)}
    if sources:
        return [Identity("episode", one, f"{one}/{word}") for one in sorted(sources)]
    return _native(manifests, word)


def _native(manifests: Manifests, word: str) -> list[Identity]:
    """Samples of a native record, else what was quarantined of it."""
    # As the provenance is written, so that a number within another isn't met.
    named = f'"record":{json.dumps(word, ensure_ascii=False)}'
    unified = current(manifests, "unified/")
    samples = TableVersions(unified, "samples").where(
        ["sample_id", "source"], pc.match_substring(pc.field("provenance"), named)
    )
    if samples:
        return [Identity("sample", row["source"], row["sample_id"]) for _, row in samples]
    rows = quarantined(unified, word)
    sources = sorted({row["source"] for row in rows})
    return [Identity("quarantined", one, word, [row for row in rows if row["source"] == one]) for one in sources]


def quarantined(manifests: list[Manifest], record: str) -> list[Row]:
    """Quarantine rows whose native payload, or whose detail, names a record."""
    if not record:
        return []
    # Quoted as JSON, and as Python shows it in details.
    said = json.dumps(record, ensure_ascii=False)
    where = pc.match_substring(pc.field("native"), said) | pc.match_substring(pc.field("detail"), f"'{record}'")
    rows = [row for _, row in TableVersions(manifests, "quarantine").where(QUARANTINE, where)]
    # Rows that name the record itself; a mere mention counts only where there are none.
    own = [row for row in rows if _names(plain_json(row["native"]), record) or f"'{record}'" in row["detail"]]
    return own or rows


def _names(native: object, record: str) -> bool:
    return isinstance(native, dict) and native.get("record") == record


def _placed(manifests: Manifests, source: str, place: str) -> list[Row]:
    """Quarantine rows by `<file>#<place in it>`, or of a whole file."""
    file, _, record = place.partition("#")
    where = pc.field("file") == file
    if record:
        where &= pc.field("record") == record
    here = current(manifests, f"unified/{source}")
    return [
        row
        for _, row in TableVersions([m for m in here if m.asset == f"unified/{source}"], "quarantine").where(
            QUARANTINE, where
        )
    ]
