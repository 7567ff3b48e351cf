"""`vesper eval`: any suite, for a checkpoint folder or a served model, beside its controls."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dagster_project.commands.checkpoint_option import TEXT, add_profile, add_reading, checkpoint
from dagster_project.commands.step_check_option import add_step_check
from dagster_project.commands.store_option import add_store
from dagster_project.demo.report import interval
from dagster_project.settings import deployment
from generators.policies.profiles.profile import load_profile
from pipelines.home import named_home
from pipelines.prompts.history import HISTORY_FORMS, HISTORY_STEPS, PROMPT_VERSIONS
from pipelines.store import Store, has_store
from trainer.suites.leaderboard import record
from trainer.suites.options import EvaluationSubject, SuiteOptions
from trainer.suites.registry import SUITES, suite
from trainer.suites.run import run_suite

EXAMPLES = """examples:
  vesper eval out/unified --suite heldout --home .vesper
  vesper eval out/unified --suite screenspot_v2 --raw ~/data/ScreenSpot-v2 --out report.json
  vesper eval out/unified --suite miniwob --limit 60 --temperature 1 --attempts 8 --workers 2 --record
  vesper eval --suite screenspot_pro --raw ~/data/SSPro --base-url http://127.0.0.1:8000/v1 --model UI-Venus-8B
  vesper eval --suite screenspot_pro --base-url http://127.0.0.1:8000/v1 --model UI-Venus-8B --profile ui-venus-1.5
  vesper eval out/unified --suite osworld --raw ~/OSWorld/evaluation_examples --only os --out report.json
  vesper eval --suite miniwob --base-url http://127.0.0.1:8000/v1 --model thinker --thinking --max-new-tokens 4096"""


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLES + "\n\nsuites:\n" + "\n".join(f"  {one.name:22} {one.title}" for one in SUITES.values())
    add = parser.add_argument
    add("checkpoint", metavar="CKPT", type=checkpoint, nargs="?", help=f"{TEXT} (or --base-url and --model)")
    add("--suite", default="heldout", metavar="NAME", help="what to evaluate on (heldout); see below")
    add_store(parser, "a store: held-out shards, unified sources, the blind table")
    parser.set_defaults(home=None)
    add("--raw", type=Path, metavar="PATH", help="native files of the suite (those of the deployment)")
    add("--out", type=Path, help="write the whole report here as JSON")
    add("--record", action="store_true", help="keep the figures in the store, for the leaderboard")
    add(
        "--limit", type=int, metavar="N", help="at most so many questions or episodes, chosen by hash (all; worlds 100)"
    )
    add("--seed", type=int, default=0, help="of the choice, of episodes and of sampling (0)")
    add("--attempts", type=int, default=1, metavar="K", help="worlds: tries of each task, for pass@K (1)")
    add("--temperature", type=float, default=0.0, help="worlds: 0 is greedy (0)")
    add("--workers", type=int, default=1, help="worlds, questions in flight (1)")
    add(
        "--only",
        action="append",
        default=[],
        metavar="FAMILY",
        help="worlds: this page, goal or site alone; osworld: a domain or id; repeatable",
    )
    add("--style", choices=("full", "nano"), help="worlds: how large they are drawn (by the checkpoint's preset)")
    add("--state", type=Path, metavar="DIR", help="worlds: keep journals here, so that a run goes on after a crash")
    add("--before", type=checkpoint, metavar="CKPT", help="latent: the checkpoint that this one was trained from")
    add("--base-url", default="", metavar="URL", help="a server of the OpenAI protocol instead of a checkpoint")
    add("--model", default="", metavar="NAME", help="the served model's name")
    add_profile(parser)
    add(
        "--words",
        choices=("told", "trained"),
        default="told",
        help="how a served model is asked: told what is wanted, or in the words of this project's training (told)",
    )
    add(
        "--history",
        choices=HISTORY_FORMS,
        default="action",
        help="worlds: how a served model is shown its past "
        "turns; with --words trained as `history` in its checkpoint's preset.json (action, also where none stands "
        "there)",
    )
    add(
        "--history-steps",
        type=int,
        default=HISTORY_STEPS,
        metavar="N",
        help="worlds: how many past turns a served model is shown; as `history_steps` of its preset.json "
        f"({HISTORY_STEPS})",
    )
    add(
        "--prompt-version",
        choices=PROMPT_VERSIONS,
        default=PROMPT_VERSIONS[0],
        help="worlds: with --words trained, as `prompt_version` of its preset.json (v1, also where none stands there)",
    )
    add(
        "--thinking",
        action="store_true",
        help="ask a served model for thoughts; with --words trained in worlds "
        "alone, where its checkpoint's preset.json says so",
    )
    add(
        "--max-new-tokens",
        type=int,
        metavar="N",
        help="of a reply at most: more for a served model that thinks at "
        "length, or it is cut and scored 0 (a checkpoint: as its preset says, 16 for a point; a served model: 512; "
        "with --words trained 112 or, --thinking, 1024, and 16 for a point)",
    )
    add_reading(parser)
    add_step_check(parser)
    add("--device", default="cpu", help="where the checkpoint runs (cpu)")
    add("--adb", default="adb", metavar="PATH", help="android_world: the adb program")
    add("--console-port", type=int, default=5554, help="android_world: the emulator's console port (5554)")
    parser.set_defaults(run=evaluate)


def evaluate(options: argparse.Namespace) -> int:
    """Run a suite, print its figures, write and keep the report."""
    known = suite(options.suite)
    subject = EvaluationSubject(
        options.checkpoint,
        options.base_url,
        options.model,
        options.words,
        options.device,
        options.history,
        options.thinking,
        options.reading,
        load_profile(options.profile),
        options.history_steps,
        prompt_version=options.prompt_version,
    )
    store = _store(options.home, needed=options.record or known.kind in ("heldout", "latent"))
    # Only grounding suites are read from native files; elsewhere `--raw` is taken as it was said.
    raw = options.raw or (_native_folder(known.raw) if known.kind == "grounding" else None)
    report = run_suite(
        options.suite,
        subject,
        SuiteOptions(
            store,
            raw,
            options.limit,
            options.seed,
            options.attempts,
            options.temperature,
            options.workers,
            options.style,
            tuple(options.only),
            options.before,
            options.state,
            options.max_new_tokens,
            options.adb,
            options.console_port,
            sys.stderr.isatty(),
            options.check_steps,
            options.tries,
        ),
    )
    for line in lines(report):
        print(line)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if options.record and store is not None:
        manifest = record(store, report)
        print(f"kept as {manifest.asset} {manifest.version}")
    return 0


def _store(path: Path | None, needed: bool) -> Any:
    """The store named, else that of $VESPER_HOME if it is one. Raises `ValueError` where one is needed."""
    home = path or named_home()
    if has_store(home):
        return Store(home)
    if path is not None or needed:
        raise ValueError(
            f"--home {home}: expected a store (a $VESPER_HOME with assets/), found none; run `vesper demo`"
        )
    return None


def _native_folder(name: str) -> Path | None:
    """Where the deployment keeps a suite's native files; None if there are none."""
    return deployment.load().native_folder(name)


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """A report's figures, one a line."""

    # Names come from data and could hold control characters for the terminal.
    def report_event(group: str, name: str, value: Mapping[str, object]) -> str:
        names = ("".join(c if c.isprintable() else " " for c in text) for text in (group, name))  # some are data's
        return f"{' '.join(f'{text:26.60}' for text in names)} {interval(dict(value)):>24}  n {value['n']}"

    suite, summary = report["suite"], report["summary"]
    if "headline" not in summary:  # the held-out suite, by domain
        for domain, found in summary.items():
            for measure in ("present", "absent") if domain == "grounding" else ("step", "type", "format"):
                yield report_event(domain, measure, found[measure])
            yield from (report_event(domain, f"control: {name}", value) for name, value in found["controls"].items())
            yield from _unreadable_lines(domain, found)
        return
    yield report_event(suite, str(summary["headline_of"]), summary["headline"])
    for name, value in summary.items():
        if name not in ("headline", summary["headline_of"]):
            yield from _interval_lines(suite, name, value, report_event)
    if not_asked := (report.get("read") or {}).get("not_asked"):
        yield f"not asked: {', '.join(f'{reason} {count}' for reason, count in not_asked.items() if count)}"
    yield from _unreadable_lines(suite, summary)
    if forms := summary.get("forms"):
        said = ", ".join(f"{form} {number}" for form, number in sorted(forms.items(), key=lambda pair: -pair[1]))
        yield f"points were read as {summary['frame']} of the picture, from {said}"
    if summary.get("not_answered"):
        yield f"not answered: {summary['not_answered']}"
    if left_out := summary.get("not_played"):
        kinds = ", ".join(f"{kind} {count}" for kind, count in left_out["by_kind"].items())
        yield f"not played here: {left_out['left_out']} tasks, for want of {kinds or 'nothing'} (--out says each)"
        yield from (f"no task file: {name}: {why}" for name, why in left_out["bad_files"].items())
    if why := summary.get("not_counted_why"):
        yield f"not counted: {', '.join(f'{reason} ({count})' for reason, count in list(why.items())[:5])}"


def _unreadable_lines(name: str, summary: Mapping[str, Any]) -> Iterator[str]:
    """What can't be read counts as a miss, which is said where there is any."""
    if share := summary.get("unreadable_share"):
        example = f" (one of them: {summary['unreadable_example']!r})" if summary.get("unreadable_example") else ""
        yield (
            f"NOT READABLE: {share:.1%} of the replies of {name}, which count as misses{example}; docs/training.md "
            "lists the forms that are read"
        )


def _interval_lines(group: str, name: str, value: Any, stated: Any) -> Iterator[str]:
    """The intervals at or below an entry of a summary."""
    if isinstance(value, Mapping):
        if {"mean", "low", "high", "n"} <= set(value):
            if value["n"]:
                yield stated(group, name, value)
        else:
            for key, inner in value.items():
                yield from _interval_lines(name if group else "", str(key), inner, stated)
