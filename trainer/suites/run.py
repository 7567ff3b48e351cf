"""Any suite by name, for a checkpoint folder or a served model → a report; the one entry that `vesper eval` calls."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.mapping.adapter import Raw
from pipelines.prompts.history import HISTORY_STEPS, PROMPT_VERSIONS
from schemas.ids import digest
from trainer.data.rows import light_rows, screen_elements, with_pictures
from trainer.runtime.tracking import OnEvent
from trainer.settings.measuring import EvalConfig
from trainer.settings.stages import CORPUS, HELDOUT
from trainer.suites.answering import CheckpointAnswers, EndpointAnswers, checkpoint_name, served_tokens, trained_agents
from trainer.suites.latent import LatentConfig, evaluate_latent
from trainer.suites.registry import Suite, benchmark, suite

if TYPE_CHECKING:
    from generators.policies.policy_maker import PolicyMaker
    from trainer.evaluation.controls import BlindTable
    from trainer.modeling.checkpoint import Checkpoint
from pipelines.store import Store
from trainer.suites.options import EvaluationSubject, SuiteOptions

KINDS_FOR_SERVED = ("grounding", "steps", "worlds", "android_world", "osworld")


def run_suite(
    name: str, subject: EvaluationSubject, options: SuiteOptions | None = None, on_event: OnEvent | None = None
) -> dict[str, object]:
    """The report of a suite (`suite`, `title`, `policy`, `summary`, `records`, `config`, …). `on_event` gets dicts with
    a `kind` as it goes.

    Raises `ValueError` for an unknown suite or what it lacks, `ImportError` for a harness that isn't installed,
    `RuntimeError` for a server that gives no reply.
    """
    options = options or SuiteOptions()
    known = suite(name)
    # Held-out and latent figures need logits and hidden states, which no protocol gives.
    if (subject.checkpoint is None or subject.profile is not None) and known.kind not in KINDS_FOR_SERVED:
        found = "a served model" if subject.profile is None else f"--profile {subject.profile.name}"
        raise ValueError(f"suite {name}: it looks into a checkpoint; expected a checkpoint folder alone, found {found}")
    runners: dict[str, Callable[[Suite, EvaluationSubject, SuiteOptions, OnEvent | None], dict[str, Any]]] = {
        "heldout": _heldout,
        "grounding": _grounding,
        "steps": _steps,
        "worlds": _worlds,
        "android_world": _android_world,
        "osworld": _worlds,
        "latent": _latent,
    }
    with ExitStack() as stack:
        listener = stack.enter_context(_bar(known, options.progress, on_event))
        # Only here is it served: before, its folder says what is evaluated.
        if subject.profile is not None and subject.checkpoint is not None:
            from trainer.suites.profiled import served

            subject = stack.enter_context(served(subject))
        report = runners[known.kind](known, subject, options, listener)
    if subject.profile is not None:
        looked = {"reading": subject.reading} if subject.reading else {}
        report["config"] = {**report["config"], "profile": subject.profile.version, **looked}
    return {"suite": name, "title": known.title, **report, "suite_kind": known.kind}


@contextmanager
def _bar(known: Suite, progress: bool, on_event: OnEvent | None) -> Iterator[OnEvent | None]:
    """Who gets a suite's events: `on_event`, behind a bar for the kinds of suites that have none of their own."""
    if not progress or known.kind not in ("worlds", "osworld", "latent"):
        yield on_event
        return
    from tqdm import tqdm

    with tqdm(desc=known.name, unit="screen" if known.kind == "latent" else "episode", mininterval=2) as bar:

        def listener(event: dict[str, Any]) -> None:
            # Some suites learn only on the way how many episodes there are.
            bar.total = event.get("of", bar.total)
            bar.update(event.get("done", bar.n) - bar.n)
            if on_event:
                on_event(event)

        yield listener


def _store(options: SuiteOptions, name: str) -> Store:
    if options.store is None:
        raise ValueError(f"suite {name}: expected a store (--home, a $VESPER_HOME with assets/), found none")
    return options.store


def blind_table(store: Store | None) -> BlindTable | None:
    """The blind table of a store's training shards; None without any."""
    from trainer.evaluation.controls import BlindTable

    shards = store.current(CORPUS) if store is not None else None
    return BlindTable(light_rows(shards, ("train",))) if shards is not None else None


def _answers(subject: EvaluationSubject, options: SuiteOptions) -> CheckpointAnswers | EndpointAnswers:
    if subject.profile is not None:
        from trainer.suites.profiled import ProfiledAnswers

        return ProfiledAnswers(
            subject.base_url,
            subject.model,
            subject.profile,
            # Four calls at a time at least: waiting for a server costs this process nothing.
            workers=max(options.workers, 4),
            max_new_tokens=options.max_new_tokens,
            reading=subject.reading,
        )
    if subject.checkpoint is None:
        from trainer.suites.steps import told_messages

        agent = partial(told_messages, thinking=subject.thinking) if subject.words == "told" else None
        most = options.max_new_tokens or served_tokens(subject.words, subject.thinking)
        return EndpointAnswers(
            subject.base_url,
            subject.model,
            words=subject.words,
            workers=max(options.workers, 4),
            max_answer_tokens=most,
            agent=agent,
        )
    return CheckpointAnswers(_checkpoint(subject))


def _checkpoint(subject: EvaluationSubject) -> Checkpoint:
    """The checkpoint that is evaluated, loaded, looking at screens as the subject says."""
    from trainer.modeling.checkpoint import load_checkpoint
    from trainer.reading.read import looking

    assert subject.checkpoint is not None
    return looking(load_checkpoint(subject.checkpoint, device=subject.device), subject.reading)


def _policy(subject: EvaluationSubject, options: SuiteOptions) -> PolicyMaker | Any:
    """What plays episodes: a loaded checkpoint, or policies over an endpoint."""
    if subject.checkpoint is not None:
        return _checkpoint(subject)
    if subject.profile is not None:
        from generators.policies.profiles.agents import profiled_policies

        return profiled_policies(
            subject.base_url,
            subject.model,
            subject.profile,
            temperature=options.temperature,
            max_tokens=options.max_new_tokens,
        )
    from generators.policies.registry import build_policy

    most = options.max_new_tokens or served_tokens(subject.words, subject.thinking)
    if subject.words == "trained":
        return trained_agents(
            subject.base_url,
            subject.model,
            options.temperature,
            history=subject.history,
            history_steps=subject.history_steps,
            prompt_version=subject.prompt_version,
            thinking=subject.thinking,
            max_new_tokens=most,
        )
    return build_policy(
        "openai",
        base_url=subject.base_url,
        model=subject.model,
        temperature=options.temperature,
        history=subject.history,
        history_steps=subject.history_steps,
        thinking=subject.thinking,
        max_tokens=most,
    )


def _heldout(
    known: Suite, subject: EvaluationSubject, options: SuiteOptions, on_event: OnEvent | None
) -> dict[str, Any]:
    from trainer.data.clusters import picture_key
    from trainer.evaluation.evaluate import choose, evaluate

    store = _store(options, known.name)
    config = EvalConfig(seed=options.seed, max_new_tokens=options.max_new_tokens)
    if options.limit is not None:
        config = config.changed(grounding=options.limit, navigation=options.limit)
    heldout = store.require(HELDOUT)
    rows = with_pictures(heldout, choose(light_rows(heldout, ("test",)), config))
    if not rows:
        raise ValueError(f"{store.home}: the held-out shards have no sample that can be checked")
    names = sorted({str(row["source"]) for row in rows})
    loaded = _checkpoint(subject)
    report = evaluate(
        loaded,
        rows,
        config,
        blind=blind_table(store),
        on_event=on_event,
        progress=options.progress,
        elements=screen_elements(store, names, {picture_key(row) for row in rows}),
    )
    return {**report, "policy": checkpoint_name(loaded), "inputs": {heldout.asset: heldout.version}}


def _grounding(
    known: Suite, subject: EvaluationSubject, options: SuiteOptions, on_event: OnEvent | None
) -> dict[str, Any]:
    from trainer.modeling.generation import GROUNDING_TOKENS
    from trainer.suites.grounding import GroundingConfig, evaluate_grounding

    folder = options.raw or (options.store.home / "raw" / known.raw if options.store is not None else None)
    if folder is None or not folder.is_dir():
        raise ValueError(
            f"suite {known.name}: expected native files of {known.title} in a folder (--raw), found "
            f"{'none' if folder is None else folder}"
        )
    return evaluate_grounding(
        benchmark(known.name),
        Raw(folder),
        _answers(subject, options),
        GroundingConfig(
            limit=options.limit,
            seed=options.seed,
            max_new_tokens=options.max_new_tokens or GROUNDING_TOKENS,
            frame=None if subject.profile is None else "thousandths",
        ),
        blind=blind_table(options.store),
        on_event=on_event,
        progress=options.progress,
    )


def _steps(known: Suite, subject: EvaluationSubject, options: SuiteOptions, on_event: OnEvent | None) -> dict[str, Any]:
    from trainer.suites.steps import StepsConfig, evaluate_steps

    with ExitStack() as stack:
        store = options.store
        if options.raw is not None:
            from pipelines.unify.unify import unify_source

            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vesper-steps-")))
            store = Store(folder)
            # unified in a store of its own, which goes with the run
            unify_source(store, known.raw, Raw(options.raw))
        elif store is None:
            raise ValueError(
                f"suite {known.name}: expected native files of {known.raw} (--raw), or a store with "
                f"unified/{known.raw} (--home), found neither"
            )
        answers = _answers(subject, options)
        most = options.max_new_tokens or answers.max_answer_tokens
        return evaluate_steps(
            store,
            known.raw,
            known.constant,  # type: ignore[arg-type]
            answers,  # type: ignore[arg-type]
            StepsConfig(limit=options.limit, seed=options.seed, max_new_tokens=most),
            name=known.name,
            space=answers.space,
            blind=blind_table(options.store),
            on_event=on_event,
            progress=options.progress,
        )


def _worlds(
    known: Suite, subject: EvaluationSubject, options: SuiteOptions, on_event: OnEvent | None
) -> dict[str, Any]:
    from trainer.suites.episodes import checked, play_suite, style_of

    policy = _policy(subject, options)
    # by the preset of what plays, so before it is wrapped
    style = style_of(policy, options)
    policy = checked(policy, subject, options)
    report = play_suite(known, policy, options, style, _kept(subject, options, style), on_event)
    return {**report, "config": {**report["config"], **_asked(subject, options)}}


def _asked(subject: EvaluationSubject, options: SuiteOptions) -> dict[str, Any]:
    """How a served model was asked, for its report; a checkpoint's policy records that itself."""

    if subject.checkpoint is not None or subject.profile is not None:
        return {}
    most = options.max_new_tokens or served_tokens(subject.words, subject.thinking)
    asked = {"words": subject.words, "history": subject.history, "thinking": subject.thinking, "max_new_tokens": most}
    for name, usual in (("history_steps", HISTORY_STEPS), ("prompt_version", PROMPT_VERSIONS[0])):
        if getattr(subject, name) != usual:
            asked[name] = getattr(subject, name)
    return asked


def _kept(subject: EvaluationSubject, options: SuiteOptions, *more: str) -> Path | None:
    """Where a run keeps its episodes, below `state`: those of a model that was asked in another way aren't its own."""
    if options.state is None:
        return None
    asked = [
        "" if subject.here else subject.base_url,
        subject.model,
        subject.words,
        subject.history,
        subject.thinking,
        options.temperature,
        options.max_new_tokens,
        options.seed,
        *more,
    ]
    if subject.profile is not None:
        asked.append(subject.profile.version)
    # said only where it isn't the usual number, so that a run begun before there was a choice goes on
    if subject.history_steps != HISTORY_STEPS:
        asked.append(f"history steps {subject.history_steps}")
    if subject.prompt_version != PROMPT_VERSIONS[0]:
        asked.append(f"prompt {subject.prompt_version}")
    # weights of another training have another lineage
    if subject.checkpoint is not None and (lineage := subject.checkpoint / "lineage.json").is_file():
        asked.append(lineage.read_text(encoding="utf-8"))
    return options.state / digest(asked)[:16]


def _android_world(
    known: Suite, subject: EvaluationSubject, options: SuiteOptions, on_event: OnEvent | None
) -> dict[str, Any]:
    # Here, as it brings the policies, which the graph doesn't load to list this suite.
    from trainer.suites.android_world import AndroidWorldConfig, require_harness, run_android_world

    require_harness()
    # a folder of its own beside AndroidWorld's, which had none of its name
    family = () if known.name == known.constant else (known.name,)
    if options.limit is not None:
        raise ValueError(f"--limit: suite {known.name} plays its tasks whole; name some of them with --only")
    subject_policy: Any = _policy(subject, options)
    if subject.checkpoint is not None:
        from trainer.serving.checkpoint_policy import CheckpointPolicy

        policy: Any = CheckpointPolicy(
            subject_policy,
            temperature=options.temperature,
            name=checkpoint_name(subject_policy),
            max_new_tokens=options.max_new_tokens,
        )
    else:
        policy = subject_policy.make(None, None)
    return run_android_world(
        policy,
        AndroidWorldConfig(
            options.adb_path,
            options.console_port,
            known.constant,
            tasks=options.only or None,
            n_task_combinations=options.attempts,
            # the harness' own default, so that seed 0 gives its published instances
            task_random_seed=AndroidWorldConfig().task_random_seed + options.seed,
            folder=str(_kept(subject, options, policy.name, *family) or ""),
        ),
    )


def _latent(
    known: Suite, subject: EvaluationSubject, options: SuiteOptions, on_event: OnEvent | None
) -> dict[str, Any]:
    from trainer.modeling.checkpoint import load_checkpoint

    store = _store(options, known.name)
    root = store.home / "assets" / "unified"
    sources = sorted(path.parent.name for path in root.glob("*/current.json"))
    config = LatentConfig(seed=options.seed)
    if options.limit is not None:
        from dataclasses import replace

        config = replace(config, limit=options.limit)
    loaded = _checkpoint(subject)
    before = load_checkpoint(options.before, device=subject.device) if options.before is not None else None
    report = evaluate_latent(loaded, store, sources, config, before=before, on_event=on_event)
    return {**report, "policy": checkpoint_name(loaded)}
