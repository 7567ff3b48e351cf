"""GUI-VQA by rule: questions on function and layout whose answer follows from the elements with certainty."""

from collections.abc import Iterator
from itertools import pairwise

from pipelines.derivers.base import (
    DeriveConfig,
    DerivedSample,
    IndexedElement,
    NamePool,
    ScreenView,
    pick,
    screen_candidate,
    unit_hash,
)

VERSION = 1
APART = 20.0
"""Units between centres (or edges) from which "above" or "at the top" is beyond doubt."""


def vqa(screen: ScreenView, pool: NamePool, config: DeriveConfig) -> Iterator[DerivedSample]:
    """At most `vqa_per_screen` questions; each rule below skips what its elements leave in doubt."""
    questions: list[DerivedSample] = []
    for kind, rule in enumerate((_count, _edge, _role, _above)):
        questions += [
            screen_candidate(screen, "vqa", f"vqa{rule.__name__}", VERSION, k, question, answer, rules=[f"rule_{kind}"])
            for k, question, answer in rule(screen, config)
        ]
    questions += [
        screen_candidate(screen, "vqa", "vqa_presence", VERSION, k, question, answer)
        for k, question, answer in _presence(screen, pool, config)
    ]
    yield from pick(questions, config.vqa_per_screen, config.seed)


def _by_role(screen: ScreenView) -> dict[str, list[IndexedElement]]:
    roles: dict[str, list[IndexedElement]] = {}
    for element in screen.elements:
        if element.role:
            roles.setdefault(element.role, []).append(element)
    return roles


def _count(screen: ScreenView, config: DeriveConfig) -> Iterator[tuple[int, str, str]]:
    """How many elements of a role there are, up to nine; nested ones of the same role leave the count in doubt."""
    for role, group in _by_role(screen).items():
        nested = any(a is not b and a.encloses(b) for a in group for b in group) if len(group) <= 9 else True
        if not nested:
            yield group[0].index, f"How many elements of type {role} are on the screen?", str(len(group))


def _edge(screen: ScreenView, config: DeriveConfig) -> Iterator[tuple[int, str, str]]:
    """The label of the topmost or bottommost of several elements of a role."""
    for role, group in _by_role(screen).items():
        if len(group) < 2:
            continue
        ordered = sorted(group, key=lambda e: (e.box[1] + e.box[3], e.index))
        middles = [(e.box[1] + e.box[3]) / 2 for e in ordered]
        if middles[1] - middles[0] >= APART and _labelled(ordered[0], config):
            yield 2 * ordered[0].index, f"What is the label of the {role} at the top?", ordered[0].label
        if middles[-1] - middles[-2] >= APART and _labelled(ordered[-1], config):
            yield 2 * ordered[-1].index + 1, f"What is the label of the {role} at the bottom?", ordered[-1].label


def _labelled(element: IndexedElement, config: DeriveConfig) -> bool:
    return 0 < len(element.label) <= config.label_max_chars


def _role(screen: ScreenView, config: DeriveConfig) -> Iterator[tuple[int, str, str]]:
    """The function of a uniquely named element: what type of element it is."""
    for element in screen.uniquely_named(config):
        if element.role:
            yield element.index, f'What type of element is "{element.name}"?', element.role


def _above(screen: ScreenView, config: DeriveConfig) -> Iterator[tuple[int, str, str]]:
    """Whether one named element is above another: only pairs whose boxes are clearly apart."""
    named = screen.uniquely_named(config)
    for pair in pairwise(named):
        swap = unit_hash(config.seed, "swap", screen.sha256, pair[0].index) < 0.5  # neither answer may be the usual one
        first, second = (pair[1], pair[0]) if swap else pair
        higher = first.box[3] + APART <= second.box[1]
        lower = second.box[3] + APART <= first.box[1]
        if higher or lower:
            yield pair[0].index, f'Is "{first.name}" above "{second.name}"?', "yes" if higher else "no"


def _presence(screen: ScreenView, pool: NamePool, config: DeriveConfig) -> Iterator[tuple[int, str, str]]:
    """Whether something of a name is on the screen; one yes and one no, so that neither pays by default."""
    named = screen.uniquely_named(config)
    if len(screen.elements) < config.refusal_min_elements or not named:
        return
    there = min(named, key=lambda e: unit_hash(config.seed, "there", screen.sha256, e.index))
    absent = pool.absent(screen, unit_hash(config.seed, "presence", screen.sha256))
    if absent is not None:
        yield 0, f'Is there "{there.name}" on the screen?', "yes"
        yield 1, f'Is there "{absent}" on the screen?', "no"
