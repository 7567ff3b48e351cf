"""How many replies a step of RL computes at a time: a number of them, or as many as fit into so many tokens.

A screen of a phone is a thousand tokens and one of a desktop four: as many replies as a GPU's memory just holds of the
second leave it idle with the first. Neither way changes a gradient.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from trainer.modeling.batches import Row


class Reply(Protocol):
    """A reply to the context of `row`."""

    @property
    def row(self) -> Row: ...

    @property
    def token_ids(self) -> Sequence[int]: ...


R = TypeVar("R", bound=Reply)


def micro_batches(
    replies: Sequence[R], most: int, tokens: int = 0, prompt_length: Callable[[Row], int] = lambda row: 0
) -> list[Sequence[R]]:
    """Replies in their order, at most `most` together and, with `tokens` above 0, no more than fit into so many; one
    that doesn't fit is computed alone. A row that comes again (the same object) has its prompt counted once, as
    `trainer.modeling.shared_prompts` lays it out."""
    if not tokens:
        return [replies[cut : cut + most] for cut in range(0, len(replies), most)]
    batches: list[list[R]] = []
    lengths: dict[int, int] = {}
    prompts: set[int] = set()
    used = 0
    for reply in replies:
        # the object, not its content: replies of a group share theirs, and comparing pictures would be slow
        key = id(reply.row)
        if key not in lengths:
            lengths[key] = prompt_length(reply.row)
        more = len(reply.token_ids) + (0 if key in prompts else lengths[key])
        if not batches or len(batches[-1]) == most or used + more > tokens:
            batches.append([])
            # a new micro-batch lays the prompt out once more
            prompts, used, more = set(), 0, len(reply.token_ids) + lengths[key]
        batches[-1].append(reply)
        prompts.add(key)
        used += more
    return [*batches]
