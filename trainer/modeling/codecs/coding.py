"""A reply in the words of a codec and back: exact inverses, whatever the text of the reply is."""

import re

from trainer.modeling.codecs import ActionTexts
from trainer.modeling.codecs.compact import COMPACT
from trainer.modeling.codecs.text import TEXT
from trainer.modeling.codecs.tool_path import TOOL_PATH
from trainer.settings.model_shape import ActionCodec

MEMBERS: dict[ActionCodec, ActionTexts] = {"text": TEXT, "compact": COMPACT, "tool_path": TOOL_PATH}
AS_IT_IS = "="
"""Before an action that stands as it is although the codec would read something else in it."""
_ACTION = re.compile(r"(?<=<action>)(?:.*?)(?=</action>)", re.DOTALL)


def encode(reply: str, name: ActionCodec) -> str:
    """The reply with its first action in the words of a codec; a reply without one, as of grounding, as it is."""
    codec = MEMBERS[name]
    return reply if codec is TEXT else _ACTION.sub(lambda found: _written(found[0], codec), reply, count=1)


def decode(coded: str, name: ActionCodec) -> str:
    """The inverse of `encode`. What no codec writes, as a model may say, stays as it is."""
    codec = MEMBERS[name]
    return coded if codec is TEXT else _ACTION.sub(lambda found: _read(found[0], codec), coded, count=1)


def _written(action: str, codec: ActionTexts) -> str:
    coded = codec.write(action)
    # patterns may fit what they don't give back, as numbers with leading zeros: only what comes back is written
    if coded is not None and _read(coded, codec) == action:
        return coded
    return action if _read(action, codec) == action else AS_IT_IS + action


def _read(coded: str, codec: ActionTexts) -> str:
    if coded.startswith(AS_IT_IS):
        return coded.removeprefix(AS_IT_IS)
    action = codec.read(coded)
    return coded if action is None else action
