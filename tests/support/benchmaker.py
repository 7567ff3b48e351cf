"""A judge bench made by hand, of which every figure can be worked out beside the number, and a judge that says what a
table holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from quality.evidence.episode import Habits
from quality.items.item import Item, Sample
from quality.items.truth import BAND_OF, Truth
from quality.judges.judge import Verdict
from quality.model_client.questions import VerdictCost
from schemas.actions import Click, Finished
from schemas.tables import Samples, Screens, Steps


class TableJudge:
    """Says what a table holds: item id → alignment (steps), score (samples) or reachability (episodes)."""

    name, model, rubric_version = "table", "none", "1"

    def __init__(self, said: Callable[[str], int | None], cost: VerdictCost | None = None) -> None:
        self.said, self.cost = said, cost
        self.asked: list[Item] = []

    def verdict(self, item_id: str, alignment: int | None, reachability: int | None) -> Verdict:
        return Verdict(item_id, alignment, reachability, "", 1.0, self.name, self.model, "1", cost=self.cost)

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        self.asked += items
        made = []
        for item in items:
            if isinstance(item, Sample):
                made.append(self.verdict(item.item_id, self.said(item.item_id), None))
                continue
            reach = self.said(item.item_id)
            made.append(self.verdict(item.item_id, None, reach))
            made += [self.verdict(step.item_id, self.said(step.item_id), reach) for step in item.actions]
        return made


class Maker:
    """A bench folder from rows: what stands in it, and what a judge is to say about it."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.steps: list[dict[str, Any]] = []
        self.samples: list[dict[str, Any]] = []
        self.truth: list[dict[str, Any]] = []
        self.said: dict[str, Any] = {}
        self.pages = [world.page([((20, 100, 160, 150), "Settings")], note=f"page {n}") for n in range(3)]

    def episode(self, name: str, reach: int | None, *alignments: int | None) -> None:
        for index, alignment in enumerate(alignments):
            action = Click((250, 190)) if index == 0 else Finished()
            self.steps.append(self.world.row(index, action, self.pages[index], episode_id=name))
            self.said[f"step:made/{name}/{index}"] = alignment
        self.said[f"episode:made/{name}"] = reach

    def sample(self, k: int, score: int | None) -> str:
        self.samples.append(self.world.grounding(f"thing {k}", self.pages[k % 3], (20, 100 + k, 160, 150 + k), k))
        self.said[f"sample:{k:032x}"] = score
        return f"sample:{k:032x}"

    def label(self, item_id: str, label: str, kind: str = "", family: str = "f", by: str = "", band: str = "") -> None:
        self.truth.append(
            {
                "item_id": item_id,
                "label": label,
                "kind": kind,
                "family": family,
                "world": "own",
                "magnitude": None,
                "band": band or BAND_OF.get(kind, "reconstruct" if label == "natural" else "keep"),
                "held_out": bool(by),
                "held_out_by": by,
                "confirmed_by": "exact",
                "original": "{}",
            }
        )

    def write(self, folder: Path) -> Path:
        for sha, data in self.world.data.items():
            path = folder / "screens" / sha[:2] / f"{sha}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        pq.write_table(Steps.table(self.steps), folder / "steps.parquet")
        pq.write_table(Samples.table(self.samples), folder / "samples.parquet")
        pq.write_table(Screens.table(self.world.rows.values()), folder / "screens.parquet")
        pq.write_table(Truth.table(self.truth), folder / "truth.parquet")
        return folder


def golden(world: Any) -> Maker:
    """Ten seen sound episodes; five held-out ones with odd steps; defects of every unit, all held out."""
    made = Maker(world)
    for number in range(10):  # seen: one step of 20 looks bad (3), so does its episode
        made.episode(f"s{number}", 8, 9, 3 if number == 0 else 9)
        made.label(f"episode:made/s{number}", "clean", family=f"seen{number % 3}")
        for index in range(2):
            made.label(f"step:made/s{number}/{index}", "clean", family=f"seen{number % 3}")
    for number in range(5):  # held out: the second steps of the first four are waits, one of them looks bad (5)
        made.episode(f"h{number}", 8, 9, 5 if number == 0 else 9)
        made.label(f"episode:made/h{number}", "clean", family=f"new{number % 2}", by="family")
        made.label(f"step:made/h{number}/0", "clean", family=f"new{number % 2}", by="family")
        odd = ("hard", "wait") if number < 4 else ("clean", "")
        made.label(f"step:made/h{number}/1", *odd, family=f"new{number % 2}", by="family")
    for number, (said, by) in enumerate(zip((2, 9, 5, 1), ("family", "family", "operator", "magnitude"))):
        made.episode(f"p{number}", 8, 9, said)
        made.label(f"step:made/p{number}/1", "planted", "wrong_element", f"new{number % 2}", by)
    made.episode("b0", 8, 9, 0)
    made.label("step:made/b0/1", "planted", "shifted_box", "new0", "family")
    for name, kind, reach, step in (
        ("q0", "other_task", 2, 9),
        ("q1", "other_task", 9, 9),
        ("q2", "near_miss", None, None),
        ("n0", "gave_up", 1, 9),
    ):
        made.episode(name, reach, step, step)
        label = "natural" if kind == "gave_up" else "planted"
        made.label(f"episode:made/{name}", label, kind, f"new{int(name[1]) % 2}", "family")
    for k, said in enumerate((10, 10, 10, 10)):
        made.label(made.sample(k, said), "clean", family="seen0")
    for k, said in enumerate((10, 8), 4):
        made.label(made.sample(k, said), "clean", family=f"new{k % 2}", by="family")
    for k, said in enumerate((4, 10), 6):
        made.label(made.sample(k, said), "planted", "shifted_box", f"new{k % 2}", "family")
    return made
