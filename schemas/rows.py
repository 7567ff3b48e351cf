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


class ScreenRow(TypedDict):
    """A row of `Screens`."""

    screenshot_sha256: str
    width_px: int
    height_px: int
    phash: int
    elements: list[ElementRow]
    source: str


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


class VerdictRow(TypedDict):
    """A row of `Verdicts`."""

    item_id: str
    round: int
    score: NotRequired[int | None]
    alignment: NotRequired[int | None]
    reachability: NotRequired[int | None]
    disposition: str
    reason: str
    confidence: float
    judge: str
    model: str
    rubric_version: str


class JudgeCostRow(TypedDict):
    """A row of `JudgeCosts`."""

    item_id: str
    round: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    cached: bool


class QuarantineRow(TypedDict):
    """A row of `Quarantine`."""

    source: str
    unit: str
    items: int
    reason: str
    detail: str
    file: str
    record: str
    native: str


class TaskRow(TypedDict):
    """A row of `Tasks`."""

    task_id: str
    instruction: str
    platform: str
    target: str
    capabilities: list[str]
    initial_state: str
    evaluator: str
    expected_steps: int
    stratum: str
    origin: str
    parents: list[str]


class TrajectoryRow(TypedDict):
    """A row of `Trajectories`."""

    trajectory_id: str
    task_id: str
    policy: str
    seed: int
    ended: str
    turns: int
    answer: str
    outcome: NotRequired[str | None]
    verified: bool
    reason: str
    failure_kind: NotRequired[str | None]
    votes: str
    end_state: str


class TrajectoryRunRow(TypedDict):
    """A row of `TrajectoryRuns`."""

    trajectory_id: str
    device: str
    seconds: float
    resumed: int
    anew: int
    failures: list[str]
    observe_s: list[float]
    decide_s: list[float]
    act_s: list[float]
    prompt_tokens: int
    completion_tokens: int


class PairRow(TypedDict):
    """A row of `Pairs`."""

    left: str
    right: str
    similarity: float
