"""`vesper play`: tasks of a world played by a checkpoint, in a real browser, and left as pictures to look at."""

import argparse
import json
from pathlib import Path

from dagster_project.commands.checkpoint_option import TEXT, add_profile, checkpoint
from dagster_project.commands.step_check_option import add_step_check, checked
from generators.execution.episode_film import FilmedEpisode, turn_line
from generators.execution.limits import AttemptLimits
from generators.policies.policy_maker import PolicyMaker
from generators.policies.profiles.agents import profiled_policies
from generators.policies.profiles.profile import OWN, load_profile
from generators.policies.registry import build_policy
from generators.tasks.task_spec import TaskSpec
from trainer.serving.checkpoint_policy import checkpoint_policies
from trainer.suites.options import EvaluationSubject
from trainer.suites.play import WORLDS, most_telling, opener, play, tasks_of

EXAMPLES = """examples:
  vesper play unified --world miniwob --task click-tab --out out/play
  vesper play unified --world phone --attempts 5
  vesper play --policy scripted --world fsm --task shop
  vesper play --base-url http://127.0.0.1:8000/v1 --model UI-Venus-8B --world datasette"""
ANIMATION, SHEET, PLAIN = "episode.webp", "sheet.png", "episode.json"


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("checkpoint", metavar="CKPT", type=checkpoint, nargs="?", help=f"{TEXT} (or --policy, or --base-url)")
    named = ", ".join(WORLDS)
    add("--world", required=True, metavar="WORLD", help=f"{named}, or your own as module:world or file.py:world")
    add("--task", default="", metavar="NAME", help="a page, goal, site or family of the world (any)")
    add("--seed", type=int, default=0, help="of the tasks, and of replies that are drawn (0)")
    add("--attempts", type=int, default=1, metavar="N", help="at most so many tasks, until one is solved (1)")
    add("--steps", type=int, metavar="N", help="of an episode at most (twice what the task should take, and 5)")
    add("--temperature", type=float, default=0.0, help="of a checkpoint's replies; 0 is greedy (0)")
    add("--style", choices=("full", "nano"), help="how large the world is drawn (by the checkpoint's preset)")
    add("--out", type=Path, default=Path("out/play"), help=f"folder of {ANIMATION}, {SHEET}, {PLAIN} (out/play)")
    add("--policy", metavar="POLICY", help="instead of a checkpoint: scripted, explorer, or your own as module:maker")
    add("--base-url", default="", metavar="URL", help="a server of the OpenAI protocol instead of a checkpoint")
    add("--model", default="", metavar="NAME", help="the served model's name")
    add_profile(parser)
    add_step_check(parser)
    add("--device", default="cpu", help="where the checkpoint runs (cpu)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Play, print a line a step, and write the episode to look at: the solved one, else the most telling."""
    if options.attempts < 1 or (options.steps is not None and options.steps < 1):
        raise ValueError(f"--attempts, --steps: expected at least 1, found {options.attempts} and {options.steps}")
    tasks = tasks_of(options.world, options.attempts, options.seed, [options.task] if options.task else [])
    policies, style = _policies(options)
    policies = checked(options, policies)
    options.out.mkdir(parents=True, exist_ok=True)
    # Without a factor the limit is the number that was asked for.
    limits = AttemptLimits() if options.steps is None else AttemptLimits(step_factor=0, step_extra=options.steps)
    played = play(
        tasks,
        opener(tasks[0], options.style or style),
        policies,
        lambda found: any(one.verdict == "solved" for one in found),
        seed=options.seed,
        limits=limits,
        on_task=_say_task,
        on_turn=lambda number, turn: print(turn_line(number, turn), flush=True),
        on_episode=lambda episode: print(f"{episode.verdict.upper()}: {episode.why}", flush=True),
    )
    shown = most_telling(played)
    # A failure shows more than a task that didn't count.
    episode = next(shown[verdict] for verdict in ("solved", "failed", "not counted") if verdict in shown)
    write(episode, options.out)
    if len(played) > 1:
        print(f"{sum(one.verdict == 'solved' for one in played)} of {len(played)} tasks solved")
    print(f"{options.out / ANIMATION}, {SHEET} and {PLAIN}: {episode.done.contract.target}, {episode.verdict}")
    return 0


def write(episode: FilmedEpisode, folder: Path) -> None:
    """The three files of an episode."""
    (folder / ANIMATION).write_bytes(episode.animation())
    (folder / SHEET).write_bytes(episode.sheet())
    plain = json.dumps(episode.plain(), indent=1, sort_keys=True, ensure_ascii=False)
    (folder / PLAIN).write_text(plain + "\n", encoding="utf-8", errors="replace")


def _say_task(task: TaskSpec) -> None:
    instruction = " ".join(task.instruction.split())[:300]
    print(f"{task.target}: {''.join(c for c in instruction if c.isprintable())}", flush=True)


def _policies(options: argparse.Namespace) -> tuple[PolicyMaker, str]:
    """Who acts, and the style in which its world is drawn."""
    if options.policy is not None:
        if options.checkpoint is not None or options.base_url or options.profile != OWN:
            raise ValueError("--policy: expected a checkpoint, --base-url or --policy alone, found two of them")
        return build_policy(options.policy), "full"
    if options.checkpoint is None and not options.base_url:
        raise ValueError("expected a checkpoint, or who acts instead: --policy NAME, or --base-url and --model")
    subject = EvaluationSubject(options.checkpoint, options.base_url, options.model, device=options.device)
    if (profile := load_profile(options.profile)) is not None:
        if subject.checkpoint is not None:
            raise ValueError("--profile: expected --base-url and --model (vesper serve CKPT), found a checkpoint")
        return profiled_policies(subject.base_url, subject.model, profile, temperature=options.temperature), "full"
    if subject.checkpoint is None:
        return build_policy("openai", base_url=subject.base_url, model=subject.model), "full"
    from trainer.modeling.checkpoint import read_preset  # with torch, which `--help` does without

    style = "nano" if read_preset(subject.checkpoint).name == "nano" else "full"
    return checkpoint_policies(subject.checkpoint, temperature=options.temperature, device=subject.device), style
