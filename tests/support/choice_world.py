"""A world of two boxes: a task is done when the left one was clicked `n` times. And a tiny checkpoint that knows how
replies are written, and clicks right twice as often as left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drawn import draw

from generators.execution.device_pool import Device, LocalPool
from generators.policies.policy import PastTurn, PolicyView
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import Observation, WorldError
from pipelines.prompts import reply_text
from schemas.actions import Action, Click

LEFT, RIGHT = (250, 500), (750, 500)
SIZE = (96, 64)
GOAL = "Click the right one of two boxes"


class ChoiceWorld:
    """`latency_s` of each look. `break_at`: calls of `act`, counted over the world's life, that fail as a device does.
    `on_act` is told of each."""

    name, platform, size_px = "choice", "web", SIZE

    def __init__(
        self, latency_s: float = 0.0, break_at: frozenset[int] = frozenset(), on_act: Callable[[], None] = lambda: None
    ) -> None:
        self.latency_s, self.break_at, self.on_act = latency_s, break_at, on_act
        self.calls = self.clicked = self.needed = 0

    def reset(self, start: Mapping[str, Any]) -> None:
        self.clicked, self.needed = 0, int(start["n"])

    def observe(self) -> Observation:
        time.sleep(self.latency_s)
        return Observation(picture(self.needed, self.clicked), (), f"{self.needed}/{self.clicked}")

    def act(self, action: Action) -> None:
        self.calls += 1
        self.on_act()
        if self.calls in self.break_at:
            raise ConnectionError("the device is gone")
        if not isinstance(action, Click):
            raise WorldError("only clicks")
        self.clicked += action.box[0] < 500

    def state(self) -> dict[str, Any]:
        return {"done": self.clicked >= self.needed}


def picture(needed: int, clicked: int) -> bytes:
    bar = {"green": (4, 58, 4 + 10 * max(1, needed - clicked), 62)}
    return draw({"red": (10, 10, 38, 50), "blue": (58, 10, 86, 50), **bar}, SIZE)


def task(n: int, number: int = 0) -> TaskSpec:
    """It takes `n` clicks on the left box; `number` tells tasks apart."""
    start = {"world": "choice", "n": n, "number": number}
    return TaskSpec(GOAL, "web", f"choice-{number}", start, {"rule": "page_state", "checks": [["done", True]]}, n)


def pool(opened: Callable[[], Any] = ChoiceWorld) -> LocalPool:
    @contextmanager
    def one() -> Iterator[Any]:
        yield opened()

    return LocalPool({"choice": one})


class Slow:
    """A pool of `count` devices of which the first is slower."""

    def __init__(self, count: int, latency_s: float, slow_s: float) -> None:
        self.left = list(range(count))
        self.latency_s, self.slow_s = latency_s, slow_s

    def kind(self, contract: TaskSpec) -> str:
        return contract.world

    def most(self, kind: str) -> int | None:
        return None

    @contextmanager
    def open(self, kind: str) -> Iterator[Device]:
        number = self.left.pop(0)
        yield Device(f"fake/{number}", ChoiceWorld(self.slow_s if number == 0 else self.latency_s))
        self.left.append(number)


def taught(folder: Path, processor: Any, model: Any, preset: Any, steps: int = 60) -> Path:
    """Teach a model to reply, and save it."""
    import torch

    from trainer.modeling.checkpoint import Checkpoint, lineage, save_checkpoint
    from trainer.modeling.model import reply_logprobs
    from trainer.serving.checkpoint_policy import CheckpointPolicy

    policy = CheckpointPolicy(Checkpoint(model, processor, {"stage": "tiny"}))
    rows, answers = [], []
    for needed, clicked, past in ((1, 0, ()), (2, 0, ()), (2, 1, (LEFT,)), (2, 0, (RIGHT,))):
        said = tuple(PastTurn(Click(box)) for box in past)
        for box in (LEFT, RIGHT, RIGHT):
            rows.append(policy.row(PolicyView(GOAL, picture(needed, clicked), SIZE, "web", said)))
            answers.append(processor.answer(reply_text(Click(box), "web")))
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.0)
    batch = processor.reply_batch(rows, answers)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        found = reply_logprobs(model, batch, never=processor.never)
        loss = -(found.logprobs * found.mask).sum() / found.mask.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    save_checkpoint(folder, model.eval(), processor, lineage("tiny", preset))
    return folder
