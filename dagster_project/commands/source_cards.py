"""`vesper sources list --markdown`: the descriptors as the page docs/sources.md."""

from collections.abc import Iterator, Sequence

from pipelines.mapping.card import Descriptor
from pipelines.markdown_text import markdown_text

STATUSES = ("kept", "lossy", "dropped")


def page(cards: Sequence[Descriptor]) -> str:
    """The whole page: an overview, then each source with its loss table."""
    return "\n".join([*_overview(cards), *(line for card in cards for line in _card(card))]) + "\n"


def _overview(cards: Sequence[Descriptor]) -> Iterator[str]:
    yield "# Sources"
    yield ""
    yield "What each source's adapter says of itself. Made by `vesper sources list --markdown > docs/sources.md`;"
    yield "change the adapter's `DESCRIPTOR`, not this page."
    yield ""
    yield "The licence is the data's own; Vesper holds none of it. `kept`: nothing is lost. `lossy`: the mapping"
    yield "forgets something, and the row says what. `dropped`: no counterpart; actions and annotations are quarantined"
    yield "with their reason and counted (in = mapped + quarantined)."
    yield ""
    yield from _table(
        ("source", "platforms", "objectives", "licence", "size", "kept", "lossy", "dropped"),
        [
            (
                f"[{markdown_text(card.id)}](#{card.id})",
                *map(markdown_text, (", ".join(card.platforms), ", ".join(card.objectives), card.licence, card.size)),
                *(str(sum(loss.status == status for loss in card.loss)) for status in STATUSES),
            )
            for card in cards
        ],
    )


def _card(card: Descriptor) -> Iterator[str]:
    yield from ("", f"## {markdown_text(card.id)}", "")
    facts = {
        "Title": card.title,
        "Origin": card.origin,
        "Licence": card.licence,
        "Size": card.size,
        "Language": card.language,
        "Native frame": card.frame,
        "A record is": card.record_unit,
        "What is counted": card.item_unit,
        "Companions": ", ".join(card.companions),
        "Citation": card.citation,
        "Known problems": "; ".join(card.known_problems),
    }
    yield from (f"- {name}: {markdown_text(value)}" for name, value in facts.items() if value)
    yield ""
    rows = [tuple(map(markdown_text, (loss.native, loss.unified, loss.status, loss.note))) for loss in card.loss]
    yield from _table(("native", "unified", "status", "reason"), rows)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of cells that are Markdown already."""
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
