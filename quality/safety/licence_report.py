"""The licence report: under which terms each source stands, whether they allow what is done here, and who is named.

Read from the descriptors of the sources and the manifests of gold and mixture. It repeats what publishers say and no
lawyer has seen it: a licence that isn't stated, or that a descriptor marks as unconfirmed, is `unknown` and gives no
permission.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pipelines import sources as adapters
from pipelines.markdown_text import markdown_text
from pipelines.store import Store
from pipelines.store.files import StoreError
from pipelines.training_data.mixture import ASSET as MIXTURE
from pipelines.training_data.shards import ASSET as SHARDS
from pipelines.unify.origin import made_here
from schemas.ids import GENERATED_SOURCE, digest

Answer = Literal["yes", "no", "conditions", "unknown"]
OWN_LICENCE = "Apache-2.0 (Vesper's own data in this form)"
"""Of data that Vesper's generator made where a publisher's files aren't."""
RUNS_LICENCE = "own"
"""Of trajectories that this deployment's devices recorded: they are whose devices ran."""
Refuses = Callable[[str], str]
"""Licence → why the deployment's policy doesn't allow training on it; empty if it does."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a licence allows. `conditions`: allowed, under the conditions in `note`."""

    family: str
    redistribute: Answer
    commercial: Answer
    attribute: bool
    note: str = ""


UNKNOWN = Terms("unknown", "unknown", "unknown", True, "no licence that anybody could rely on is stated")
_UNSURE = re.compile(r"unconfirmed|not stated|none|unknown|^$", re.IGNORECASE)
_FAMILIES: tuple[tuple[str, Terms], ...] = (
    (r"cc[- ]by[- ]nc[- ]nd", Terms("CC-BY-NC-ND", "conditions", "no", True, "unchanged copies only")),
    (r"cc[- ]by[- ]nc[- ]sa", Terms("CC-BY-NC-SA", "conditions", "no", True, "under the same licence")),
    (r"cc[- ]by[- ]nc", Terms("CC-BY-NC", "yes", "no", True)),
    (r"cc[- ]by[- ]nd", Terms("CC-BY-ND", "conditions", "yes", True, "unchanged copies only")),
    (r"cc[- ]by[- ]sa", Terms("CC-BY-SA", "conditions", "yes", True, "under the same licence")),
    (r"cc[- ]by", Terms("CC-BY", "yes", "yes", True)),
    (r"cc0|public domain", Terms("CC0", "yes", "yes", False)),
    (r"research", Terms("research use", "unknown", "no", True, "terms of the publisher, research use")),
    (r"openrail", Terms("OpenRAIL", "conditions", "conditions", True, "use restrictions go with every copy")),
    (r"a?gpl", Terms("GPL", "conditions", "yes", True, "under the same licence, with source")),
    (r"apache", Terms("Apache-2.0", "yes", "yes", True, "licence text and notices go with it")),
    (r"\bmit\b", Terms("MIT", "yes", "yes", True, "copyright notice goes with it")),
    (r"^own$", Terms("own", "yes", "yes", False, "recorded here; apps and sites on the screens keep their rights")),
    (r"\bbsd\b", Terms("BSD", "yes", "yes", True, "copyright notice goes with it")),
)
"""By pattern over the descriptor's words; the first that matches."""


def terms(licence: str) -> Terms:
    """Terms of a licence as a descriptor writes it. What is unsure or not stated is `UNKNOWN`, whatever else is named;
    of several licences ("A or B") the stricter one counts."""
    # A descriptor that isn't sure gives no permission, whatever else it names.
    if _UNSURE.search(licence.strip()):
        return UNKNOWN
    # An aside such as "(README)" names no licence, but "(research use)" narrows one.
    found = [
        next((known for form, known in _FAMILIES if re.search(form, part, re.IGNORECASE)), None)
        for part in re.split(r"\bor\b|;|\band\b", licence)
    ]
    named = [one for one in found if one is not None]
    # Of several licences the stricter: whoever may not do it under one may not do it.
    return max(named, key=_strictness, default=UNKNOWN)


def _strictness(one: Terms) -> tuple[int, int]:
    order = ("yes", "conditions", "no", "unknown")
    return order.index(one.redistribute), order.index(one.commercial)


@dataclass(frozen=True, slots=True)
class LicenceLine:
    """One source. `training`: empty if the deployment's policy allows it, else why not. Rows: gold steps and samples,
    packed samples (`shards`), rows and share of tokens of the mixture (None: there is none yet)."""

    source: str
    title: str
    licence: str
    terms: Terms
    training: str
    gold_steps: int
    gold_samples: int
    shards: int | None
    mixture_rows: int | None
    mixture_share: float | None
    citation: str
    origin: str

    @property
    def unknown(self) -> bool:
        return self.terms.family == UNKNOWN.family

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "unknown": self.unknown}


def licence_report(store: Store, names: Sequence[str], refuses: Refuses = lambda licence: "") -> list[LicenceLine]:
    """A line for each of `names` and for whatever else is in the shards or the mixture, by name. A source without an
    adapter here, or without gold, is listed too. Raises `StoreError` if nothing is named and nothing is packed."""
    packed, mixed = _shard_rows(store), _mixture_shares(store)
    # Also what is packed by now although nobody asked: a report that leaves it out would lie.
    listed = sorted({*names, *(packed or {}), *(mixed or {})})
    if not listed:
        raise StoreError("licence report: no source is enabled and nothing is packed")
    lines = []
    for name in listed:
        adapter = adapters.registry().get(name)
        card = adapter.descriptor if adapter else None
        unified = store.current(f"unified/{name}")
        # Data that Vesper drew in a publisher's form is not the publisher's.
        licence = OWN_LICENCE if unified and made_here(unified) else card.licence if card else "unknown"
        if name == GENERATED_SOURCE:
            licence = RUNS_LICENCE
        gold = store.current(f"gold/{name}")
        # None where there is no mixture yet, which isn't 0 rows.
        rows, share = mixed.get(name, (0, 0.0)) if mixed is not None else (None, None)
        lines.append(
            LicenceLine(
                name,
                card.title if card else name,
                licence,
                terms(licence),
                refuses(card.licence if card else licence),
                gold.rows("steps") if gold else 0,
                gold.rows("samples") if gold else 0,
                packed.get(name, 0) if packed is not None else None,
                rows,
                share,
                card.citation if card else "",
                card.origin if card else "",
            )
        )
    return lines


def inputs_digest(store: Store, names: Sequence[str], refuses: Refuses) -> str:
    """Digest of all that the report is built from."""
    found = {}
    for asset in (*(f"gold/{name}" for name in sorted(names)), SHARDS, MIXTURE):
        manifest = store.current(asset)
        found[asset] = manifest.data_version if manifest else None
    registry = adapters.registry()
    cards = {
        name: [
            # What of the cards the report prints; the policy's answer is part of it.
            a.descriptor.title,
            a.descriptor.licence,
            a.descriptor.citation,
            a.descriptor.origin,
            refuses(a.descriptor.licence),
        ]
        for name, a in sorted(registry.items())
    }
    own = [name for name in sorted(names) if (at := store.current(f"unified/{name}")) and made_here(at)]
    return digest([found, own, cards, refuses("unknown"), sorted(names)])


def _shard_rows(store: Store) -> dict[str, int] | None:
    """Packed samples by source; None without shards."""
    manifest = store.current(SHARDS)
    if manifest is None:
        return None
    counts: dict[str, int] = defaultdict(int)
    for entry in manifest.read("index", columns=["source"]).column("source").value_counts().to_pylist():
        counts[str(entry["values"])] += int(entry["counts"])
    return counts


def _mixture_shares(store: Store) -> dict[str, tuple[int, float]] | None:
    """(rows, share of tokens) by source; None without a mixture."""
    manifest = store.current(MIXTURE)
    if manifest is None:
        return None
    rows = [row for row in manifest.read("shares").to_pylist() if row["group"] == "source"]
    total = sum(row["chosen_tokens"] for row in rows) or 1
    return {row["name"]: (row["chosen_rows"], row["chosen_tokens"] / total) for row in rows}


def summary(lines: Sequence[LicenceLine]) -> dict[str, Any]:
    """Figures for a manifest: sources by family, unknown ones, refused ones, what can't be redistributed."""
    families: dict[str, int] = defaultdict(int)
    for line in lines:
        families[line.terms.family] += 1
    # Only what was really used can break a licence.
    used = [line for line in lines if line.gold_steps or line.gold_samples or line.shards]
    return {
        "sources": len(lines),
        "families": dict(sorted(families.items())),
        "unknown": [line.source for line in lines if line.unknown],
        "refused": [line.source for line in lines if line.training],
        "refused_but_used": [line.source for line in used if line.training],
        "not_redistributable": [line.source for line in used if line.terms.redistribute in ("no", "unknown")],
        "not_commercial": [line.source for line in used if line.terms.commercial in ("no", "unknown")],
        "to_attribute": [line.source for line in used if line.terms.attribute],
    }


def as_json(lines: Sequence[LicenceLine]) -> dict[str, Any]:
    """The whole report as plain data."""
    return {"summary": summary(lines), "sources": [line.as_json() for line in lines]}


def markdown(lines: Sequence[LicenceLine]) -> str:
    """The report as a page: a table, what is unknown, and the attributions."""
    head = (
        "source",
        "licence",
        "training",
        "redistribution",
        "commercial",
        "gold steps",
        "gold samples",
        "in shards",
        "share of mixture",
    )
    text = ["# Licences", "", _row(head), "|" + "---|" * 5 + "--:|" * 4]
    for line in lines:
        share = "-" if line.mixture_share is None else f"{line.mixture_share:.1%}"
        shards = "-" if line.shards is None else str(line.shards)
        training = line.training or "allowed"
        redistribute = f"{line.terms.redistribute} ({line.terms.note})" if line.terms.note else line.terms.redistribute
        text.append(
            _row(
                (
                    line.source,
                    line.licence,
                    training,
                    redistribute,
                    line.terms.commercial,
                    str(line.gold_steps),
                    str(line.gold_samples),
                    shards,
                    share,
                )
            )
        )
    unknown = [line.source for line in lines if line.unknown]
    text += ["", f"Unknown licences: {', '.join(map(markdown_text, unknown)) or 'none'}.", "", "## Attribution", ""]
    text += [
        "- " + markdown_text(f"{line.title} ({line.licence}): {line.citation or 'no citation is known'} {line.origin}")
        for line in lines
        if line.terms.attribute and (line.gold_steps or line.gold_samples or line.shards)
    ]
    return "\n".join(text) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"
