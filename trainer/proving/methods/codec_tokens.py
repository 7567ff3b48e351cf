"""How many tokens an action takes in each codec, by nano's own tokenizer.

Drawn are actions in the proportions of UI-Venus-1's mobile data as far as it states them (Click 60, Scroll 13, Finished
10, Type 9, PressHome 3; the rest evenly), with random points and short texts.
"""

import json
import random
from collections.abc import Mapping
from dataclasses import asdict
from typing import get_args

from schemas.action_types import ACTION_SPACE, POINTED, SPACES, TEXTED, Action, Drag, Hotkey, Launch, Point, Scroll
from schemas.actions import render
from trainer.modeling.checkpoint import load_processor
from trainer.modeling.codecs.coding import encode
from trainer.modeling.tokenizer import encode_text
from trainer.presets import NANO_BASE
from trainer.proving.methods import MethodCheck
from trainer.settings.model_shape import ActionCodec

DRAWN = 10_000
SHARES = {"Click": 60.0, "Scroll": 12.7, "Finished": 10.1, "Type": 8.7, "PressHome": 2.7}
TEXTS = ("maps", "Order a pizza", "10:30", "Berlin", "it is done", "a@example.org")
JSON = "json"
"""The verbose form beside which AgentCPM-GUI counts its own; no codec, nothing is trained on it."""


def drawn_action(draw: random.Random) -> Action:
    """A mobile action."""
    kinds = list(SPACES[ACTION_SPACE])
    rest = (100.0 - sum(SHARES.values())) / (len(kinds) - len(SHARES))
    (kind,) = draw.choices(kinds, [SHARES.get(name, rest) for name in kinds])
    cls = SPACES[ACTION_SPACE][kind]
    if cls in (Scroll, Drag):
        start, end = draw.sample(range(1001), 2), draw.sample(range(1001), 2)
        return cls((start[0], start[1]), (end[0], end[1]))
    if cls is Launch:
        return Launch(app=draw.choice(TEXTS))
    if cls is Hotkey:
        return Hotkey(("ctrl", draw.choice("acvx")))
    if cls in TEXTED:
        return cls(draw.choice(TEXTS))
    point: Point = (draw.randrange(1001), draw.randrange(1001))
    return cls(point) if cls in POINTED else cls()


def run(member: str, seed: int, share: float = 1.0) -> Mapping[str, float]:
    """Mean tokens of an action, and of the longest tenth."""
    tokenizer = load_processor(NANO_BASE).tokenizer
    draw = random.Random(seed)
    lengths = []
    for _ in range(round(DRAWN * share)):
        action = drawn_action(draw)
        if member == JSON:
            text = json.dumps({"action": type(action).__name__, **asdict(action)})
        else:
            codec: ActionCodec = next(name for name in get_args(ActionCodec) if name == member)
            reply = encode(f"<action>{render(action, 'mobile')}</action>", codec)
            text = reply.removeprefix("<action>").removesuffix("</action>")
        lengths.append(len(encode_text(tokenizer, text)))
    longest = sorted(lengths)[-max(1, len(lengths) // 10) :]
    return {"tokens": sum(lengths) / len(lengths), "longest_tenth": sum(longest) / len(longest)}


CHECK = MethodCheck(
    name="codec_tokens",
    system="AgentCPM-GUI; ToolTok",
    asks="tokens of an action (wanted of compact: 40 % fewer than verbose JSON)",
    members=(*get_args(ActionCodec), JSON),
    reference="text",
    figures=("tokens", "longest_tenth"),
    run=run,
)
