"""A model behind the OpenAI protocol as a policy: UI-Venus or any other that sees, on vLLM or elsewhere."""

from collections.abc import Callable
from typing import Protocol

from generators.policies.agent_prompt import AgentPrompt
from generators.policies.chat_endpoint import ChatEndpoint, Sampling
from generators.policies.policy import Decision, PolicyView
from pipelines.prompts import reply_text
from schemas.action_types import PressEnter, Type
from schemas.actions import ModelReply, parse_reply


class TurnPrompt(Protocol):
    """How a turn is put into words; `AgentPrompt` is ours."""

    def messages(self, view: PolicyView, *, enter_is_typed: bool = False) -> list[dict[str, object]]:
        """The chat for a view; with `enter_is_typed` the Enters that follow typing aren't the model's."""
        ...


class OpenAIAgent:
    """See the module. All that it knows stands in the `PolicyView`; agents of many devices share one `ChatEndpoint`.

    `append_enter_after_type`: on the web, after each Type the agent presses Enter itself, as the published UI-Venus
    harness does and its models expect; that turn asks nobody and isn't shown to the model. A reply that holds no legal
    action is a decision without one; only a server that gives no reply at all raises `PolicyError`. `read` reads
    replies of another form than ours.
    """

    needs_tree = False

    def __init__(
        self,
        endpoint: ChatEndpoint,
        prompt: TurnPrompt | None = None,
        sampling: Sampling | None = None,
        *,
        append_enter_after_type: bool = False,
        read: Callable[[str, PolicyView], ModelReply] = lambda text, view: parse_reply(text),
    ) -> None:
        self.name = endpoint.model
        self.endpoint = endpoint
        self.prompt: TurnPrompt = prompt or AgentPrompt()
        self.sampling = sampling or Sampling()
        self.append_enter_after_type = append_enter_after_type
        self._read, self._seed = read, 0

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`."""
        self._seed = seed

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        enters = self.append_enter_after_type and view.platform == "web"
        # That Enter costs no question: the model was told that it follows by itself.
        if enters and view.past and isinstance(view.past[-1].action, Type):
            return Decision(reply_text(PressEnter(), view.platform), PressEnter())
        messages = self.prompt.messages(view, enter_is_typed=enters)
        # each turn draws by itself: an equal screen, met again, may be answered otherwise
        # 1009: a prime above any number of turns; the server takes 31 bits.
        said = self.endpoint.ask(messages, self.sampling, (self._seed * 1009 + len(view.past)) % 2**31)
        reply = self._read(said.text, view)
        return Decision(
            said.text, reply.action, reply.thought, reply.conclusion, said.prompt_tokens, said.completion_tokens
        )
