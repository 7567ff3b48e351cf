"""Policies over a served model that are asked and read as a profile says."""

from generators.policies.chat_endpoint import ChatEndpoint
from generators.policies.openai_agent import OpenAIAgent
from generators.policies.policy import Policy
from generators.policies.policy_maker import PolicyMaker
from generators.policies.profiles.asking import ProfilePrompter, sampling_of
from generators.policies.profiles.profile import Profile
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from quality.model_client.retry import Retry
from schemas.action_types import ACTION_SPACE, ActionSpace


def profiled_policies(
    base_url: str,
    model: str,
    profile: Profile,
    *,
    temperature: float = 0.0,
    max_tokens: int | None = None,
    timeout_s: float = 120.0,
    space: ActionSpace = ACTION_SPACE,
) -> PolicyMaker:
    """All executions share one endpoint. `temperature` above 0 and `max_tokens` are in the place of the profile's.
    `space`: which actions replies may be."""
    endpoint = ChatEndpoint(base_url, model, retry=Retry(timeout_s=timeout_s))
    prompter = ProfilePrompter(profile, space)

    def make(contract: TaskSpec | None, world: World | None) -> Policy:
        platform = "mobile" if world is None else world.platform  # AndroidWorld's harness opens no world of ours
        sampling = sampling_of(profile, profile.prompt(platform), temperature, max_tokens)
        enters = profile.enter_after_type == "web"
        return OpenAIAgent(endpoint, prompter, sampling, append_enter_after_type=enters, read=prompter.read)

    return PolicyMaker(model, make, f"profile {profile.version}")
