"""`vesper generate`: rounds of the generation loop in this process, into a store; or a look into a round's journal."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from dagster_project.commands.checkpoint_option import add_profile
from dagster_project.commands.step_check_option import add_step_check, checked
from generators.execution.device_sources import DevicePlaces, open_pool
from generators.execution.journal import SUFFIX, read_journal
from generators.generation.app_document import document
from generators.generation.feedback import known_before, require_verified, rounds_to_make
from generators.generation.learned import learned
from generators.generation.loop import LoopConfig, LoopParts
from generators.generation.proposing.openai_proposer import OpenAIProposer
from generators.generation.proposing.proposers import BY_NAME, PROPOSERS, arms
from generators.generation.proposing.reverse_tasks import ModelWriter
from generators.generation.round_names import TRAJECTORIES
from generators.generation.rounds import run_round
from generators.generation.task_worlds.registry import TASK_WORLDS
from generators.generation.verified_demonstrations import shown
from generators.policies.chat_endpoint import ChatEndpoint
from generators.policies.policy_maker import PolicyMaker
from generators.policies.profiles.agents import profiled_policies
from generators.policies.profiles.profile import load_profile
from generators.policies.propose_and_judge import ModelJudge
from generators.policies.registry import POLICIES as KNOWN
from generators.policies.registry import build_policy, with_proposals
from generators.policies.surveying import survey_of
from generators.worlds.desktop.manuals import passages
from pipelines.extensions import find_part
from pipelines.home import named_home
from pipelines.store import Store
from quality.model_client.client import ModelClient
from schemas.action_types import ACTION_SPACE, SPACES
from trainer.serving.checkpoint_policy import checkpoint_policies

EXAMPLE = "vesper generate --rounds 2 --tasks 12 --targets 8"
POLICIES = ("scripted", "openai", "explorer", "surveyor", "checkpoint")
COLUMNS = ("executed", "verified", "yield", "feasible", "policy success", "true yield", "false positives")
WRITTEN = "generators.generation.proposing.written_proposer:WrittenTaskProposer"


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of `vesper generate`."""
    home = named_home()
    parser.epilog = f"example: {EXAMPLE}"
    parser.add_argument("--out", type=Path, default=home, help="the store ($VESPER_HOME); its rounds go on from there")
    parser.add_argument(
        "--rounds", type=int, default=1, help="rounds to add (1); those killed or failing their checks go on first"
    )
    parser.add_argument(
        "--world",
        "--ground",
        dest="ground",
        default="fsm",
        metavar="WORLD",
        help=f"where tasks are proposed: {', '.join(TASK_WORLDS)}, or one of your own as module:world or file.py:world "
        "(fsm)",
    )
    parser.add_argument(
        "--proposer",
        action="append",
        default=[],
        metavar="PROPOSER",
        help=f"who proposes tasks: {', '.join(PROPOSERS)}, {', '.join(BY_NAME)}, or one of your own as module:proposer "
        f"or file.py:proposer; given again: several (without it {', '.join(PROPOSERS)})",
    )
    parser.add_argument("--targets", type=int, default=12, help="sites or apps (12)")
    parser.add_argument("--tasks", type=int, default=24, help="tasks a round (24)")
    parser.add_argument("--seed", type=int, default=0, help="of proposals and executions (0)")
    parser.add_argument(
        "--mix",
        type=float,
        nargs=3,
        metavar=("EASY", "MEDIUM", "HARD"),
        default=(0.5, 0.3, 0.2),
        help="shares of the strata, the same in every round (0.5 0.3 0.2)",
    )
    parser.add_argument("--epsilon", type=float, default=0.9, help="most similar two tasks may be, by cosine (0.9)")
    parser.add_argument("--no-feedback", action="store_true", help="every round proposes as the first one does")
    parser.add_argument("--workers", type=int, default=2, help="executions at a time (2)")
    _executing_arguments(parser)
    _acting_arguments(parser)
    _world_arguments(parser)
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="only show the attempts of a journal (generation/journals of the store), also of one in use",
    )
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="DIR",
        help="only write what the rounds so far have seen of each target: its screens, what stands on them, what each "
        "action does and how to get there, a page of Markdown each",
    )
    parser.set_defaults(run=generate)


def _executing_arguments(parser: argparse.ArgumentParser) -> None:
    """Where tasks are executed."""
    parser.add_argument(
        "--device",
        action="append",
        metavar="local|URL",
        help="local worlds, or devices leased from a gateway's authority at URL (key in VESPER_GATEWAY_KEY); given "
        "again: a task goes to the first that has its world ($VESPER_DEVICES, else local)",
    )
    parser.add_argument("--site-url", help="with a gateway: where its browsers find the sites' page ($VESPER_SITE_URL)")


def _acting_arguments(parser: argparse.ArgumentParser) -> None:
    """Who acts, and who words and proposes tasks beside."""
    parser.add_argument(
        "--policy",
        default="scripted",
        metavar="POLICY",
        help=f"who acts: {', '.join(POLICIES)}, or one of your own as module:maker or file.py:maker (scripted)",
    )
    parser.add_argument("--error-rate", type=float, default=0.02, help="of the scripted policy, a turn (0.02)")
    parser.add_argument("--base-url", help="of an OpenAI-protocol server, for all that says model here, and --propose")
    parser.add_argument("--model", help="the model's name on that server")
    parser.add_argument(
        "--action-space",
        choices=tuple(SPACES),
        default=ACTION_SPACE,
        help=f"which actions the model is told of ({ACTION_SPACE}); a checkpoint speaks that of its training",
    )
    add_profile(parser)
    parser.add_argument("--checkpoint", type=Path, help="a checkpoint folder, for --policy checkpoint")
    parser.add_argument(
        "--propose",
        nargs="?",
        const="votes",
        choices=("votes", "whole"),
        help="let the model at --base-url propose tasks as well, which annotators decide (votes), or, on a desktop, "
        "write them whole, with start and rule, as far as a sealed desktop shows the rule to be right (whole); the "
        "scripted policy can't do them",
    )
    parser.add_argument(
        "--writer",
        choices=("embedded", "model"),
        default="embedded",
        help="who words what recorded walks achieved (embedded)",
    )
    parser.add_argument(
        "--actions",
        type=int,
        default=1,
        metavar="K",
        help="actions that the policy proposes a turn, of which --chooser takes one (1)",
    )
    parser.add_argument(
        "--chooser",
        choices=("rules", "model"),
        default="rules",
        help="who takes one: the majority that hits something, or the model at --base-url (rules)",
    )
    add_step_check(parser)
    parser.add_argument(
        "--demonstrations",
        type=int,
        default=0,
        metavar="K",
        help="verified trajectories of earlier rounds that the policy is shown beside its goal (0)",
    )


def _world_arguments(parser: argparse.ArgumentParser) -> None:
    """What is verified, and what is done to the worlds."""
    parser.add_argument(
        "--process",
        action="store_true",
        help="verify only what also shows on the way that it did what the task requires, not on its last screen alone",
    )
    parser.add_argument(
        "--hostile",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of the executions whose screens hold what others planted; who obeys it fails (0)",
    )
    parser.add_argument(
        "--faults",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share at which each fault happens: dead control, click on the neighbour, lost letter, stale screen (0)",
    )
    parser.add_argument(
        "--late",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of the actions after which the screen before shows for a while (0)",
    )


def generate(options: argparse.Namespace) -> int:
    """Run the rounds and print a line for each; with `--journal` only show that one."""
    if options.journal is not None:
        return _show(options.journal)
    if options.documents is not None:
        return _document(Store(options.out), options.documents)

    if options.rounds < 1 or options.workers < 1:
        raise ValueError(f"--rounds, --workers: expected at least 1, found {options.rounds} and {options.workers}")
    if options.demonstrations < 0:
        raise ValueError(f"--demonstrations: expected 0 or more, found {options.demonstrations}")
    if options.policy == "surveyor" and (options.actions > 1 or options.check_steps):
        raise ValueError("--policy surveyor: expected neither --actions nor --check-steps, as it draws no replies")
    # Only what makes the data: how it is run stays out, or other workers would be another round.
    config = LoopConfig(
        ground=options.ground,
        targets=options.targets,
        tasks=options.tasks,
        seed=options.seed,
        policy=options.policy,
        error_rate=options.error_rate,
        feedback=not options.no_feedback,
        mix=tuple(options.mix),
        epsilon=options.epsilon,
        hostile=options.hostile,
        faults=options.faults,
        late=options.late,
        proposers=tuple(options.proposer),
        process=options.process,
    )
    store = Store(options.out)
    print("round     " + "".join(f"{name:>16}" for name in COLUMNS), flush=True)
    # The pool and its devices close whatever happens inside.
    with _parts(options, store) as (parts, policies):
        for number in islice(rounds_to_make(store), options.rounds):
            # Each round anew, as demonstrations come from the rounds before it.
            policies = _surveying(store, number, config) if options.policy == "surveyor" else policies
            acting = shown(policies, store, number, options.demonstrations, feedback=config.feedback)
            built = run_round(store, number, config, replace(parts, policies=_always(acting)))
            values = "".join(f"{_shown(built.counts[name]):>16}" for name in COLUMNS)
            print(f"round_{number:03d} {values}", flush=True)
            runs = store.require(f"{TRAJECTORIES}/round_{number:03d}").counts
            # The checks below may stop the command, so what was injected is said before.
            if options.faults:
                print(f"  faults injected: {runs['faults']}", flush=True)
            if options.hostile:
                planted, obeyed = runs["hostile: planted"], runs["hostile: obeyed"]
                print(f"  planted content in {planted} executions, obeyed in {obeyed}", flush=True)
            for check in built.checks:
                if not check.passed:
                    print(f"  {check.name}: found {check.found}, expected {check.expected}", file=sys.stderr)
            # Later rounds learn from this one; a failed one would teach them.
            if not built.checks_passed:
                return 1
    return 0


def _surveying(store: Store, number: int, config: LoopConfig) -> PolicyMaker:
    """The surveyor, going on from what the rounds that this one learns from saw of each target."""
    before = known_before(store, number) if config.feedback else {}
    seen = learned(store, list(before.values())).explorations
    return build_policy("surveyor", surveys={target: survey_of(found) for target, found in seen.items()})


def _always(policies: PolicyMaker) -> Callable[[LoopConfig], PolicyMaker]:
    return lambda _: policies


def _shown(value: object) -> str:
    return "-" if value is None else f"{value:.1%}" if isinstance(value, float) else str(value)


def _show(path: Path) -> int:
    """A line for each attempt of a journal: turns, how it survived, how it ended. Raises `ValueError` without one."""
    if path.suffix != SUFFIX or not path.is_file():
        raise ValueError(f"--journal: expected a file *{SUFFIX}, found {str(path)!r}")
    attempts = read_journal(path.parent, path.name.removesuffix(SUFFIX))
    for name, one in sorted(attempts.items()):
        ended = one.trajectory.ended if one.trajectory is not None else "open"
        before = f", lost {one.reopened} times before" if one.reopened else ""
        broken = f"  last failure: {one.broken[-1]}" if one.broken else ""
        print(
            f"{name}  {one.policy} on {one.device or 'no device'}: {len(one.turns)} turns, {ended}, resumed "
            f"{one.resumed}, anew {one.anew}{before}{broken}"
        )
    print(f"{len(attempts)} attempts, {sum(one.trajectory is not None for one in attempts.values())} ended")
    return 0


def _document(store: Store, folder: Path) -> int:
    """A document of each target that the verified rounds of a store have seen. Raises `StoreError` without rounds."""
    folder.mkdir(parents=True, exist_ok=True)
    rounds = require_verified(store, "documents of apps")
    for target, found in sorted(learned(store, list(rounds.values())).explorations.items()):
        path = folder / f"{target.replace('/', '-')}.md"
        path.write_text(document(target, found), encoding="utf-8")
        print(f"{path}: {len(found.screens)} screens")
    return 0


@contextlib.contextmanager
def _parts(options: argparse.Namespace, store: Store) -> Iterator[tuple[LoopParts, PolicyMaker]]:
    """What runs the rounds, and who acts in them."""
    with contextlib.ExitStack() as stack:
        places = DevicePlaces.of(options.device or (), options.site_url or "")
        pool = stack.enter_context(open_pool(places, [options.ground]))
        policies = checked(options, _chosen(options, _policies(options), stack))
        parts = LoopParts(workers=options.workers, progress=_bar(options.tasks), pool=pool)
        if options.propose or options.writer == "model":
            base_url, model = _endpoint(options)
            # A task that is written whole holds files, rule and two ways.
            longest = 4000 if options.propose == "whole" else 800
            client = ModelClient(base_url, model, store.home / "cache" / "proposer", max_tokens=longest)
            stack.callback(client.close)
            parts = replace(parts, proposers=lambda world, catalogue: _with_model(options, world, catalogue, client))
        yield parts, policies


def _chosen(options: argparse.Namespace, policies: PolicyMaker, stack: contextlib.ExitStack) -> PolicyMaker:
    """The policies, several proposals a turn and one taken."""
    if options.chooser == "rules":
        return with_proposals(policies, options.actions)

    # Of one proposal nothing can be chosen, and the model would be paid for nothing.
    if options.actions < 2:
        raise ValueError("--chooser model: expected --actions of at least 2 for it to take one of")
    endpoint = ChatEndpoint(*_endpoint(options))
    stack.callback(endpoint.close)
    return with_proposals(policies, options.actions, ModelJudge(endpoint))


def _with_model(options: argparse.Namespace, world: Any, catalogue: Any, client: Any) -> dict[str, Any]:
    """Proposers of which some ask the model."""
    found: dict[str, Any] = arms(
        world, catalogue, ModelWriter(client) if options.writer == "model" else None, options.proposer
    )
    if options.propose == "whole":
        if options.ground != "desktop":
            raise ValueError(f"--propose whole: expected --world desktop, found {options.ground!r:.40}")
        # By its path: it loads what only a desktop needs.
        found["written"] = find_part("proposer", WRITTEN, {})(world, catalogue, client)
    elif options.propose:
        # Named beside the model, the documents are its context, too.
        read = passages if "documents" in (options.proposer or ()) else None
        found["openai"] = OpenAIProposer(world, catalogue, client, read)
    return found


def _endpoint(options: argparse.Namespace) -> tuple[str, str]:
    if not options.base_url or not options.model:
        raise ValueError("expected --base-url (e.g. http://127.0.0.1:8000/v1) and --model for a model")
    return options.base_url, options.model


def _policies(options: argparse.Namespace) -> PolicyMaker:
    profile = load_profile(options.profile)
    if profile is not None and options.policy != "openai":
        raise ValueError(f"--profile: expected --policy openai, found {options.policy!r:.40}")
    if options.policy == "scripted":
        return build_policy("scripted", error_rate=options.error_rate)
    if options.policy == "openai":
        base_url, model = _endpoint(options)
        if profile is not None:
            return profiled_policies(base_url, model, profile, space=options.action_space)
        return build_policy("openai", base_url=base_url, model=model, action_space=options.action_space)
    if options.policy == "checkpoint":
        if options.checkpoint is None:
            raise ValueError("--policy checkpoint needs --checkpoint DIR")
        return build_policy("checkpoint", {**KNOWN, "checkpoint": checkpoint_policies}, checkpoint=options.checkpoint)
    return build_policy(options.policy)


def _bar(total: int) -> Any:
    """A progress bar on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        return None
    # Only where it is drawn.
    from tqdm import tqdm

    bar = tqdm(total=total, unit="task", leave=False)

    def report(done: object, number: int, whole: int) -> None:
        bar.reset(whole)
        bar.update(number)

    return report
