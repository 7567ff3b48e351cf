"""The rows of the tables in `schemas.tables`, as type checkers know them. A column that allows null may be left out.

Written by `python -m schemas.row_types`: change the tables, not this file.
"""

from typing import NotRequired, TypedDict


class ElementRow(TypedDict):
    """One element of a screen."""

    box: list[float]
    role: str
    text: str
    name: str


class StepRow(TypedDict):
    """A row of `Steps`."""

    source: str
    episode_id: str
    step_index: int
    split: str
    platform: str
    language: NotRequired[str | None]
    app: NotRequired[str | None]
    instruction: str
    step_instruction: NotRequired[str | None]
    screenshot_sha256: NotRequired[str | None]
    width_px: NotRequired[int | None]
    height_px: NotRequired[int | None]
    action_type: NotRequired[str | None]
    action_text: NotRequired[str | None]
    target_box: NotRequired[list[float] | None]
    thought: NotRequired[str | None]
    conclusion: NotRequired[str | None]
    episode_outcome: NotRequired[str | None]
    native_action: str
    provenance: str


class SampleRow(TypedDict):
    """A row of `Samples`."""

    sample_id: str
    source: str
    split: str
    platform: str
    objective: str
    images: list[str]
    messages: str
    answer: str
    target_boxes: list[list[float]]
    tokens: int
    licence: str
    parents: list[str]
    synthetic: bool
    provenance: str
