"""A checkpoint as a policy: asked with the very words of its training data, its replies sampled as in RL."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.policies.policy import Decision, PolicyError, PolicyView
from generators.policies.policy_maker import PolicyMaker
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from pipelines.prompts import messages, navigation_text
from pipelines.prompts.history import HISTORY_STEPS, PROMPT_VERSIONS, HistoryForm, PromptVersion, history_entry
from pipelines.store.images import encode_png
from schemas.actions import parse_reply
from schemas.ids import digest

if TYPE_CHECKING:
    from trainer.modeling.batches import Row
    from trainer.modeling.checkpoint import Checkpoint
    from trainer.modeling.generation import Completion


class CheckpointPolicy:
    """See `Policy`. `temperature` 0 is greedy; above it, replies are drawn with a seed of (seed, goal, turn).

    What the checkpoint's preset says of its training decides how it is played: the form of its histories, how it looks
    at screens, whether it is asked for thoughts (unless `thinking` is given), and how long a reply may be (unless
    `max_new_tokens` is).
    `completions` holds the replies of the episode as tokens with the log-probability of each, in the order of turns; a
    screen that is read in parts (`reading`) has that of the part that was surest, in whose frame it is written.
    Policies that share a model share a `lock`: one reply at a time.
    """

    needs_tree = False

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        temperature: float = 0.0,
        thinking: bool | None = None,
        max_new_tokens: int | None = None,
        name: str = "",
        lock: threading.Lock | None = None,
    ) -> None:
        if temperature < 0 or (max_new_tokens is not None and max_new_tokens < 1):
            raise ValueError(
                f"checkpoint policy: expected a temperature of at least 0 and 1 or more new tokens, "
                f"found {temperature} and {max_new_tokens}"
            )
        preset = checkpoint.processor.preset
        self.checkpoint, self.temperature, self.history = checkpoint, temperature, preset.history
        self.history_steps, self.prompt_version = preset.history_steps, preset.prompt_version
        self.thinking = preset.thinking if thinking is None else thinking
        self.reading = preset.reading
        self.max_new_tokens = max_new_tokens or preset.max_answer_tokens
        self.name = name or _name(checkpoint)
        self.completions: list[Completion] = []
        self._lock = lock or threading.Lock()
        self._seed = 0

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`."""
        self._seed = seed
        self.completions = []

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`. Raises `PolicyError` for a view that can't be put to the model."""
        from trainer.modeling.batches import BadSample
        from trainer.reading.read import read

        seed, prompt_tokens, reply_tokens = reply_seed(self._seed, view), 0, 0

        def ask(rows: Sequence[Row]) -> list[Completion]:
            nonlocal seed, prompt_tokens, reply_tokens
            completions = []
            for row in rows:
                completion, tokens = self._complete(dict(row), seed)
                # each part of a screen is drawn with a seed of its own
                seed, prompt_tokens = seed + 1, prompt_tokens + tokens
                reply_tokens += len(completion.token_ids)
                completions.append(completion)
            return completions

        try:
            [answer] = read([self.row(view)], self.reading, ask, encode_png)
        except BadSample as bad:
            raise PolicyError(f"{self.name}: {bad}") from bad
        self._chosen(answer.completion)
        reply = parse_reply(answer.text, self.checkpoint.processor.preset.action_space)
        return Decision(answer.text, reply.action, reply.thought, reply.conclusion, prompt_tokens, reply_tokens)

    def _chosen(self, completion: Completion) -> None:
        """Of the replies to the parts of a screen, the one that is acted by."""
        self.completions.append(completion)

    def _complete(self, row: dict[str, Any], seed: int) -> tuple[Completion, int]:
        """The reply to a row, and the tokens of its prompt. Raises `BadSample`."""
        import torch

        from trainer.modeling.generation import generate

        generator = None
        if self.temperature > 0:
            device = next(self.checkpoint.model.parameters()).device
            generator = torch.Generator(device).manual_seed(seed)
        # the processor's cache of pictures isn't for several threads either
        with self._lock:
            prompt = self.checkpoint.processor.prompt(row)
            [completion] = generate(
                self.checkpoint.model,
                self.checkpoint.processor,
                [row],
                temperature=self.temperature,
                max_new_tokens=self.max_new_tokens,
                generator=generator,
                decided=self.reading.mode == "windows",
            )
        return completion, len(prompt.ids)

    def row(self, view: PolicyView) -> dict[str, object]:
        """A view as a row like those of the shards: goal, the last steps by absolute number, the screenshot."""
        text = played_prompt(
            view, self.history, thinking=self.thinking, steps=self.history_steps, version=self.prompt_version
        )
        return {
            "sample_id": "policy",
            "source": "policy",
            "objective": "navigation",
            "platform": view.platform,
            "messages": messages("navigation", text),
            "images": [view.png],
            "answer": "",
        }


def played_prompt(
    view: PolicyView,
    history: HistoryForm = "action",
    *,
    thinking: bool = False,
    steps: int = HISTORY_STEPS,
    version: PromptVersion = PROMPT_VERSIONS[0],
) -> str:
    """The prompt of a turn in the words of training, for whoever plays a checkpoint: the goal, and the last `steps` by
    absolute number in the form of its histories (`Preset.history`, `history_steps`, `prompt_version`); turns whose
    reply couldn't be read are left out."""
    past = [
        (
            number,
            history_entry(
                said.action,
                view.platform,
                history,
                thought=said.thought,
                conclusion=said.conclusion,
                answer=said.answer,
            ),
        )
        for number, said in enumerate(view.past, 1)
        if said.action is not None
    ]
    return navigation_text(view.goal, past, thinking=thinking, steps=steps, version=version)


def checkpoint_policies(
    checkpoint: str | Path, *, max_new_tokens: int | None = None, temperature: float = 0.0, device: str = "cpu"
) -> PolicyMaker:
    """For `generators.policies.registry.build_policy`: policies over one loaded checkpoint folder, greedy unless there
    is a `temperature`, one reply at a time. Raises `ValueError` for a folder that is no checkpoint."""
    from trainer.modeling.checkpoint import load_checkpoint

    loaded, lock = load_checkpoint(checkpoint, device=device), threading.Lock()

    def make(contract: TaskSpec, world: World) -> CheckpointPolicy:
        return CheckpointPolicy(loaded, max_new_tokens=max_new_tokens, temperature=temperature, lock=lock)

    return PolicyMaker(_name(loaded), make)


def reply_seed(seed: int, view: PolicyView) -> int:
    """What a reply is drawn with: of the episode's seed, the turn and the goal."""
    drawn = hashlib.sha256(f"{seed}/{len(view.past)}/{view.goal}".encode("utf-8", "replace")).digest()
    # 56 bits, which every generator takes as a seed
    return int.from_bytes(drawn[:7], "big")


def _name(checkpoint: Checkpoint) -> str:
    """Stage and preset, and the digest of the weights' lineage: two checkpoints never share a name."""
    lineage = checkpoint.lineage
    return f"vesper-{lineage.get('stage', 'model')}-{digest(lineage)[:8]}"
