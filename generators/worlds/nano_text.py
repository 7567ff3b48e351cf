"""The one way in which text is drawn for nano: fixed width, one size, so that a model of a few MB can learn to read.

A large model reads any font at 10 px. What nano learns of letters it learns from scratch in CPU hours: each further
font, size and weight has to be learned separately, and where letters have no fixed width, each letter at every place of
a patch beside every neighbour. The worlds' nano pages and the screens of its perception curriculum share this style.
"""

TEXT_PX = 16
"""Font size, in pixels of the picture."""
ADVANCE_PX = 10
"""From one character to the next, in pixels of the picture."""
FONTS = "'DejaVu Sans Mono','Liberation Mono',monospace"


def nano_text_css(scale: float = 1.0, but: str = "") -> str:
    """Rules that draw all text of a page in nano's style; `scale` = pixels of the picture per CSS pixel, `but` = a
    selector of what keeps its own (signs and pictures made of letters)."""
    every = f"*:not({but})" if but else "*"
    # Minus 1ch: letters are set `ADVANCE_PX` apart whichever monospaced font the machine has.
    return (
        f"{every}{{font-family:{FONTS} !important;font-size:{TEXT_PX / scale:g}px !important;"
        f"font-weight:400 !important;letter-spacing:calc({ADVANCE_PX / scale:g}px - 1ch) !important}}"
    )
