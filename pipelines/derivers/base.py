"""What every deriver shares: its configuration, the screen it is given, and the candidate it returns."""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from operator import itemgetter

from pipelines.prompts.history import USUAL_HISTORY, HistoryConfig
from schemas.coordinates import rounded_centre
from schemas.ids import item_step, sample_id
from schemas.rows import StepRow

Box = tuple[float, float, float, float]
"""left, top, right, bottom in 0..1000."""
Episode = Sequence[StepRow]
"""Rows of `steps` of one episode, in order."""
TRIES = 64
"""Names of the pool that are tried for one that a screen lacks."""


@dataclass(frozen=True, slots=True)
class DeriveConfig:
    """Caps and shares. Enters `config_hash` of the stage that derives; defaults suit the nano preset."""

    seed: int = 0
    grounding_per_screen: int = 6
    perception_per_screen: int = 4
    lists_per_screen: int = 1
    vqa_per_screen: int = 5
    captions_per_screen: int = 2
    regions_per_screen: int = 1
    transitions_per_episode: int = 2
    apps_per_episode: int = 1
    plan_max_chars: int = 400
    """A longer list of steps is left out: no answer is cut."""
    refusal_share: float = 0.12
    """Of the element grounding samples, how many ask for what is not there."""
    refusal_min_elements: int = 4
    """Fewer known elements than this say too little about what is *not* on the screen."""
    list_max_elements: int = 12
    label_max_chars: int = 60
    min_side: float = 4.0
    """Units of 0..1000; a smaller box is a line or a dot, nothing to point at."""
    max_area: float = 0.5
    """Share of the screen; a larger box is a container, and its name no single place."""
    history: HistoryConfig = USUAL_HISTORY
    """How navigation prompts show the steps before."""
    derivers: tuple[str, ...] = ()
    """Derivers of others beside those of Vesper, by import path or file (see `docs/add-a-deriver.md`)."""

    def __post_init__(self) -> None:
        if not 0 <= self.refusal_share < 1:
            raise ValueError(f"DeriveConfig.refusal_share: expected 0 <= share < 1, found {self.refusal_share}")
        if self.label_max_chars < 1 or self.list_max_elements < 1:
            raise ValueError("DeriveConfig: label_max_chars and list_max_elements must be at least 1")


def unit_hash(seed: int, *parts: object) -> float:
    """A number in [0, 1) that depends on the seed and the parts only: the one source of choice in derivers."""
    # A separator that no part holds, so that ("a", "bc") and ("ab", "c") differ.
    key = "\x1f".join(map(str, (seed, *parts)))
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "backslashreplace"), digest_size=8).digest()) / 2**64


CONTAINERS = frozenset({"view", "viewgroup", "linearlayout", "framelayout", "relativelayout", "constraintlayout"})
ROLE_WORDS = dict(
    pair.split("=")
    for pair in str.split(
        "textview=text, imageview=image, imagebutton=image button, edittext=text field, seekbar=slider, "
        "textbox=text field, checkedtextview=checkbox, compoundbutton=switch, radiobutton=radio button, "
        "togglebutton=switch, progressbar=progress bar, listitem=list item, combobox=drop-down, img=image, "
        "menuitem=menu item",
        ", ",
    )
)


@lru_cache(maxsize=4096)
def role_word(role: str | None) -> str:
    """`TEXT_INPUT` → "text input", `android.widget.TextView` → "text"; a bare layout container has no role to name."""
    # Android's class names have their packages before the last point.
    word = squash(role).rpartition(".")[2].replace("_", " ").lower()
    return "" if word in CONTAINERS else ROLE_WORDS.get(word, word)


def squash(text: str | None) -> str:
    """Text on one line, blanks squeezed; None is empty."""
    return " ".join((text or "").split())


@dataclass(frozen=True, slots=True)
class IndexedElement:
    """An element as the derivers see it. `index` is its place in the source's list (a stable k)."""

    index: int
    box: Box
    role: str
    name: str
    """What it is called: the accessible name, else its text."""
    label: str
    """What can be read or seen: its text, else the accessible name."""
    texted: bool = True
    """Whether the source knows of a text that is drawn."""

    @property
    def area(self) -> float:
        """Square units (the whole screen is 10**6)."""
        return (self.box[2] - self.box[0]) * (self.box[3] - self.box[1])

    @property
    def centre(self) -> tuple[int, int]:
        """Centre, rounded half up, 0..1000."""
        return rounded_centre(self.box)

    def contains(self, x: float, y: float) -> bool:
        """Whether the point lies in the box, borders included."""
        return self.box[0] <= x <= self.box[2] and self.box[1] <= y <= self.box[3]

    def encloses(self, other: "IndexedElement") -> bool:
        """Whether the other box lies wholly in this one (equal boxes enclose each other)."""
        a, b = self.box, other.box
        return a[0] <= b[0] and a[1] <= b[1] and a[2] >= b[2] and a[3] >= b[3]


@dataclass(frozen=True)
class ScreenView:
    """One picture with its elements, and what the steps or samples that show it say of split and platform."""

    sha256: str
    width_px: int
    height_px: int
    source: str
    split: str
    platform: str
    key: tuple[str, int]
    """(episode_id, step_index) of the first step that shows it, or (`sample/<id>`, 0) of the first native sample.
    Not the picture's hash: a source's parts are derived one by one, and two of them may show the same picture."""
    parents: tuple[str, ...]
    elements: tuple[IndexedElement, ...]

    @cached_property
    def all_labels(self) -> tuple[str, ...]:
        """Every name and text on the screen, casefolded: what must not be called absent."""
        # Both, as a source may know a name that isn't drawn.
        return tuple({text.casefold() for e in self.elements for text in (e.name, e.label) if text})

    def innermost(self, x: float, y: float) -> IndexedElement | None:
        """The smallest element that holds the point; None if no element does or two of equal size compete."""
        smallest: IndexedElement | None = None
        competes = False
        for element in self.elements:
            left, top, right, bottom = element.box
            if not (left <= x <= right and top <= y <= bottom):
                continue
            # The smallest so far; one of the same size leaves nobody to prefer.
            if smallest is None or element.area < smallest.area:
                smallest, competes = element, False
            else:
                competes |= element.area == smallest.area
        return None if competes else smallest

    def uniquely_named(self, config: DeriveConfig) -> list[IndexedElement]:
        """Elements whose name means one place: no other element has it, or only ones that enclose it.

        A link inside a list item of the same name is one thing for a user, so the innermost of such a chain stands
        for all; two separate elements of the same name are ambiguous and none of them is returned.
        """
        return [element for element in self._named_once if is_target(element, config)]

    @cached_property
    def _named_once(self) -> list[IndexedElement]:
        """The innermost elements of all names that mean one place; every deriver asks for them."""
        groups: dict[str, list[IndexedElement]] = {}
        for element in self.elements:
            if element.name:
                groups.setdefault(element.name.casefold(), []).append(element)
        chosen = []
        for group in groups.values():
            # By place among equal sizes, so that the same one stands for all.
            group.sort(key=lambda e: (e.area, e.index))
            # Each in the next: a chain of boxes around one thing.
            if all(outer.encloses(inner) for inner, outer in pairwise(group)):
                chosen.append(group[0])
        return sorted(chosen, key=lambda e: e.index)


def is_target(element: IndexedElement, config: DeriveConfig) -> bool:
    """Whether an element is one to point at: a box of some size, no container, a name that fits a prompt."""
    left, top, right, bottom = element.box
    return (
        min(right - left, bottom - top) >= config.min_side
        # Tiny boxes can't be hit, and one of nearly the whole screen is its background.
        and element.area <= config.max_area * 1e6
        and 0 < len(element.name) <= config.label_max_chars
    )


@dataclass(frozen=True, slots=True)
class ScreenFacts:
    """What derivers of steps know of the pictures: sha256 → (width, height) px, and → perceptual hash."""

    sizes: Mapping[str, tuple[int, int]]
    phashes: Mapping[str, int]
    config: DeriveConfig


@dataclass(frozen=True, slots=True)
class DerivedSample:
    """A sample before it is counted and written. Pixels and licence are added by the driver."""

    source: str
    episode_id: str
    step_index: int
    deriver: str
    version: int
    k: int
    split: str
    platform: str
    objective: str
    images: tuple[str, ...]
    sizes_px: tuple[tuple[int, int], ...]
    text: str
    answer: str
    parents: tuple[str, ...]
    target_boxes: tuple[Box, ...] = ()
    rules: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """See `schemas.ids.sample_id`."""
        return sample_id(self.source, self.episode_id, self.step_index, self.deriver, self.version, self.k)


@dataclass(frozen=True, slots=True)
class StepDeriver:
    """A deriver of the steps of an episode. As a decorator it makes one of a function."""

    derive: Callable[[Episode, ScreenFacts], Iterable[DerivedSample]]


@dataclass(frozen=True, slots=True)
class ScreenDeriver:
    """A deriver of a screen with its elements. As a decorator it makes one of a function.

    The pool holds names of other screens of the source, for questions about what a screen lacks."""

    derive: "Callable[[ScreenView, NamePool, DeriveConfig], Iterable[DerivedSample]]"


def screen_candidate(
    screen: ScreenView,
    objective: str,
    deriver: str,
    version: int,
    k: int,
    text: str,
    answer: str,
    boxes: Sequence[Box] = (),
    rules: Sequence[str] = (),
) -> DerivedSample:
    """A candidate of a screen, keyed by where the screen was shown first."""
    # By where it was shown first: the same picture is asked about once.
    return DerivedSample(
        screen.source,
        *screen.key,
        deriver,
        version,
        k,
        screen.split,
        screen.platform,
        objective,
        (screen.sha256,),
        ((screen.width_px, screen.height_px),),
        text,
        answer,
        screen.parents,
        tuple(boxes),
        tuple(rules),
    )


def step_candidate(
    row: StepRow,
    size_px: tuple[int, int],
    objective: str,
    deriver: str,
    version: int,
    text: str,
    answer: str,
    box: Sequence[float] | None = None,
) -> DerivedSample:
    """A candidate of a step that shows a picture of (width, height) px."""
    sha256 = row["screenshot_sha256"]
    assert sha256 is not None, "the size of a picture is known, so there is one"
    return DerivedSample(
        row["source"],
        row["episode_id"],
        row["step_index"],
        deriver,
        version,
        0,
        row["split"],
        row["platform"],
        objective,
        (sha256,),
        (size_px,),
        text,
        answer,
        (item_step(row["source"], row["episode_id"], row["step_index"]),),
        ((box[0], box[1], box[2], box[3]),) if box is not None else (),
    )


def pick(candidates: Iterable[DerivedSample], limit: int, seed: int) -> list[DerivedSample]:
    """At most `limit` candidates, those of the smallest hash: adding one candidate changes at most one choice."""
    listed = list(candidates)
    # Only then hashes are worth their time.
    if len(listed) > limit:
        named = [(unit_hash(seed, name), name, candidate) for candidate in listed for name in (candidate.id,)]
        listed = [candidate for _, _, candidate in sorted(named, key=itemgetter(0, 1))[:limit]]
    return listed


@dataclass
class NamePool:
    """Names seen on any screen of the source, on a ring of hashes.

    A draw goes to the next names clockwise from the hash of the asking screen, so a new name changes only the
    draws that land just before it, not all of them.
    """

    names: dict[str, str] = field(default_factory=dict)  # casefolded → as written (smallest spelling)

    def add(self, name: str) -> None:
        """Put a name on the ring."""
        key = name.casefold()
        # One spelling stands for all, and it doesn't depend on the order.
        self.names[key] = min(name, self.names.get(key, name))

    @cached_property
    def _ring(self) -> list[tuple[float, str]]:
        return sorted((unit_hash(0, key), name) for key, name in self.names.items())

    def absent(self, screen: ScreenView, draw: float) -> str | None:
        """The first name clockwise of `draw` that is part of no name or text on the screen; None if none is near."""
        if not self._ring:
            return None
        # A hash places names on a ring, so a further name changes few choices.
        start = bisect_left(self._ring, (draw, ""))
        for step in range(min(TRIES, len(self._ring))):
            name = self._ring[(start + step) % len(self._ring)][1]
            # Also within a longer name: whoever looks for it would find that.
            if not any(name.casefold() in label for label in screen.all_labels):
                return name
        return None
