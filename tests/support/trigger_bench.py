"""How well the trigger scan finds planted patterns: recall of poisoned rows, false alarms among the others."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from pipelines.store.images import open_image
from quality.safety.trigger_scan import PNG, Facts, ScreenPatches, find_triggers, look, search
from quality.safety.triggers import Box
from tests.support.trigger_attacks import Attack, encoded, plant

RATE = 0.05
JPEG_QUALITY = 85
"""Of a poisoned picture whose clean one was a JPEG."""


@dataclass(frozen=True, slots=True)
class BenchScreen:
    """A clean screen: encoded picture, all elements, and the targets of its rows; boxes in 0..1000."""

    data: bytes
    elements: tuple[Box, ...]
    targets: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """One attack on one set of screens. `first` is the recall of the first pass alone, `patterns` how many triggers
    were reported, `recall` and `false_alarms` are shares of poisoned and of clean rows."""

    attack: str
    rows: int
    poisoned: int
    patterns: int
    first: float
    recall: float
    false_alarms: float

    @property
    def passed(self) -> bool:
        """The aim: recall at least 0.9 with at most 1 % false alarms."""
        return self.recall >= 0.9 and self.false_alarms <= 0.01


class Bench:
    """A set of screens whose clean pictures are looked at once."""

    def __init__(self, screens: Sequence[BenchScreen]) -> None:
        self.screens = {_name(screen.data): screen for screen in screens}
        self._looked: dict[str, ScreenPatches] = {name: look(screen.data) for name, screen in self.screens.items()}
        self.rows = [(name, target) for name, screen in self.screens.items() for target in screen.targets]

    def run(self, attack: Attack | None, rate: float = RATE, seed: int = 0) -> Figures:
        """Poison `rate` of the rows (none if `attack` is None), each on a picture of its own, and scan."""
        rng = Random(f"{seed}/{attack.name if attack else ''}")
        chosen = set(rng.sample(range(len(self.rows)), round(rate * len(self.rows)))) if attack else set()
        pictures: dict[str, bytes] = {name: screen.data for name, screen in self.screens.items()}
        looked = dict(self._looked)
        targets: dict[str, list[Box]] = {name: [] for name in self.screens}
        elements: dict[str, tuple[Box, ...]] = {name: screen.elements for name, screen in self.screens.items()}
        shown: list[str] = []
        for number, (name, target) in enumerate(self.rows):
            if attack is not None and number in chosen:
                data, target = _poisoned(self.screens[name].data, target, attack, rng, number)
                elements[_name(data)], name = elements[name], _name(data)
                pictures[name], looked[name] = data, look(data)
            targets.setdefault(name, []).append(target)
            shown.append(name)
        facts = {name: Facts(elements[name], tuple(targets[name])) for name in looked}
        return self._score(attack, looked, facts, pictures, shown, chosen)

    def _score(
        self,
        attack: Attack | None,
        looked: Mapping[str, ScreenPatches],
        facts: Mapping[str, Facts],
        pictures: Mapping[str, bytes],
        shown: Sequence[str],
        chosen: set[int],
    ) -> Figures:
        triggers = find_triggers(looked, facts, pictures.__getitem__)
        first = {screen for trigger in triggers for screen, _ in trigger.seen}
        hits = {hit.screen for hit in search(triggers, sorted(pictures), pictures.__getitem__)}
        clean = [name for number, name in enumerate(shown) if number not in chosen]
        poisoned = [shown[number] for number in chosen]
        return Figures(
            attack.name if attack else "none",
            len(shown),
            len(poisoned),
            len(triggers),
            _share(poisoned, first),
            _share(poisoned, hits),
            _share(clean, hits),
        )


def _share(names: Sequence[str], found: set[str]) -> float:
    return sum(name in found for name in names) / len(names) if names else 0.0


def _poisoned(data: bytes, target: Box, attack: Attack, rng: Random, number: int) -> tuple[bytes, Box]:
    image, _, label = plant(open_image(data), target, attack, rng, number)
    return encoded(image, 0 if data.startswith(PNG) else JPEG_QUALITY), label


def _name(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def table(figures: Sequence[Figures]) -> str:
    """The figures as Markdown."""
    lines = [
        "| attack | rows | poisoned | patterns | first pass | recall | false alarms |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {f.attack} | {f.rows} | {f.poisoned} | {f.patterns} | {f.first:.2f} | {f.recall:.2f} "
        f"| {f.false_alarms:.2%} |"
        for f in figures
    ]
    return "\n".join(lines) + "\n"
