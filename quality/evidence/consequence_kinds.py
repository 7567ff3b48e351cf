"""The kinds of consequential actions; the words that name them stand in `consequence_words`."""

from typing import Literal, get_args

Kind = Literal["delete", "pay", "send", "share", "permission", "sign", "overwrite"]
KINDS: tuple[Kind, ...] = get_args(Kind)
