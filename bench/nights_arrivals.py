"""What arrives each night: native files of two sources, a revision of a third on a hub, answers of people.

Native files are those of the embedded generator at its smallest size, one seed a shard. They are rendered once
(`make_shards`) and put into place night by night.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.store import Store

BY_HAND = {
    "aitw": ("general/general-00000-of-00001", "general/general-{seed:05d}-of-{count:05d}", "splits/standard.json"),
    "android_control": ("android_control-00000-of-00001", "android_control-{seed:05d}-of-{count:05d}", "splits.json"),
}
"""Source → its shard as the generator names it, as it is named here, and its split list (of all shards from the first
night on: a list that changes would change every shard's episodes)."""
ON_HUB, REPOSITORY = "mind2web", "osunlp/Mind2Web"
HUB_FILE = "data/train/train_{seed}.json"
PEOPLE = ("anna", "bert")


def make_shards(folder: Path, count: int) -> None:
    """Render `count` shards of each source into `folder/<source>-<seed>`; those that are there are left alone."""
    from generators.proving.embedded.build import make
    from generators.proving.embedded.defects import DefectRates
    from generators.proving.embedded.makers import RawConfig

    for seed in range(count):
        for source in (*BY_HAND, ON_HUB):
            target = folder / f"{source}-{seed}"
            if target.is_dir():
                continue
            making = folder / f".making-{source}-{seed}-{os.getpid()}"
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir(parents=True)
            make(making, RawConfig(source, "tiny", seed, DefectRates()))
            making.rename(target)


class Arrivals:
    """Shards of `shards` put into the raw root `incoming`, and onto a hub (`tests/support/hub.py`)."""

    def __init__(self, shards: Path, incoming: Path, hub: Any, count: int) -> None:
        self.shards, self.incoming, self.hub, self.count = shards, incoming, hub, count
        self.seeds: list[int] = []

    def arrive(self, seeds: Sequence[int]) -> str:
        """Put more shards into place, each file whole at once; returns the hub's new commit."""
        for source, (native, named, splits) in BY_HAND.items():
            root = self.incoming / source
            if not self.seeds:
                _put(root / splits, json.dumps(self._splits(source, splits)).encode())
            for seed in seeds:
                data = (self.shards / f"{source}-{seed}" / native).read_bytes()
                _put(root / named.format(seed=seed, count=self.count), data)
        self.seeds += seeds
        return str(
            self.hub.commit(
                REPOSITORY,
                {
                    HUB_FILE.format(seed=seed): (
                        self.shards / f"{ON_HUB}-{seed}" / HUB_FILE.format(seed=0)
                    ).read_bytes()
                    for seed in self.seeds
                },
            )
        )

    def _splits(self, source: str, name: str) -> dict[str, list[Any]]:
        """The split lists of all shards, joined."""
        whole: dict[str, list[Any]] = {}
        for seed in range(self.count):
            for split, ids in json.loads((self.shards / f"{source}-{seed}" / name).read_bytes()).items():
                whole.setdefault(split, []).extend(ids)
        return whole


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    making = path.with_name(f".{path.name}.making")
    making.write_bytes(data)
    making.rename(path)


def answer(store: Store, count: int) -> int:
    """Two people answer `count` items of the review queue each, as `vesper review serve` takes and keeps answers;
    returns how many answers that were."""
    from quality.review.queue import open_queue
    from quality.review.verdict_store import HumanVerdict, VerdictStore, answers_path

    queue = open_queue(store, elements=True)
    shown = {item_id: queue.trajectories[item_id].digest for item_id in queue.rows}
    answers = VerdictStore(answers_path(store.home))
    try:
        made = 0
        for person in PEOPLE:
            answers.join(person)
            for item_id in answers.upcoming(person, shown, len(PEOPLE), count):
                said = "keep" if (queue.rows[item_id]["score"] or 0) >= 7 else "rewrite"
                answers.add(
                    HumanVerdict(
                        item_id,
                        person,
                        "annotator",
                        said,
                        seconds=3.0,
                        content=shown[item_id],
                        request=f"{person}:{answers.count() + 1:08d}",
                    )
                )
                made += 1
        return made
    finally:
        answers.close()
