"""Points as a way of moves instead of two numbers (after ToolTok, whose points are paths of learnable tool tokens).

A point is where ten moves end that each halve the way: `n`, `e`, `s` and `w` choose a quarter of what is left (upper
left, upper right, lower right, lower left) of a frame of 1024 x 1024. Letters are tokens that every tokenizer has, so
that no vocabulary changes; ToolTok learns tokens of its own. What isn't a point stays as it is.
"""

import re

from trainer.modeling.codecs import ActionTexts

MOVES = 10
_QUARTERS = {"n": (0, 0), "e": (1, 0), "s": (1, 1), "w": (0, 1)}
_LETTER = {quarter: letter for letter, quarter in _QUARTERS.items()}
_POINT = re.compile(r"(?<==)\((0|[1-9]\d{0,3}),(0|[1-9]\d{0,3})\)")
_PATH = re.compile(rf"(?<==)\(((?:[nesw] ){{{MOVES - 1}}}[nesw])\)")


def path(x: int, y: int) -> str:
    """The moves to a point in 0..1023, the coarsest first."""
    bits = reversed(range(MOVES))
    # a blank between moves keeps a tokenizer from joining letters, so that a move is a token
    return " ".join(_LETTER[x >> bit & 1, y >> bit & 1] for bit in bits)


def end_of(moves: str) -> tuple[int, int]:
    """The point that moves lead to, the inverse of `path`."""
    x = y = 0
    for letter in moves.split():
        right, down = _QUARTERS[letter]
        x, y = 2 * x + right, 2 * y + down
    return x, y


def _write(action: str) -> str | None:
    coded = _POINT.sub(lambda found: f"({path(int(found[1]), int(found[2]))})", action)
    return coded if coded != action else None


def _read(coded: str) -> str | None:
    action = _PATH.sub(lambda found: "({},{})".format(*end_of(found[1])), coded)
    return action if action != coded else None


TOOL_PATH = ActionTexts(write=_write, read=_read)
