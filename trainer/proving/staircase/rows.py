"""Turns of scripted episodes as rows of the `samples` table: navigation, and grounding from the same screens."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from generators.policies.policy import PastTurn, PolicyView
from generators.proving.judge_bench.recorders.references import references
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import Observation, ScreenElement
from pipelines.prompts import REFUSAL, grounding_text, messages, point_answer, reply_text
from pipelines.prompts.tokens import count_tokens
from schemas.ids import canonical_json, item_step, sample_id
from trainer.proving.staircase.performing import PerformedTurn
from trainer.serving.checkpoint_policy import played_prompt

SOURCE = "staircase"
COMMON = ("Cancel", "Settings", "Delete", "Save", "Next", "Back", "Help", "Profile", "Share", "Archive", "Download")
"""Names asked about where they aren't, on pages whose screens all have the same names."""


def navigation_rows(
    contract: TaskSpec, family: str, split: str, moments: Sequence[PerformedTurn]
) -> list[dict[str, object]]:
    """The right turns as rows of `samples`, each with the true history (slips too); `images` hold sha256."""
    name, past, rows = episode_name(contract, family), tuple[PastTurn, ...](), []
    for turn, moment in enumerate(moments):
        if moment.right:
            view = PolicyView(contract.instruction, moment.shot.png, (0, 0), contract.platform, past)
            answer = reply_text(moment.action, contract.platform)
            # A click's element only; other actions point at nothing.
            boxes = [list(moment.box)] if moment.box is not None else []
            rows.append(
                _row(
                    "navigation",
                    contract.platform,
                    split,
                    name,
                    turn,
                    0,
                    played_prompt(view),
                    answer,
                    boxes,
                    moment.shot,
                    {"family": family, "slips": sum(not m.right for m in moments)},
                )
            )
        # Slips stand in the history too: what is done next depends on them.
        past = (*past, PastTurn(moment.action))
    return rows


def grounding_rows(
    contract: TaskSpec,
    family: str,
    split: str,
    moments: Sequence[PerformedTurn],
    strangers: Sequence[str],
    rng: Random,
    *,
    elements: int,
    refusal_share: float,
) -> list[dict[str, object]]:
    """Names that show on the screens → their elements; and names of other screens, which aren't there, → refusal."""
    name, rows, seen = episode_name(contract, family), list[dict[str, Any]](), set[str]()
    for turn, moment in enumerate(moments):
        if moment.shot.sha256 in seen:
            continue
        seen.add(moment.shot.sha256)
        shown = visible(moment.shot, contract.world)
        # All texts, also of what can't be clicked: what can be read anywhere isn't missing.
        text = " ".join(f"{element.text} {element.name}" for element in moment.shot.elements).casefold()
        asked = [*strangers, *(f"the {name} button\t{name}" for name in COMMON)]
        absent = [word for word in asked if word.rpartition("\t")[2].casefold() not in text]
        # Sampled, so that a screen with many names doesn't outweigh the others.
        for k, (says, element) in enumerate(rng.sample(shown, min(elements, len(shown)))):
            prompt, answer, boxes = says, point_answer(*element.centre), [list(element.box)]
            if absent and rng.random() < refusal_share:
                prompt, answer, boxes = rng.choice(absent).partition("\t")[0], REFUSAL, []
            rows.append(
                _row(
                    "grounding",
                    contract.platform,
                    split,
                    name,
                    turn,
                    k + 1,
                    grounding_text(prompt),
                    answer,
                    boxes,
                    moment.shot,
                    {"family": family, "elements": elements_of(moment.shot)},
                )
            )
    return rows


def elements_of(shot: Observation) -> list[list[int]]:
    """Boxes of what can be clicked, in whole units: what a random element is drawn from."""
    return [[round(side) for side in element.box] for element in shot.elements if element.clickable]


def visible(shot: Observation, world: str) -> list[tuple[str, ScreenElement]]:
    """(expression, element) of what can be clicked and whose name can be read on the screen, and is no other's."""
    texts = {element.text.strip().casefold() for element in shot.elements}
    found = []
    for one in references(shot):
        name = one.place.name.strip()
        # Names of icons can't be read; the sites label all that they show.
        if name and (name.casefold() in one.place.text.casefold() or name.casefold() in texts or world == "fsm"):
            found.append((one.expression, one.place))
    return found


def _row(
    objective: str,
    platform: str,
    split: str,
    episode: str,
    turn: int,
    k: int,
    prompt: str,
    answer: str,
    boxes: list[list[float]],
    shot: Observation,
    extra: Mapping[str, object],
) -> dict[str, Any]:
    chat = messages(objective, prompt)
    provenance = {"deriver": f"staircase_{objective}", "version": 1, "k": k, "episode": episode, "step": turn, **extra}
    return {
        "sample_id": sample_id(SOURCE, episode, turn, f"staircase_{objective}", 1, k),
        "source": SOURCE,
        "split": split,
        "platform": platform,
        "objective": objective,
        "images": [shot.sha256],
        "messages": chat,
        "answer": answer,
        "target_boxes": boxes,
        "tokens": count_tokens(chat, answer, [_size(shot.png)]),
        "licence": "own",
        "parents": [item_step(SOURCE, episode, turn)],
        "synthetic": True,
        "provenance": canonical_json(provenance),
    }


def episode_name(contract: TaskSpec, family: str) -> str:
    """`<family>/<seed>`, the episode's name among all of the staircase's."""
    return f"{family}/{contract.initial_state['seed']}"


def _size(png: bytes) -> tuple[int, int]:
    """(width, height) as in a PNG's header."""
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
