"""What every command that asks a judge takes: which judge, its endpoint, its second opinion, its trained folder."""

import argparse
from pathlib import Path
from typing import Any

from dagster_project.settings import deployment
from pipelines.extensions import find_part, is_outside
from pipelines.store import Store
from quality.evidence.reading import READERS
from quality.judges.registry import JUDGES, JudgeConfig

_NAMES = (
    "rules, process, openai, ensemble, cascade, keypoints, nano, or one of your own as module:maker or file.py:maker"
)


def judge_name(text: str) -> str:
    """The name of a judge, as it was given; one of your own is looked for when it is built. Raises
    `ArgumentTypeError` where no judge of that name comes with Vesper."""
    # Looking for it would run its code before the command does.
    if is_outside(text):
        return text
    try:
        find_part("judge", text, JUDGES)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def add_judge_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Add the options. `several`: --judge may be given more than once."""
    if several:
        parser.add_argument(
            "--judge",
            action="append",
            type=judge_name,
            metavar="JUDGE",
            help=f"{_NAMES}; may be given more than once, to stand side by side (default: rules)",
        )
    else:
        parser.add_argument(
            "--judge",
            type=judge_name,
            metavar="JUDGE",
            default="rules",
            help=f"{_NAMES} (default: rules; it, process and nano ask no server)",
        )
    parser.add_argument("--base-url", metavar="URL", help="of a server that speaks the OpenAI protocol")
    parser.add_argument("--model", metavar="NAME", help="the model to ask there")
    parser.add_argument("--second-model", metavar="NAME", help="for second opinions (cascade), or as a member `second`")
    parser.add_argument(
        "--member",
        action="append",
        default=[],
        metavar="JUDGE",
        help="of an ensemble; give it for each (default: rules, openai)",
    )
    parser.add_argument(
        "--weight",
        action="append",
        type=float,
        default=[],
        metavar="W",
        help="of an ensemble's member, in their order; `vesper judge bench` of several judges names "
        "fitting ones (default: all the same)",
    )
    parser.add_argument(
        "--ask-again",
        type=int,
        default=0,
        metavar="N",
        help="raise it to ask once more what the model couldn't answer (0)",
    )
    parser.add_argument(
        "--batch", action="store_true", help="ask by /v1/batches: answers come within a day, mostly for half the price"
    )
    add_read(parser, "read the screens whose source lists no elements")
    parser.add_argument(
        "--thoughts", action="store_true", help="give a step whose thought contradicts its action a low score"
    )
    parser.add_argument(
        "--process", action="store_true", help="give a run that leaves out what its goal names a low score"
    )
    parser.add_argument(
        "--nano",
        type=Path,
        metavar="DIR",
        help="a judge that `vesper judge train` wrote (default: the one in $VESPER_HOME)",
    )


def add_read(parser: argparse.ArgumentParser, what: str) -> None:
    """`--read`, for commands whose judges may read screens."""
    said = f"let {' or '.join(READERS)} (the first, if none is named) {what}"
    named = tuple(READERS)
    parser.add_argument("--read", nargs="?", const=named[0], default="", choices=named, metavar="PROGRAM", help=said)


def judge_config(options: argparse.Namespace, cache: Path | None, name: str | None = None, **client: object) -> Any:
    """The `JudgeConfig` of the options, for `name` where several judges were given."""
    named = name or options.judge
    # Options that weren't given leave the judge's own defaults.
    client |= {"ask_again": options.ask_again} if options.ask_again else {}
    client |= {"batch": True} if options.batch else {}
    members: dict[str, Any] = {"members": tuple(options.member)} if options.member else {}
    return JudgeConfig(
        named,
        options.base_url,
        options.model,
        second_model=options.second_model,
        weights=tuple(options.weight),
        cache=cache,
        nano=options.nano or trained_judge(),
        read=options.read,
        thoughts=options.thoughts,
        process=options.process,
        client=client,
        **members,
    )


def trained_judge() -> Path | None:
    """The nano judge of the store at $VESPER_HOME; None where none was trained."""
    home = deployment.home()
    manifest = Store(home).current("checkpoints/nano_judge") if home.is_dir() else None
    return manifest.file("nano.json").parent if manifest is not None else None
