"""Tables of names, written as a text: one name a line is long to read where none of them needs a word of its own."""


def words(text: str) -> tuple[str, ...]:
    """The words of a text, in order."""
    return tuple(text.split())


def word_pairs(text: str) -> dict[str, str]:
    """`key=value` words → a dict. Raises `ValueError` for a word without its one `=`."""
    return dict(pair.split("=") for pair in words(text))  # type: ignore[misc]
