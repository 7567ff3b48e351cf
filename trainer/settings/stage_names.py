"""Names of the trainer's stages that settings and other modules go by."""

from __future__ import annotations

from typing import Literal, get_args

Specialist = Literal["offline_grounding", "offline_mobile", "offline_web", "online_mobile", "online_web"]
SPECIALISTS = ("offline_grounding", "offline_mobile", "offline_web")
ONLINE = ("online_mobile", "online_web")
MERGED: tuple[Specialist, ...] = ("offline_grounding", "online_mobile", "online_web")
"""The specialists that are merged, unless the configuration names others."""
SHARED = ("mid_trained", *SPECIALISTS, *ONLINE)
"""Stages whose training all ranks do."""
assert get_args(Specialist) == (*SPECIALISTS, *ONLINE)
