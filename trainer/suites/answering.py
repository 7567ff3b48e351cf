"""Who answers a suite's questions: a checkpoint in this process, or a served model behind the OpenAI protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pipelines.prompts import messages, prompt_text
from pipelines.prompts.history import HISTORY_STEPS, PROMPT_VERSIONS, HistoryForm, PromptVersion
from quality.model_client.retry import Retry
from schemas.action_types import ACTION_SPACE, ActionSpace
from trainer.modeling.tensors import parameters_digest

if TYPE_CHECKING:
    from generators.policies.policy import PolicyView
    from generators.policies.policy_maker import PolicyMaker
    from trainer.modeling.batches import Row
    from trainer.modeling.checkpoint import Checkpoint

Words = Literal["trained", "told"]
"""`trained`: the very words of the training data, for checkpoints made here. `told`: what is wanted is spelt out, for
models that others trained."""
POINT_TASK = (
    "Give the place of one element on the screenshot. Coordinates go from 0 to 1000 on both axes, x to the right, y "
    "down, whatever the size of the picture. Reply with one point inside the element, as [x,y] and nothing else. If "
    "the element isn't on the screenshot, reply [-1,-1].\n\n{question}"
)


REPLIES = 64
"""A checkpoint's replies in flight."""
TIMEOUT_S = 120.0
"""Of a call of an endpoint: others' models may think aloud."""
SERVED_TOKENS, TRAINED_TOKENS, THINKING_TOKENS = 512, 112, 1024
"""Most tokens of a served model's reply to a navigation prompt: of one that is asked in full; of a checkpoint of
this project, as the nano preset has it; and as the published presets have it, which may think."""


@dataclass(frozen=True, slots=True)
class SuiteAnswer:
    """A reply's text; or none, and `why` not: `unreadable` (the question can't be put), `no_reply` (the server).

    Of a model with a form of its own (`profiled`), `text` is what was read, in our form, empty where nothing could be;
    `said` is the reply itself."""

    text: str
    why: str = ""
    said: str = ""
    profiled: bool = False

    @property
    def raw(self) -> str:
        """The reply as it came."""
        return self.said if self.profiled else self.text


class Answerer(Protocol):
    """Rows (see `trainer.modeling.batches.Row`) → one answer each, greedy, in their order."""

    name: str

    def __call__(self, rows: Sequence[Row], max_new_tokens: int, /) -> list[SuiteAnswer]: ...


def checkpoint_name(checkpoint: Checkpoint, digest: str = "") -> str:
    """What a checkpoint is called in reports: stage, lineage and weights (`digest`, if its parameters' is known)."""
    from trainer.serving.checkpoint_policy import CheckpointPolicy

    return f"{CheckpointPolicy(checkpoint).name}-{(digest or parameters_digest(checkpoint.model))[:8]}"


class CheckpointAnswers:
    """A loaded checkpoint, asked in batches as in training; it looks at screens as its preset says.
    `max_answer_tokens`: of a navigation reply, likewise."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.name = checkpoint_name(checkpoint)
        self.max_answer_tokens: int = checkpoint.processor.preset.max_answer_tokens
        self.space = checkpoint.processor.preset.action_space
        self._checkpoint = checkpoint

    def __call__(self, rows: Sequence[Row], max_new_tokens: int, /) -> list[SuiteAnswer]:
        from trainer.modeling.batches import BadSample
        from trainer.modeling.sampler import Sampler
        from trainer.reading.read import answers as read_answers

        # One bad picture costs its own question only, not the batch.
        answers = [SuiteAnswer("", "unreadable")] * len(rows)
        places: list[int] = []
        for place, row in enumerate(rows):
            try:
                self._checkpoint.processor.prompt(row)
            except BadSample as bad:
                answers[place] = SuiteAnswer("", f"unreadable: {bad}"[:300])
                continue
            places.append(place)
        found = read_answers(
            Sampler(self._checkpoint.model, self._checkpoint.processor),
            [rows[place] for place in places],
            max_new_tokens=max_new_tokens,
            batch_size=REPLIES,
        )
        for place, answer in zip(places, found, strict=True):
            answers[place] = SuiteAnswer(answer.text)
        return answers


class EndpointAnswers:
    """A model behind `/v1/chat/completions`, asked by several threads at once; temperature 0.

    `words` as in `Words`; `agent` makes the messages of a navigation row where the model needs the list of actions.
    `max_answer_tokens`: of a navigation reply. A model that is asked in full may use as many for a point: others'
    tokenizers write it in more tokens, and some think aloud first.
    Raises `RuntimeError` where none of a call's questions gets a reply: then the server is at fault, not the model.
    """

    space: ActionSpace = ACTION_SPACE
    """Which actions its replies may be: a model that others trained is told of these."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        words: Words = "told",
        workers: int = 4,
        attempts: int = 4,
        max_answer_tokens: int | None = None,
        agent: Callable[[Row], list[dict[str, Any]]] | None = None,
    ) -> None:
        from generators.policies.chat_endpoint import ChatEndpoint

        if workers < 1:
            raise ValueError(f"endpoint: expected 1 or more workers, found {workers}")
        self.name = model
        self.max_answer_tokens = max_answer_tokens or served_tokens(words)
        self._endpoint = ChatEndpoint(base_url, model, retry=Retry(attempts=attempts, timeout_s=TIMEOUT_S))
        self._words, self._workers, self._agent = words, workers, agent

    def __call__(self, rows: Sequence[Row], max_new_tokens: int, /) -> list[SuiteAnswer]:
        with ThreadPoolExecutor(self._workers) as threads:
            answers = list(threads.map(lambda row: self._ask(row, max_new_tokens), rows))
        # no answer at all is the server's failure; single ones are counted as not answered
        if rows and all(answer.why.startswith("no_reply") for answer in answers):
            raise RuntimeError(answers[0].why.partition(": ")[2])
        return answers

    def close(self) -> None:
        """Close connections."""
        self._endpoint.close()

    def _ask(self, row: Row, max_new_tokens: int) -> SuiteAnswer:
        from generators.policies.policy import PolicyError

        try:
            return self._answer(row, max_new_tokens)
        except PolicyError as error:
            return SuiteAnswer("", f"no_reply: {error}"[:300])

    def _answer(self, row: Row, max_new_tokens: int) -> SuiteAnswer:
        """The answer to a row. Raises `PolicyError` where the server gives none."""
        from generators.policies.chat_endpoint import Sampling

        # others' tokenizers write a point in more tokens, and some think aloud first
        most = max(max_new_tokens, self.max_answer_tokens) if self._words == "told" else max_new_tokens
        return SuiteAnswer(self._endpoint.ask(self._messages(row), Sampling(0.0, 1.0, most)).text)

    def _messages(self, row: Row) -> list[dict[str, Any]]:
        from generators.policies.chat_endpoint import sent_messages
        from trainer.modeling.batches import row_images

        if self._agent is not None and row["objective"] == "navigation":
            return self._agent(row)
        chat, shown = str(row["messages"]), row_images(row)
        if self._words == "told":
            chat = messages("grounding", POINT_TASK.format(question=prompt_text(chat)), len(shown))
        return sent_messages(chat, shown)


def served_tokens(words: Words, thinking: bool = False) -> int:
    """Most tokens of a served model's navigation reply, where nobody says how many."""
    return SERVED_TOKENS if words == "told" else THINKING_TOKENS if thinking else TRAINED_TOKENS


@dataclass(frozen=True, slots=True)
class TrainedPrompt:
    """The words of the training data for a turn of an episode, as messages (in the place of `AgentPrompt`). `history`
    and `thinking` as the served checkpoint's preset has them."""

    history: HistoryForm = "action"
    thinking: bool = False
    history_steps: int = HISTORY_STEPS
    prompt_version: PromptVersion = PROMPT_VERSIONS[0]

    def messages(self, view: PolicyView, *, enter_is_typed: bool = False) -> list[dict[str, object]]:
        """One user turn: goal, history and the screenshot, as in `trainer.serving.checkpoint_policy`."""
        from generators.policies.chat_endpoint import sent_messages
        from trainer.serving.checkpoint_policy import played_prompt

        text = played_prompt(
            view, self.history, thinking=self.thinking, steps=self.history_steps, version=self.prompt_version
        )
        return sent_messages(messages("navigation", text), [view.png])


def trained_agents(
    base_url: str,
    model: str,
    temperature: float = 0.0,
    *,
    history: HistoryForm = "action",
    thinking: bool = False,
    history_steps: int = HISTORY_STEPS,
    prompt_version: PromptVersion = PROMPT_VERSIONS[0],
    max_new_tokens: int | None = None,
) -> PolicyMaker:
    """Policies over a served checkpoint of this project: asked as it was trained, in what its preset says of that
    (`history`, `thinking`, `history_steps`, `prompt_version`). `max_new_tokens`: of a reply (None: see
    `served_tokens`)."""
    from generators.policies.chat_endpoint import ChatEndpoint, Sampling
    from generators.policies.openai_agent import OpenAIAgent
    from generators.policies.policy_maker import PolicyMaker

    most = max_new_tokens or served_tokens("trained", thinking)
    endpoint, sampling = ChatEndpoint(base_url, model), Sampling(temperature, 1.0, most)
    prompt = TrainedPrompt(history, thinking, history_steps, prompt_version)
    return PolicyMaker(model, lambda contract, world: OpenAIAgent(endpoint, prompt, sampling))
