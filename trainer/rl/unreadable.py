"""How many replies hold nothing that can be read, or are read in another frame than the model counts in, said aloud: a
model of another family scores 0 for its form alone."""

import logging
from collections.abc import Iterable, Sequence

from trainer.rl.reply_forms import FRAMES, PROFILES, Frame, in_thousandths, read_point
from trainer.rl.rewards import ReplyTarget, point_hit, r_point, unreadable
from trainer.settings.rewards import UNREADABLE_SHARE, RewardConfig

log = logging.getLogger(__name__)
# characters of the example in a warning
SHOWN = 160
FEWEST_QUESTIONS = 5
"""Questions that have to be hit in another frame before that is no chance."""


def unreadable_share(replies: Iterable[tuple[str, ReplyTarget]], config: RewardConfig, where: str) -> float:
    """Replies with what they are held to → the share (0..1) that holds neither point nor action, `unreadable_share` of
    the figures; 0 of none. Above `config.warn_unreadable` a warning gives it, with one of them; `where` says of what.
    Where most questions are hit in another frame than the profile's, a warning names that.
    """
    found = list(replies)
    lost = [text for text, truth in found if unreadable(text, truth, config)]
    share = len(lost) / max(1, len(found))
    if lost and share > config.warn_unreadable:
        warn_unreadable(f"{len(lost)} of {len(found)} replies ({share:.0%})", lost[0], where, config.reply_profile)
    if (other := other_frame(found, config)) is not None:
        frame, hit, asked = other
        log.warning(
            "%s: %d of %d questions are hit if the numbers of the replies are %s, and hardly any as reply_profile %s "
            "reads them; docs/training.md lists what is read",
            where,
            hit,
            asked,
            frame,
            config.reply_profile,
        )
    return share


def other_frame(replies: Sequence[tuple[str, ReplyTarget]], config: RewardConfig) -> tuple[Frame, int, int] | None:
    """(frame, questions hit in it, questions asked) where the numbers of grounding replies hit in another frame than
    the profile's; None where they don't. One reply is read at a time, so only the truth can show it: numbers up to 1000
    are a point in either."""
    asked = [(text, truth) for text, truth in replies if truth.objective == "grounding" and not truth.refusal]
    # questions, not replies: a group that says the same of one element hits it by chance all at once
    hits: dict[Frame, set[ReplyTarget]] = {frame: set() for frame in FRAMES}
    for text, truth in asked:
        if (point := read_point(text)) is None:
            continue
        for frame in FRAMES:
            if point_hit(in_thousandths(point, frame, truth.size_px), truth.boxes):
                hits[frame].add(truth)
    every = len({truth for _, truth in asked})
    best = max((frame for frame in FRAMES if frame != PROFILES[config.reply_profile].frame), key=lambda f: len(hits[f]))
    if len(hits[best]) < max(FEWEST_QUESTIONS, every / 2):
        return None
    right = {truth for text, truth in asked if r_point(text, truth, config)}
    return (best, len(hits[best]), every) if len(right) < len(hits[best]) / 5 else None


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
