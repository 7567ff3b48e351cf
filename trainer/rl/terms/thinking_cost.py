"""What a thought costs where it wasn't needed (after A2FM, whose policy learns when to answer at once).

The replies to one question show whether it needs a thought: if those without one are right, it doesn't. A right reply
with a thought then earns 1 − weight · (share of the replies without one that were right), so thinking pays on hard
questions alone. A2FM publishes no formula of its cost; this one is ours.
"""

from collections.abc import Sequence

from schemas.actions import parse_reply
from schemas.settings import Settings, Whole, setting
from trainer.rl.rewards import ReplyTarget, succeeds
from trainer.settings.rewards import ReplyProfile, RewardConfig


class ThinkingCostOptions(Settings):
    """Options of the term `thinking_cost`."""

    free: Whole = setting(0, "Characters of a thought that count as none.", ge=0)
    profile: ReplyProfile = setting("vesper", "Whose way of writing points and actions replies are read by.")


def thinking_cost(texts: Sequence[str], truth: ReplyTarget, **options: object) -> list[float]:
    """Replies to one question → minus the share of right ones among those without a thought, for a right reply with
    one; 0 for all others, and for all where nobody answered without. Raises `ValueError` for unknown options."""
    config = ThinkingCostOptions.parsed(options, "reward term thinking_cost")
    rewards = RewardConfig(reply_profile=config.profile)
    right = [succeeds(text, truth, rewards) for text in texts]
    thought = [len(parse_reply(text).thought) > config.free for text in texts]
    # what those replies got that answered without thinking
    at_once = [one for one, slow in zip(right, thought, strict=True) if not slow]
    cost = sum(at_once) / max(1, len(at_once))
    return [-cost if one and slow else 0.0 for one, slow in zip(right, thought, strict=True)]


thinking_cost.bounds = (-1.0, 0.0)  # type: ignore[attr-defined]
