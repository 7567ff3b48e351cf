"""Traces and grounding screens → rows as `vesper unify` writes them, with their truth."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from generators.proving.judge_bench.defects.grounding import MovedBox
from generators.proving.judge_bench.trace import GroundingScreen, Trace
from generators.tasks.world_interface import Observation
from pipelines.prompts import grounding_text, messages, point_answer
from pipelines.prompts.tokens import count_tokens
from pipelines.store.images import read_image
from quality.items.truth import Truth
from schemas.actions import format
from schemas.coordinates import centre_in_units
from schemas.ids import canonical_json, digest, item_episode, item_sample, item_step
from schemas.tables import Samples, Screens, Steps

SOURCE = "judge_bench"
LICENCE = "Apache-2.0"


@dataclass(frozen=True)
class Label:
    """Truth about one item, without its id (see `quality.items.truth.Truth`)."""

    label: str
    kind: str
    band: str
    confirmed_by: str
    held_out_by: str = ""
    magnitude: float | None = None
    original: dict[str, Any] = field(default_factory=dict)

    def row(self, item_id: str, family: str, world: str) -> dict[str, object]:
        return {
            "item_id": item_id,
            "label": self.label,
            "kind": self.kind,
            "band": self.band,
            "magnitude": self.magnitude,
            "family": family,
            "world": world,
            "held_out": bool(self.held_out_by),
            "held_out_by": self.held_out_by,
            "confirmed_by": self.confirmed_by,
            "original": canonical_json(self.original),
        }


class BenchTables:
    """Collects rows and pictures; `write` puts a bench folder together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[dict[str, Any]] = []
        self.samples: list[dict[str, Any]] = []
        self.truth: list[dict[str, Any]] = []
        self.episodes: list[dict[str, Any]] = []
        self._screens: dict[str, dict[str, Any]] = {}

    def screen(self, shot: Observation) -> str:
        """Keep a picture; returns its sha256."""
        # Screens repeat between traces; each is read and written once.
        if shot.sha256 in self._screens:
            return shot.sha256
        info = read_image(shot.png)
        path = self.folder / "screens" / info.sha256[:2] / f"{info.sha256}.{info.ext}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(shot.png)
        self._screens[info.sha256] = {
            "screenshot_sha256": info.sha256,
            "width_px": info.width_px,
            "height_px": info.height_px,
            "phash": info.phash,
            "elements": [element.as_element() for element in shot.elements],
            "source": SOURCE,
        }
        return info.sha256

    def episode(self, trace: Trace, step_words: bool, boxes: bool, sound: Trace | None = None) -> str:
        """Rows of a trace; returns its episode id, which says nothing of what it holds.

        `step_words`: whether the source writes a step's instruction; `boxes`: whether it writes target boxes. `sound`:
        the trace that it is a damaged copy of, for the file that no judge sees.
        """
        # The count of rows makes damaged copies of one trace distinct without naming the damage.
        name = digest([SOURCE, trace.uid, trace.goal, len(self.episodes)])[:20]
        for index, (move, shot) in enumerate(zip(trace.moves, trace.shots, strict=True)):
            action = format(move.action)
            self.steps.append(
                {
                    "source": SOURCE,
                    "episode_id": name,
                    "step_index": index,
                    "split": "train",
                    "platform": trace.platform,
                    "language": "en",
                    "app": trace.app or None,
                    "instruction": trace.goal,
                    "step_instruction": move.instruction if step_words else None,
                    "screenshot_sha256": self.screen(shot),
                    "width_px": trace.size_px[0],
                    "height_px": trace.size_px[1],
                    "action_type": type(move.action).__name__,
                    "action_text": action,
                    "target_box": list(move.box) if boxes and move.box else None,
                    "thought": move.thought or None,
                    "native_action": canonical_json({"action": action}),
                    "provenance": canonical_json({"file": "traces", "record": name, "native_index": index}),
                }
            )
        # A damaged copy is verified against its origin, so the origin's moves are what is noted as sound.
        base = sound or trace
        self.episodes.append(
            {
                "episode_id": name,
                "uid": trace.uid,
                "family": trace.family,
                "goal": base.goal,
                "start": base.start,
                "platform": base.platform,
                "evaluator": base.evaluator,
                "end_state": base.end_state,
                "failure": trace.failure,
                "sound": [
                    {
                        "action": format(move.action),
                        "key": move.key,
                        "box": move.box,
                        "screenshot": shot.sha256,
                        "thought": move.thought,
                    }
                    for move, shot in zip(base.moves, base.shots, strict=True)
                ],
            }
        )
        return name

    def label_episode(self, name: str, trace: Trace, label: Label) -> None:
        self.truth.append(label.row(item_episode(SOURCE, name), trace.family, trace.world))

    def label_step(self, name: str, step: int, trace: Trace, label: Label) -> None:
        self.truth.append(label.row(item_step(SOURCE, name, step), trace.family, trace.world))

    def grounding(self, screen: GroundingScreen, moved: Sequence[MovedBox], labels: Sequence[Label | None]) -> None:
        """One sample for each item of a screen, with moved boxes in the place of theirs; None = no label."""
        sha, record = self.screen(screen.shot), digest([SOURCE, screen.uid])[:20]
        boxes = {one.item: one.box for one in moved}
        for at, item in enumerate(screen.items):
            box = boxes.get(at, item.place.box)
            chat = messages("grounding", grounding_text(item.expression))
            answer = point_answer(*centre_in_units(box))
            # `at` and not the box: moved or not, a sample has the same id,
            # so an id doesn't tell who was moved.
            sample_id = digest([SOURCE, screen.uid, at])[:32]
            self.samples.append(
                {
                    "sample_id": sample_id,
                    "source": SOURCE,
                    "split": "train",
                    "platform": screen.platform,
                    "objective": "grounding",
                    "images": [sha],
                    "messages": chat,
                    "answer": answer,
                    "target_boxes": [list(box)],
                    "tokens": count_tokens(chat, answer, [screen.size_px]),
                    "licence": LICENCE,
                    "parents": [],
                    "synthetic": True,
                    "provenance": canonical_json({"file": "screens", "record": record, "native_index": at}),
                }
            )
            label = labels[at]
            if label is not None:
                self.truth.append(label.row(item_sample(sample_id), screen.family, screen.world))

    def write(self) -> None:
        """Tables, truth and what is needed to perform the traces again (`episodes.jsonl`)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # Sorted by ids that are digests, so the order of the rows doesn't tell which were planted.
        steps = sorted(self.steps, key=lambda row: (row["episode_id"], row["step_index"]))
        pq.write_table(Steps.table(steps), self.folder / "steps.parquet")
        pq.write_table(Samples.table(self.samples), self.folder / "samples.parquet")
        screens = [self._screens[sha] for sha in sorted(self._screens)]
        pq.write_table(Screens.table(screens), self.folder / "screens.parquet")
        pq.write_table(Truth.table(self.truth), self.folder / "truth.parquet")
        lines = [canonical_json(episode) for episode in self.episodes]
        (self.folder / "episodes.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
