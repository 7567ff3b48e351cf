"""The suites whose questions are whole episodes in worlds, from a policy to a report."""

from pathlib import Path
from typing import Any

from generators.policies.policy_maker import PolicyMaker
from generators.policies.registry import with_step_check
from trainer.runtime.tracking import OnEvent
from trainer.serving.checkpoint_policy import checkpoint_policies
from trainer.suites import world_tasks
from trainer.suites.care import BESIDE, care_summary, case_cluster
from trainer.suites.options import DEFAULT_EPISODES, EvaluationSubject, SuiteOptions
from trainer.suites.osworld import osworld_success
from trainer.suites.registry import CARE, Suite
from trainer.suites.worlds import task_cluster, world_success


def style_of(policy: object, options: SuiteOptions) -> str:
    """How worlds are drawn for a policy: as the options say, else small for a nano checkpoint alone."""
    preset = getattr(getattr(getattr(policy, "processor", None), "preset", None), "name", "")
    return options.style or ("nano" if preset == "nano" else "full")


def checked(policy: Any, subject: EvaluationSubject, options: SuiteOptions) -> Any:
    """The policy with every action checked before it is carried out, where the options say so
    (`generators.policies.step_verification`); replies of a checkpoint are then made one by one. Raises `ValueError` as
    `with_step_check` does."""
    if not options.check_steps:
        return policy
    if not isinstance(policy, PolicyMaker):
        assert subject.checkpoint is not None
        policy = checkpoint_policies(
            subject.checkpoint,
            max_new_tokens=options.max_new_tokens,
            temperature=options.temperature,
            device=subject.device,
        )
    return with_step_check(policy, options.check_steps, options.tries, subject.base_url, subject.model)


def play_suite(
    known: Suite,
    policy: Any,
    options: SuiteOptions,
    style: str,
    folder: Path | None = None,
    on_event: OnEvent | None = None,
) -> dict[str, Any]:
    """A suite's report. `policy` as `world_success` takes it; `folder` keeps episodes, so that a run goes on."""
    if known.kind == "osworld":
        return osworld_success(policy, options, folder, on_event)
    report = world_success(
        policy,
        world_tasks.contracts(known.name, options.limit or DEFAULT_EPISODES, options.seed, options.only),
        world_tasks.pool(style, options.workers),
        seeds=(options.seed,),
        attempts=options.attempts,
        temperature=options.temperature,
        workers=options.workers,
        folder=folder,
        max_new_tokens=options.max_new_tokens,
        on_event=on_event,
        cluster=case_cluster if known.name == CARE else task_cluster,
    )
    beside = care_summary(report["records"]) if known.name == CARE else {}
    first = {name: beside[name] for name in BESIDE if name in beside}  # what belongs together is printed together
    summary = {**first, **report["summary"], **beside}
    return {
        **report,
        "policy": report["records"][0]["policy"],
        "config": {**report["config"], "style": style},
        "summary": {"headline": summary["success"], "headline_of": "success", **summary},
    }
