"""How many replies hold nothing that can be read, said aloud: a model of another family scores 0 for its form alone."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from trainer.rl.rewards import ReplyTarget, unreadable
from trainer.settings.rewards import UNREADABLE_SHARE, RewardConfig

log = logging.getLogger(__name__)
# characters of the example in a warning
SHOWN = 160


def unreadable_share(replies: Iterable[tuple[str, ReplyTarget]], config: RewardConfig, where: str) -> float:
    """Replies with what they are held to → the share (0..1) that holds neither point nor action, `unreadable_share` of
    the figures; 0 of none. Above `config.warn_unreadable` a warning gives it, with one of them; `where` says of what.
    """
    count, lost, example = 0, 0, ""
    for text, truth in replies:
        count += 1
        if unreadable(text, truth, config):
            lost += 1
            example = example or text
    share = lost / max(1, count)
    if lost and share > config.warn_unreadable:
        warn_unreadable(f"{lost} of {count} replies ({share:.0%})", example, where, config.reply_profile)
    return share


def unreadable_figures(replies: Sequence[tuple[str, bool]], where: str) -> dict[str, float | str]:
    """Replies of a suite, and whether each can't be read → `unreadable_share`, and one as `unreadable_example`; a large
    share is warned of, too."""
    lost = [text for text, unread in replies if unread]
    share = len(lost) / len(replies) if replies else 0.0
    if share > UNREADABLE_SHARE:
        warn_unreadable(f"{len(lost)} of {len(replies)} replies ({share:.0%})", lost[0], where, "any")
    return {"unreadable_share": share, "unreadable_example": lost[0][:SHOWN] if lost else ""}


def warn_unreadable(share: str, example: str, where: str, profile: str) -> None:
    """Log the warning; `share` in words."""
    log.warning(
        "%s: %s can't be read (reply_profile %s) and score 0; one of them: %r; docs/training.md lists what is read",
        where,
        share,
        profile,
        example if len(example) <= SHOWN else f"{example[:SHOWN]}…",
    )
