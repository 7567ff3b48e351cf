"""All policies by name: `build_policy("scripted", error_rate=0.1)` gives what a run needs to make one per execution.

A new policy is a function that takes options and returns a `PolicyMaker`, and an entry in `POLICIES`; one that stands
outside this tree is named as `pipelines.extensions` says. Callers that know
more (checkpoints live in the trainer) extend a copy: `build_policy("checkpoint", {**POLICIES, "checkpoint": …}, …)`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from generators.policies import step_verification
from generators.policies.agent_prompt import AGENT_PROMPT_VERSION, AgentPrompt, template_digest
from generators.policies.care_agents import TEMPERS, care_agents
from generators.policies.chat_endpoint import ChatEndpoint, Sampling
from generators.policies.demonstrations import DemonstrationMemory, WithDemonstrations, name_with_demonstrations
from generators.policies.exploring import ExploringPolicy
from generators.policies.openai_agent import OpenAIAgent
from generators.policies.oracles.fsm_oracle import FsmOracle
from generators.policies.oracles.intent_oracle import IntentOracle
from generators.policies.oracles.miniwob_oracle import MiniwobOracle
from generators.policies.oracles.oracle import Oracle
from generators.policies.oracles.plan_oracles import PhoneOracle, RecordedOracle, RecordedStep
from generators.policies.policy import CannotDo, Policy
from generators.policies.policy_maker import PolicyMaker
from generators.policies.propose_and_judge import ProposalJudge, ProposeAndJudge, RuleJudge, name_with_proposals
from generators.policies.scripted_agent import ERRORS, ScriptedAgent, scripted_name
from generators.policies.surveying import Survey, SurveyingPolicy
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from generators.worlds.app_tasks import work_of
from generators.worlds.desktop.plan import action_of as on_desktop
from generators.worlds.graph.graph_tasks import RULE as GRAPH_SCREEN
from generators.worlds.graph.graph_tasks import plan as graph_plan
from generators.worlds.miniwob.miniwob_world import MiniwobWorld
from generators.worlds.webapps.web_app_task import action_of as on_page
from generators.worlds.wrappers.wrapper import innermost
from pipelines.extensions import find_part
from quality.model_client.rate_limit import RateLimits
from quality.model_client.retry import Retry
from schemas.action_types import ACTION_SPACE, check_space
from schemas.actions import parse_reply

Paths = Callable[[TaskSpec], "Sequence[RecordedStep] | None"]
"""A contract's recorded path; None where there is none."""


def oracle_for(contract: TaskSpec, paths: Paths | None = None, world: World | None = None) -> Oracle:
    """The oracle of a task: its recorded path if there is one, else that of its app's plan, else of its evaluator's
    world. `world`: the open one that it is carried out in, which MiniWoB++'s oracle reads. Raises `CannotDo` where
    there is none, as for a task that annotators decide, and `ValueError` for a page that isn't open in this process."""
    # A recorded path is the surest: it was carried out once.
    path = paths(contract) if paths is not None else None
    if path is not None:
        return RecordedOracle(lambda _: path)
    # Apps know their plans by family; then the rule says which kind of world it is.
    app = _app_oracle(contract)
    if app is not None:
        return app
    rule = contract.evaluator.get("rule")
    make = ORACLES.get(rule) if isinstance(rule, str) else None
    oracle = make(contract, world) if make is not None else None
    if oracle is not None:
        return oracle
    # a policy that looked around instead would get some of these tasks verified by votes
    raise CannotDo(
        f"scripted agent: nothing guides the rule {rule!r:.60} of {contract.target[:60]!r}; expected a "
        f"task of an FSM site, the phone, MiniWoB++ or an app, or a recorded path"
    )


def _site_oracle(contract: TaskSpec, world: World | None) -> Oracle | None:
    return FsmOracle() if "kind" in contract.initial_state else None


def _page_oracle(contract: TaskSpec, world: World | None) -> Oracle | None:
    """The oracle of a MiniWoB++ page. Raises `ValueError` where the world is only spoken to from afar."""
    if world is None:
        return None
    page = innermost(world)
    if not isinstance(page, MiniwobWorld):
        raise ValueError(
            f"scripted agent: {contract.target[:60]!r} is guided by its page, which must be open in this "
            f"process; found a {type(page).__name__}"
        )
    return MiniwobOracle(page)


ORACLES: dict[str, Callable[[TaskSpec, World | None], Oracle | None]] = {
    "state_conditions": _site_oracle,
    "phone_state": lambda contract, world: PhoneOracle(),
    "miniwob_raw_reward": _page_oracle,
    GRAPH_SCREEN: lambda contract, world: IntentOracle(graph_plan, on_page),
}
"""Rule of a task → what makes its oracle; None where that can't be had."""


def _app_oracle(contract: TaskSpec) -> Oracle | None:
    """The oracle of a task of a real web app or a desktop program; None for one that no family of theirs made."""
    work = work_of(contract)
    if work is None:
        return None

    return IntentOracle(lambda _: work.plan, on_desktop if contract.target.startswith("desktop/") else on_page)


def scripted(
    error_rate: float = 0.0, explore_turns: int = 3, errors: Sequence[str] | None = None, paths: Paths | None = None
) -> PolicyMaker:
    """The DOM-informed scripted agent (`scripted.ScriptedAgent`)."""

    def make(contract: TaskSpec, world: World) -> Policy:
        return ScriptedAgent(
            oracle_for(contract, paths, world),
            contract,
            world.state,
            error_rate=error_rate,
            errors=ERRORS if errors is None else errors,
            explore_turns=explore_turns,
        )

    return PolicyMaker(scripted_name(error_rate), make)


def explorer(turns: int = 12) -> PolicyMaker:
    """The policy without a plan (`exploring.ExploringPolicy`)."""

    return PolicyMaker(ExploringPolicy.name, lambda contract, world: ExploringPolicy(turns))


def surveyor(turns: int = 40, surveys: Mapping[str, Survey] | None = None) -> PolicyMaker:
    """The policy that goes where something is new; `surveys`: target → what earlier rounds saw of it."""
    known = surveys or {}
    return PolicyMaker(SurveyingPolicy.name, lambda contract, _: SurveyingPolicy(turns, known.get(contract.target)))


def openai(
    base_url: str,
    model: str,
    *,
    history: str = "action",
    history_steps: int = 3,
    thinking: bool = False,
    temperature: float = 0.0,
    max_tokens: int = 512,
    append_enter_after_type: bool = False,
    attempts: int = 6,
    timeout_s: float = 60.0,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    extra: Mapping[str, object] | None = None,
    action_space: str = ACTION_SPACE,
) -> PolicyMaker:
    """A model behind the OpenAI protocol (`openai_agent.OpenAIAgent`); all executions share one endpoint."""

    # One endpoint for all executions: rate limits and connections are the server's, not the device's.
    limits = RateLimits(requests_per_minute, tokens_per_minute)
    endpoint = ChatEndpoint(base_url, model, retry=Retry(attempts=attempts, timeout_s=timeout_s), limits=limits)
    space = check_space(action_space)
    prompt = AgentPrompt(history, history_steps, thinking, space=space)  # type: ignore[arg-type]
    sampling = Sampling(temperature, 1.0, max_tokens, extra)

    def make(contract: TaskSpec, world: World) -> Policy:
        return OpenAIAgent(
            endpoint,
            prompt,
            sampling,
            append_enter_after_type=append_enter_after_type,
            read=lambda text, view: parse_reply(text, space),
        )

    # Wording enters the round: other words make another policy.
    return PolicyMaker(model, make, f"{AGENT_PROMPT_VERSION} {template_digest(space)}")


POLICIES: dict[str, Callable[..., PolicyMaker]] = {
    "explorer": explorer,
    "surveyor": surveyor,
    "openai": openai,
    "scripted": scripted,
    **{temper: partial(care_agents, temper) for temper in TEMPERS},
}
"""Name → what makes it of options."""


def build_policy(
    name: str, policies: Mapping[str, Callable[..., PolicyMaker]] | None = None, /, **options: object
) -> PolicyMaker:
    """The policy of that name with options. Raises `ValueError` for an unknown name, option or value."""
    maker = find_part("policy", name, policies if policies is not None else POLICIES)
    try:
        # Checked against the signature, so that a wrong option is named before anything opens.
        inspect.signature(maker).bind(**options)
    except TypeError as error:
        takes = ", ".join(inspect.signature(maker).parameters)
        raise ValueError(f"policy {name}: {error}; it takes {takes}") from None
    return maker(**options)


# --- wrappers
def with_demonstrations(policies: PolicyMaker, memory: DemonstrationMemory, k: int = 2) -> PolicyMaker:
    """Every policy is shown the demonstrations nearest to its goal, but none of the task itself.

    The memory is taken as it stands: what is verified during a run enters with the next one, or results would depend on
    which execution ended first."""
    held = memory.copy()

    def make(contract: TaskSpec, world: World) -> Policy:
        return WithDemonstrations(policies.make(contract, world), held, k, contract.target, contract.task_id)

    return replace(policies, name=name_with_demonstrations(policies.name, held, k), make=make)


def with_proposals(policies: PolicyMaker, count: int, judge: ProposalJudge | None = None) -> PolicyMaker:
    """`count` policies propose and a judge picks; 1 is the identity."""
    if count < 1:
        raise ValueError(f"proposals: expected at least 1, found {count}")
    picks = judge or RuleJudge()

    def make(contract: TaskSpec, world: World) -> Policy:
        return ProposeAndJudge([policies.make(contract, world) for _ in range(count)], picks)

    return replace(policies, name=name_with_proposals(policies.name, count, picks), make=make)


def with_verification(
    policies: PolicyMaker, tries: int, checker: step_verification.StepChecker | None = None
) -> PolicyMaker:
    """Every action is checked before it is carried out, and drawn again where it is refused, up to `tries` times in
    all; 1 is the identity."""
    if tries < 1:
        raise ValueError(f"step verification: expected at least 1 try, found {tries}")
    checks = checker or step_verification.ThoughtChecker()

    def make(contract: TaskSpec, world: World) -> Policy:
        return step_verification.StepVerification([policies.make(contract, world) for _ in range(tries)], checks)

    return replace(policies, name=step_verification.name_with_verification(policies.name, tries, checks), make=make)


STEP_CHECKS = ("thoughts", "model")
"""Who may check steps: the rules that hold a thought against its action, or a served model."""


def with_step_check(policies: PolicyMaker, check: str, tries: int, base_url: str = "", model: str = "") -> PolicyMaker:
    """The policies under a check of `STEP_CHECKS`, "" for none; `model` asks the one served at `base_url`. Raises
    `ValueError` for a check that isn't there, fewer than 2 tries, or a model that isn't named."""
    if not check:
        return policies
    if check not in STEP_CHECKS:
        raise ValueError(f"step check: expected one of {', '.join(STEP_CHECKS)}, found {check!r:.40}")
    if tries < 2:
        raise ValueError(f"--tries: expected at least 2 for a refused action to be drawn again, found {tries}")
    if check == "thoughts":
        return with_verification(policies, tries, step_verification.ThoughtChecker())
    if not base_url or not model:
        raise ValueError("--check-steps model: expected --base-url and --model of the model that checks, found none")
    return with_verification(policies, tries, step_verification.ModelChecker(ChatEndpoint(base_url, model)))
