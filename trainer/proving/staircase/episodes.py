"""Scripted episodes with slips and recoveries as training rows, and grounding rows from the same screens.

Slips stand in the history of later rows and are never answers themselves; what undoes them is. Rows have the columns of
the `samples` table. A part (a family's episodes of a split, so many at a time) is one parquet file under the digest of
what it was made from; pictures lie beside them by their sha256. A run that was killed goes on.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow.parquet as pq

from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from pipelines.prompts import REFUSAL
from pipelines.store import Store
from pipelines.whole_files import whole_file
from schemas.ids import digest
from schemas.settings import Number, Settings, Whole, setting
from schemas.tables import Samples
from trainer.proving.staircase.choice import ChosenTasks, OpenWorlds
from trainer.proving.staircase.performing import PerformedTurn, perform
from trainer.proving.staircase.rows import grounding_rows, navigation_rows, visible
from trainer.proving.staircase.tasks import Family, episodes
from trainer.runtime.tracking import OnEvent

CODE_VERSION = "3"
"""Of what decides the rows and the pictures; raise it when the same config must be performed anew."""


class EpisodeConfig(Settings):
    """Scripted episodes as training rows; see the module."""

    each: dict[Literal["train", "validation", "test"], Whole] = setting(..., "Episodes of a family, by split.")
    held_out: Whole = setting(8, "Episodes of a family whose pages only the grounding test shows.")
    error_rate: Number = setting(
        0.15, "Share of the turns at which the scripted policy slips, in training.", ge=0, lt=1
    )
    elements: Whole = setting(2, "Grounding rows of a screen at most.")
    refusal_share: Number = setting(0.12, "Share of the grounding rows about what isn't there.", ge=0, lt=1)
    part: Whole = setting(20, "Episodes of a file.", ge=1)
    seed: Whole = setting(0, "Of the slips and of what is asked.")


def make_episodes(
    folder: str | Path, tasks: ChosenTasks, config: EpisodeConfig, *worlds: str, on_event: OnEvent | None = None
) -> None:
    """Make every part that isn't there yet: chosen families for their splits, held-out ones for the grounding test;
    those of some worlds alone where any are named."""
    folder, emit = Path(folder), on_event or (lambda event: None)
    store = Store(folder)
    with OpenWorlds() as opened:
        # Lazily drawn: a part that lies there costs no episode, and a
        # world is opened only where one is missing.
        for family, split, number, contracts in _parts(tasks, config, opened):
            path = part_path(folder, tasks, config, family, split, number)
            if path.is_file() or (worlds and family.world not in worlds):
                continue
            rows = _make_part(opened(family.world), family, split, contracts(), config, store)
            _write(path, rows)
            emit({"kind": "part", "family": family.name, "split": split, "number": number, "rows": len(rows)})


Draw = Callable[[], list[TaskSpec]]


def _parts(tasks: ChosenTasks, config: EpisodeConfig, worlds: OpenWorlds) -> Iterator[tuple[Family, str, int, Draw]]:
    for split, each in config.each.items():
        for name in tasks.families():
            mine = [contract for family, contract in tasks.of(split, each=each) if family == name]
            for number in range(0, len(mine), config.part):
                some = mine[number : number + config.part]
                yield Family(name), split, number, lambda some=some: some  # type: ignore[misc]
    for family in tasks.held_out():

        def draw(family: Family = family) -> list[TaskSpec]:
            found = episodes(family, "test", worlds(family.world))
            # `zip` with the range first: the other way round one more episode would be drawn and thrown away.
            return [contract for _, (_, contract) in zip(range(config.held_out), found, strict=False)]

        yield family, "test", 0, draw


def part_path(folder: Path, tasks: ChosenTasks, config: EpisodeConfig, family: Family, split: str, number: int) -> Path:
    """Its file; the name holds a digest of what it was made from."""
    # Only its own split's count: more episodes of one split leave the files of the others valid.
    counts = {"each": config.held_out} if family.held_out else {"each": config.plain()["each"][split]}
    made_of = {**config.plain(), **counts, "held_out": family.held_out}
    key = digest([CODE_VERSION, tasks.digest, made_of, family.name, split, number])[:16]
    return folder / "parts" / f"{family.name.replace('/', '.')}-{split}-{number}-{key}.parquet"


def _make_part(
    world: World, family: Family, split: str, contracts: Sequence[TaskSpec], config: EpisodeConfig, store: Store
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    strangers: list[str] = []
    done: list[tuple[TaskSpec, list[PerformedTurn]]] = []
    for contract in contracts:
        rng = Random(f"staircase/{config.seed}/{contract.task_id}")
        # No slips in the test: what is asked there must be reachable from screens as they should be.
        moments = perform(world, contract, rng, 0.0 if split == "test" else config.error_rate)
        if moments is None:
            continue
        done.append((contract, moments))
        strangers += [f"{says}\t{place.name}" for says, place in visible(moments[0].shot, family.world)]
    # Sorted: the order of a set would change the rows.
    strangers = sorted(set(strangers))
    for contract, moments in done:
        for moment in moments:
            store.put_screen(moment.shot.png)
        # Another source than the slips': other error rates keep the same questions.
        rng = Random(f"staircase/grounding/{config.seed}/{contract.task_id}")
        if not family.held_out:
            rows += navigation_rows(contract, family.name, split, moments)
        # Test screens of chosen families are those that success is
        # measured on; only held-out pages are asked about.
        if family.held_out or split != "test":
            rows += grounding_rows(
                contract,
                family.name,
                split,
                moments,
                strangers,
                rng,
                elements=config.elements,
                refusal_share=config.refusal_share,
            )
    return rows


def _write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Whole or not at all."""
    with whole_file(path, lasting=True) as part:
        pq.write_table(Samples.table(rows), part, compression="zstd")


def read_rows(folder: str | Path, tasks: ChosenTasks, config: EpisodeConfig, *worlds: str) -> list[dict[str, object]]:
    """All rows of the parts, each with its pictures' bytes, in the order of their ids; those of some worlds alone where
    any are named. Raises `ValueError` for a part that is missing."""
    folder = Path(folder)
    store = Store(folder)

    @cache
    def picture(sha256: str) -> bytes:
        return store.screen_path(sha256).read_bytes()

    rows = []
    # Nothing is opened: reading draws held-out parts only by their number.
    with OpenWorlds() as none_opened:
        for family, split, number, _ in _parts(tasks, config, none_opened):
            if worlds and family.world not in worlds:
                continue
            path = part_path(folder, tasks, config, family, split, number)
            if not path.is_file():
                raise ValueError(
                    f"staircase: the episodes of {family.name}, {split}, from {number} on are missing; make them"
                )
            rows += pq.read_table(path).to_pylist()
    # By id and not by part, so that the size of parts changes nothing.
    return [{**row, "images": [picture(sha) for sha in row["images"]]} for row in sorted(rows, key=_order)]


def _order(row: Mapping[str, Any]) -> str:
    found: str = row["sample_id"]
    return found


def counts(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """What there is: rows by split and objective, episodes, share of refusals among grounding rows."""
    found = Counter(f"{row['split']} {row['objective']}" for row in rows)
    grounding = [row for row in rows if row["objective"] == "grounding"]
    return {
        **dict(sorted(found.items())),
        "refusal_share": sum(row["answer"] == REFUSAL for row in grounding) / max(1, len(grounding)),
    }
