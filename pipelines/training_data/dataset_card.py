"""The card of a folder of rows: what `datasets.load_dataset(FOLDER)` reads, what the rows are, for people, and under
which licences they came (`LICENSES.md`). `vesper shard` and all exports write theirs here.

Without the front matter `datasets` would take every parquet and JSON file of the folder for data, the index and the
report included.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from pipelines.markdown_text import markdown_text
from pipelines.training_data.shard_form import MEANINGS, SHARD
from pipelines.whole_files import whole_file

DATA = "data"
"""Folder of the shards below that of the card."""
CARD, LICENCES = "README.md", "LICENSES.md"


class Group(NamedTuple):
    """What rows are counted by; "" where a kind of row knows no such thing."""

    source: str
    licence: str
    objective: str
    platform: str
    split: str


@dataclass(frozen=True, slots=True)
class Card:
    """What a card says. Texts are Markdown of ours; what comes from data is in `groups` and `lineage`, and escaped."""

    title: str
    about: str
    groups: Mapping[Group, int]
    """Rows of each."""
    data_files: Mapping[str, str] = field(default_factory=dict)
    """Split → pattern of its files, for `datasets`; none: it isn't meant to read them."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column → what it holds."""
    lineage: Mapping[str, str] = field(default_factory=dict)
    """Asset → version that the rows come from."""
    front: Mapping[str, str] = field(default_factory=dict)
    """Further front matter, which a hub reads."""
    end: str = ""


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write a card (see `card_texts`) and what else stands beside rows, name → text, into a folder."""
    for name, text in texts.items():
        with whole_file(folder / name) as part:
            part.write_text(text, encoding="utf-8")


def card_texts(card: Card) -> dict[str, str]:
    """The files of a card, name → text. Equal cards give equal bytes."""
    shares = []
    for name in ("source", "objective", "platform", "licence"):
        counts: Counter[str] = Counter()
        for group, rows in card.groups.items():
            counts[getattr(group, name)] += rows
        listed = ", ".join(f"{markdown_text(value)} {rows}" for value, rows in sorted(counts.items()) if value)
        # Kinds of rows without the property (exports of tasks have no objective) get no line.
        shares += [f"| {name} | {listed} |\n"] if listed else []
    columns = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in card.columns.items())
    lineage = "".join(f"| `{asset}` | `{version}` |\n" for asset, version in card.lineage.items())
    parts = [
        f"{_front(card)}\n# {card.title}\n\n{card.about}\n",
        f"| of | rows |\n|---|---|\n{''.join(shares)}" if shares else "",
        f"| column | holds |\n|---|---|\n{columns}" if columns else "",
        f"## Made from\n\n| asset | version |\n|---|---|\n{lineage}" if lineage else "",
        f"Sources and licences: [{LICENCES}]({LICENCES}).\n",
        f"{card.end}\n" if card.end else "",
    ]
    return {CARD: "\n".join(part for part in parts if part), LICENCES: _licences(card.groups)}


def _front(card: Card) -> str:
    """Front matter in YAML: names of splits and patterns are ours, so nothing of it needs quoting."""
    files = "".join(f"  - split: {split}\n    path: {path}\n" for split, path in card.data_files.items())
    configs = f"configs:\n- config_name: default\n  data_files:\n{files}" if files else ""
    more = "".join(f"{name}: {value}\n" for name, value in card.front.items())
    # "other" with a link is what a hub asks for where there is no single licence.
    return f"---\n{configs}{more}license: other\nlicense_name: by-source\nlicense_link: {LICENCES}\n---\n"


def _licences(groups: Mapping[Group, int]) -> str:
    counts: Counter[tuple[str, str]] = Counter()
    for group, rows in groups.items():
        counts[group.source, group.licence] += rows
    rows_of = "".join(
        f"| {markdown_text(source)} | {markdown_text(licence)} | {rows} |\n"
        for (source, licence), rows in sorted(counts.items())
    )
    return (
        "# Sources and their licences\n\nEach row came under the licence of its source; texts and pictures stay under "
        f"it.\n\n| source | licence | rows |\n|---|---|---|\n{rows_of}"
    )


def write_shard_card(folder: Path, samples: pa.Table, splits: Sequence[str]) -> None:
    """The card of the shards in `folder/data`: `samples` are the packed ones (columns of `Samples`).

    Several splits packed together are read as one, named by the last."""
    columns = [samples[name].to_pylist() for name in Group._fields]
    card = Card(
        title="Training samples for GUI agents",
        about=f"{samples.num_rows} samples, packed by Vesper (`vesper shard`). Load them with their pictures by "
        f'`datasets.load_dataset("THIS FOLDER", split="{splits[-1]}")`.\n',
        groups=Counter(Group(*row) for row in zip(*columns, strict=True)),
        data_files={splits[-1]: f"{DATA}/*.parquet"},
        columns={name: MEANINGS[name] for name in SHARD.names},
        end="`index.parquet` says where each sample lies, `report.json` what was packed and what was left out.",
    )
    write_texts(folder, card_texts(card))
