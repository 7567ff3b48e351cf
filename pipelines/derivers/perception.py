"""Perception samples: what is at a point, and the list of elements."""

from collections.abc import Iterator

from pipelines.derivers.base import DeriveConfig, DerivedSample, IndexedElement, ScreenView, pick, screen_candidate
from pipelines.prompts import LIST_QUESTION, caption_text, point_text

VERSION = 1


def describe(element: IndexedElement) -> str:
    """`ROLE text`, e.g. `BUTTON Sign in`."""
    return f"{element.role.upper()} {element.label}".strip()


def perception(screen: ScreenView, config: DeriveConfig) -> Iterator[DerivedSample]:
    """ "What is at [x,y]?" for elements that are the innermost at their own centre, and one "List the elements.".

    The list is in reading order and is asked only where it is short enough to be answered whole.
    """
    known = [e for e in screen.elements if e.role and e.label and len(e.label) <= config.label_max_chars]
    yield from pick(
        (
            screen_candidate(
                screen, "perception", "perception_point", VERSION, e.index, point_text(*e.centre), describe(e), [e.box]
            )
            for e in known
            if screen.innermost(*e.centre) is e
        ),
        config.perception_per_screen,
        config.seed,
    )
    yield from pick(_captions(screen, config), config.captions_per_screen, config.seed)
    if (
        config.lists_per_screen
        and 2 <= len(known) == sum(bool(e.role) for e in screen.elements) <= config.list_max_elements
    ):
        ordered = sorted(known, key=lambda e: (e.box[1], e.box[0], e.index))
        yield screen_candidate(
            screen,
            "perception",
            "perception_list",
            VERSION,
            0,
            LIST_QUESTION,
            "\n".join(describe(e) for e in ordered),
            [e.box for e in ordered],
        )


def _captions(screen: ScreenView, config: DeriveConfig) -> Iterator[DerivedSample]:
    """Icons and widgets without a visible text: what they are for, by their accessible name."""
    for e in screen.uniquely_named(config):
        if not e.texted and screen.innermost(*e.centre) is e:
            yield screen_candidate(
                screen, "perception", "caption", VERSION, e.index, caption_text(*e.centre), e.name, [e.box]
            )
