"""Planted visual triggers: the same small faint patch on many screens of a source, where no UI would put it.

A backdoor (VisualTrap, BadNets) needs its pattern on many training screens, and nothing else there. So: patches of all
screens (`quality.safety.trigger_patches`) are grouped by appearance, and a group of enough screens is a trigger unless
it is drawn by the UI. What a UI draws stands in columns and rows, several times on a screen, and is listed as an
element.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from quality.safety.trigger_patches import Patch, roughness

Box = tuple[float, float, float, float]

TEXTURED = 2.5
"""Levels of standard deviation inside a patch from which its pattern can be recognised; below it is a plain tint."""
ALIKE = 0.6
"""Normalised cross-correlation from which two textured patches show one pattern (JPEG takes 0.1 to 0.3 off)."""
SHIFT = 4
"""Pixels by which the boxes of two equal patches may be off (JPEG blurs the rim of a patch over its blocks)."""
TINT, TINT_PASTED = 5.0, 60.0
"""Levels by which the tints of two plain patches may differ in any channel; where the same screens are there without
them the ground may be another one."""
MIN_SUPPORT = 3
MIN_SHARE = 0.005
"""A trigger stands on at least this many screens, and this share of them."""
MAX_PER_SCREEN = 1.5
LISTED = 0.5
"""Share of a group's patches from which it is taken for elements that the source itself lists."""
AIMED = 0.5
"""Mean share of a screen's labels from which labels are said to follow the patch."""
FREE, FREE_FROM = 0.75, 8
"""`wander` from which nothing but chance put the patches where they are, and the screens that it takes to say so."""
PASTED = 0.5
"""Share of patches that the same screen is there without, from which any number of screens is enough for that."""
SCATTERED = 0.25
"""The same where texture or labels speak against the UI as well."""
NOISY, NOISY_AREA, NOISY_FROM, PURE = 1.2, 200, 5, 1.6
"""`rough` from which a pattern is no drawing; the pixels and the screens that it takes to say so where no labels point
at it (small letters are rough), and `rough` from which any number of screens is enough."""
LEADERS = 3000
"""Patterns of one size that are held against one another; photographs make more, which can't recur anyway."""


@dataclass(frozen=True, slots=True)
class ScreenPatch:
    """A patch on a screen: which screen, its size (width, height) in px, whether an element is listed there (None: none
    are listed on the screen), and the share of the screen's labels that aim at the patch (None: no label)."""

    screen: str
    frame: tuple[int, int]
    patch: Patch
    listed: bool | None = None
    aimed: float | None = None


@dataclass(frozen=True)
class PatchGroup:
    """Patches of one appearance."""

    members: list[ScreenPatch] = field(repr=False)

    @property
    def screens(self) -> int:
        return len({seen.screen for seen in self.members})


def group_patches(seen: Sequence[ScreenPatch]) -> list[PatchGroup]:
    """Patches → groups of one appearance, the largest first. A pure function of the set of patches."""
    ordered = sorted(seen, key=lambda s: (-s.patch.quiet, s.patch.size, s.screen, s.patch.box))
    textured = [s for s in ordered if s.patch.texture >= TEXTURED]
    plain = [s for s in ordered if s.patch.texture < TEXTURED]
    groups = [PatchGroup(members) for members in (*_by_pattern(textured), *_by_tint(plain))]
    groups.sort(key=lambda group: (-group.screens, group.members[0].screen, group.members[0].patch.box))
    return groups


def _by_pattern(seen: Sequence[ScreenPatch]) -> list[list[ScreenPatch]]:
    """Leader clustering: the first patch of a pattern stands for it."""
    by_size: dict[tuple[int, int], list[ScreenPatch]] = defaultdict(list)
    for one in seen:
        by_size[one.patch.size].append(one)
    leaders: dict[tuple[int, int], list[tuple[np.ndarray, list[ScreenPatch]]]] = defaultdict(list)
    # Most frequent sizes lead: patches whose box came out a pixel off then join them.
    for size in sorted(by_size, key=lambda s: (-len(by_size[s]), s)):
        members = by_size[size]
        stack = _normalised(np.stack([one.patch.look for one in members]))
        pasted = np.array([one.patch.pasted for one in members])
        free = np.ones(len(members), bool)
        for other, listed in leaders.items():
            if max(abs(other[0] - size[0]), abs(other[1] - size[1])) <= SHIFT:
                for template, group in listed:
                    hit = np.flatnonzero(free)
                    if not len(hit):
                        break
                    hit = hit[_correlations(template, stack[hit], pasted[hit]) >= ALIKE]
                    group += [members[n] for n in hit]
                    free[hit] = False
        for place in range(len(members)):
            if free[place] and len(leaders[size]) < LEADERS:
                hit = np.flatnonzero(free)
                hit = hit[_correlations(members[place].patch.look, stack[hit], pasted[hit]) >= ALIKE]
                free[hit] = False
                leaders[size].append((members[place].patch.look, [members[n] for n in hit]))
    return [group for listed in leaders.values() for _, group in listed if group]


def _normalised(stack: np.ndarray) -> np.ndarray:
    """[n, h, w] less their means, with norm 1."""
    stack = stack - stack.mean(axis=(1, 2), keepdims=True)
    norms = np.sqrt((stack * stack).sum(axis=(1, 2), keepdims=True))
    return np.asarray(stack / np.maximum(norms, 1e-6), np.float32)


def _correlations(template: np.ndarray, stack: np.ndarray, pasted: np.ndarray) -> np.ndarray:
    """Highest correlation of a template with each of [n, h, w] (normalised) over shifts of ±`SHIFT`, [n]; of those that
    were `pasted` in either sign, for it depends on the ground."""
    height, width = stack.shape[1:]
    grown = np.zeros((height + 4 * SHIFT + 2, width + 4 * SHIFT + 2), np.float32)
    top, left = (grown.shape[0] - template.shape[0]) // 2, (grown.shape[1] - template.shape[1]) // 2
    grown[top : top + template.shape[0], left : left + template.shape[1]] = template
    reach = range(-SHIFT, SHIFT + 1)
    y0, x0 = (grown.shape[0] - height) // 2, (grown.shape[1] - width) // 2
    shifted = np.stack([grown[y0 + dy : y0 + dy + height, x0 + dx : x0 + dx + width] for dy in reach for dx in reach])
    found = stack.reshape(len(stack), -1) @ _normalised(shifted).reshape(len(shifted), -1).T
    return np.asarray(np.where(pasted, np.abs(found).max(axis=1), found.max(axis=1)))


def _by_tint(seen: Sequence[ScreenPatch]) -> list[list[ScreenPatch]]:
    """Plain patches of one size (±1 px, ±2 px where they are the difference of two pictures) and tint."""
    groups: list[list[ScreenPatch]] = []
    leaders: dict[tuple[int, int], list[tuple[np.ndarray, list[ScreenPatch]]]] = defaultdict(list)
    for one in seen:
        height, width = one.patch.size
        tint = np.array(one.patch.tint)
        off = (0, -1, 1, -2, 2) if one.patch.pasted else (0, -1, 1)
        near = [
            (float(np.abs(known - tint).max()), number, group)
            for dy in off
            for dx in off
            for number, (known, group) in enumerate(leaders.get((height + dy, width + dx), ()))
        ]
        best = min(near, key=lambda found: found[0], default=None)
        if best is not None and best[0] <= (TINT_PASTED if one.patch.pasted and best[2][0].patch.pasted else TINT):
            best[2].append(one)
        else:
            group = [one]
            leaders[height, width].append((tint, group))
            groups.append(group)
    return groups


@dataclass(frozen=True, slots=True)
class Traits:
    """What tells a trigger from a piece of UI. `screens`: distinct; `per_screen`: patches a screen; `wander`: distinct
    columns and rows, the fewer of the two, over what chance would give (about 1 for chance, near 0 for a column);
    `listed`: share that an element is listed for (None: no elements known); `aimed`: mean share of labels aiming at it
    (None: no labels); `rough`: mean size of second differences over the standard deviation (noise: about 2; what is
    drawn: below 1). `area`: pixels of a patch. `pasted`: share whose screen is there without them, too."""

    screens: int
    per_screen: float
    wander: float
    listed: float | None
    aimed: float | None
    rough: float
    area: int
    pasted: float = 0.0


def traits(group: PatchGroup) -> Traits:
    """Measure a group."""
    members = group.members
    known = [seen.listed for seen in members if seen.listed is not None]
    aims = [seen.aimed for seen in members if seen.aimed is not None]
    return Traits(
        group.screens,
        len(members) / group.screens,
        _wander(members),
        sum(known) / len(known) if known else None,
        sum(aims) / len(aims) if aims else None,
        float(np.median([roughness(seen.patch.grey) for seen in members[:50]])),
        int(np.median([seen.patch.grey.size for seen in members])),
        sum(seen.patch.pasted for seen in members) / len(members),
    )


def _wander(members: Sequence[ScreenPatch], bin_px: int = 3) -> float:
    """Distinct positions along x and y over what a uniform place would give; the lower of the two."""
    shares = []
    for axis in (0, 1):
        centres = [(seen.patch.box[axis] + seen.patch.box[axis + 2]) / 2 for seen in members]
        bins = max(max(seen.frame[axis] for seen in members) // bin_px, 1)
        expected = bins * -math.expm1(len(members) * math.log1p(-1 / bins)) if bins > 1 else 1.0
        shares.append(len({int(centre // bin_px) for centre in centres}) / expected)
    return min(shares)


def needed(screens: int) -> int:
    """Screens that a trigger stands on at least, in a source of so many."""
    return max(MIN_SUPPORT, math.ceil(MIN_SHARE * screens))


def suspicion(found: Traits, screens: int) -> str:
    """Why a group is a planted trigger, among so many screens of its source; empty if a UI may have drawn it."""
    if found.screens < needed(screens) or found.per_screen > MAX_PER_SCREEN:
        return ""
    if found.listed is not None and found.listed >= LISTED:
        return ""
    aimed = found.aimed is not None and found.aimed >= AIMED
    where = f"{found.screens} of {screens} screens"
    plain_noise = found.area >= NOISY_AREA and (found.screens >= NOISY_FROM or found.rough >= PURE)
    noisy = found.rough >= NOISY and (aimed or plain_noise)
    if noisy and found.wander >= SCATTERED:
        text = f"the same faint noise on {where}"
    elif found.wander >= FREE and (found.screens >= FREE_FROM or found.pasted >= PASTED):
        text = f"the same faint patch on {where}, at places that follow no layout"
    elif aimed and found.wander >= SCATTERED:
        text = f"the same faint patch on {where}"
    else:
        return ""
    return text + (", and labels point at it" if aimed else "")


def template(group: PatchGroup) -> Patch:
    """The patch that stands for a group: one of the most frequent size, its `grey` the mean over those on a like ground
    (JPEG's noise averages out)."""
    sizes = Counter(seen.patch.size for seen in group.members)
    size = min(sizes, key=lambda one: (-sizes[one], one))
    members = [seen.patch for seen in group.members if seen.patch.size == size]
    tints = np.array([patch.tint for patch in members])
    middle = int(np.abs(tints - np.median(tints, axis=0)).sum(axis=1).argmin())
    near = np.abs(tints - tints[middle]).max(axis=1) <= 2 * TINT
    grey = np.mean([patch.grey for patch, like in zip(members, near, strict=True) if like], axis=0)
    return replace(members[middle], grey=grey.astype(np.float32))
