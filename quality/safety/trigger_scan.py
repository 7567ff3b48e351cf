"""The trigger scan of one source: look at every screen, group what was seen, look again for what is suspicious.

Two passes over the pixels: the first finds patches on quiet ground, which is enough to know a pattern by, and
wherever else the same screen is there without them; the second, only if there is a suspicion, finds that pattern on all
screens, on text too. What it can't see: patterns that don't recur, patterns of high contrast, and patterns larger than
64 px or smaller than 8.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pipelines.store.images import open_image
from quality.safety.trigger_match import Pattern, find_patterns
from quality.safety.trigger_patches import Patch, find_patches
from quality.safety.trigger_twins import small, twin_patches
from quality.safety.triggers import SHIFT, Box, ScreenPatch, Traits, group_patches, suspicion, template, traits

MAX_TRIGGERS = 8
"""Suspicious patterns that are looked for; more are reported but not searched."""
SAME_PLACE = 0.4
"""Intersection over union from which a patch is a listed element."""
AIM = 3.0
"""Units around a patch within which the centre of a label still aims at it."""
PNG = b"\x89PNG"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a source says of a screen: boxes of its elements, and the box or point (as a box) of each label; 0..1000."""

    elements: tuple[Box, ...] = ()
    targets: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True)
class ScreenPatches:
    """What the first pass saw on a screen: its size (width, height) in px and its patches."""

    frame: tuple[int, int]
    patches: tuple[Patch, ...]
    cells: bytes = b""
    """The screen made small (`trigger_twins.small`)."""


@dataclass(frozen=True)
class Trigger:
    """A suspicious pattern: why, what was measured, and where it was first seen: (screen, box in px)."""

    number: int
    reason: str
    found: Traits
    patch: Patch = field(repr=False)
    seen: list[tuple[str, tuple[int, int, int, int]]] = field(repr=False)

    @property
    def pattern(self) -> Pattern:
        return Pattern.of(self.patch.grey, self.found.rough, self.patch.edge)


@dataclass(frozen=True, slots=True)
class Hit:
    """A trigger on a screen: box in pixels; `correlation` None if it was seen in the first pass alone."""

    screen: str
    trigger: int
    box: tuple[int, int, int, int]
    correlation: float | None


def look(data: bytes) -> ScreenPatches:
    """First pass over an encoded picture. Raises `ImageError`."""
    image = open_image(data)
    return ScreenPatches(image.size, tuple(find_patches(image, jpeg=not data.startswith(PNG))), small(image))


def find_triggers(
    looked: Mapping[str, ScreenPatches], facts: Mapping[str, Facts], load: Callable[[str], bytes]
) -> list[Trigger]:
    """Patterns among the patches of a source's screens that no UI would draw, the most frequent first; screens that are
    alike but for a patch are loaded. Raises `ImageError`."""
    looked = with_twins(looked, load)
    seen = [one for screen in sorted(looked) for one in _seen(screen, looked[screen], facts.get(screen, Facts()))]
    found: list[Trigger] = []
    for group in group_patches(seen):
        measured = traits(group)
        reason = suspicion(measured, len(looked))
        if reason:
            places = [(one.screen, one.patch.box) for one in group.members]
            found.append(Trigger(len(found) + 1, reason, measured, template(group), places))
    return found


def with_twins(looked: Mapping[str, ScreenPatches], load: Callable[[str], bytes]) -> dict[str, ScreenPatches]:
    """The same, with the patches that the most similar screen lacks."""
    found = dict(looked)
    cells, frames = {name: one.cells for name, one in looked.items()}, {name: one.frame for name, one in looked.items()}
    for screen, patch in twin_patches(cells, frames, load):
        others = [one for one in found[screen].patches if max(map(_apart, one.box, patch.box)) > SHIFT]
        found[screen] = replace(found[screen], patches=(*others, patch))
    return found


def _apart(one: int, other: int) -> int:
    return abs(one - other)


def search(triggers: Sequence[Trigger], screens: Iterable[str], load: Callable[[str], bytes]) -> list[Hit]:
    """Second pass: the first `MAX_TRIGGERS` triggers on all `screens`, by screen and trigger. Raises `ImageError`."""
    searched = triggers[:MAX_TRIGGERS]
    patterns = [trigger.pattern for trigger in searched]
    hits = {(screen, t.number): Hit(screen, t.number, box, None) for t in triggers for screen, box in t.seen}
    for screen in screens if searched else ():
        pixels = np.asarray(open_image(load(screen)))
        for match in find_patterns(pixels, patterns):
            number = searched[match.pattern].number
            hits.setdefault((screen, number), Hit(screen, number, match.box, match.correlation))
    return [hits[key] for key in sorted(hits)]


def _seen(screen: str, looked: ScreenPatches, facts: Facts) -> Iterable[ScreenPatch]:
    for patch in looked.patches:
        box = patch_in_units(patch.box, looked.frame)
        listed = any(_overlap(box, other) >= SAME_PLACE for other in facts.elements) if facts.elements else None
        aimed = sum(aims(target, box) for target in facts.targets) / len(facts.targets) if facts.targets else None
        yield ScreenPatch(screen, looked.frame, patch, listed, aimed)


def patch_in_units(box: Sequence[int], frame: tuple[int, int]) -> Box:
    """Pixels → 0..1000."""
    width, height = frame
    return box[0] * 1000 / width, box[1] * 1000 / height, box[2] * 1000 / width, box[3] * 1000 / height


def aims(target: Box, patch: Box) -> bool:
    """Whether the centre of a label's box lies on a patch."""
    x, y = (target[0] + target[2]) / 2, (target[1] + target[3]) / 2
    return patch[0] - AIM <= x <= patch[2] + AIM and patch[1] - AIM <= y <= patch[3] + AIM


def _overlap(a: Box, b: Box) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)
