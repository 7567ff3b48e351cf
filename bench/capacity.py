"""What a corpus and a number of trajectories cost in cores, GPU-hours, judge tokens and disk: docs/capacity.md.

    python bench/capacity.py                              # the page, from bench/capacity_figures.json
    python bench/capacity.py --tokens 1e9 --trajectories 5000 --out /tmp/smaller.md
    python bench/capacity.py measure --home .vesper --report report.json --generation bench/generation.json

`measure` reads what a demo (`make demo`), `make bench` and `bench/generation.py` left on this machine and asks a judge
about one source through a server on loopback; each figure is kept with where it was measured. What needs a GPU or real
devices to measure stands among the assumptions, and every one of them is an option.
"""

import argparse
import json
import math
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from bench.capacity_measure import measure, read  # noqa: E402
from pipelines.prompts.tokens import image_tokens  # noqa: E402

FIGURES = Path(__file__).parent / "capacity_figures.json"
PAGE = ROOT / "docs" / "capacity.md"
WORKERS = (1, 16, 64)
"""Cores: one, one machine's, and those of a small fleet."""
SCALES = (1, 10, 100)
"""Times the corpus that the page is about."""


def _assumed(value: float, what: str) -> Any:
    return field(default=value, metadata={"what": what})


@dataclass(frozen=True)
class Assumptions:
    """What nobody has measured here, for an 8B model; each is an option."""

    picture_width: int = _assumed(1280, "pixels of a screen as it is trained on and judged; one token a square of 32")
    picture_height: int = _assumed(720, "the same")
    chars_per_token: float = _assumed(4.0, "of the judge's prompts")
    parameters: float = _assumed(8.8e9, "active ones, of a mixture of experts")
    peak_tflops: float = _assumed(989.0, "dense bf16 of an H100 or H200, as its data sheet says")
    mfu: float = _assumed(0.35, "share of the peak that training reaches; `bench/gpu_midtrain.py` measures it")
    epochs: float = _assumed(1.0, "how often mid-training sees the corpus")
    prefill_per_s: float = _assumed(10_000.0, "prompt tokens a second that a GPU reads (judge, policy; vLLM)")
    decode_per_s: float = _assumed(2_000.0, "tokens a second that it writes, many requests at once")
    judge_reply_tokens: float = _assumed(60.0, "a short JSON with a reason")
    policy_reply_tokens: float = _assumed(120.0, "a thought and an action")
    history_pictures: float = _assumed(1.0, "pictures in the policy's prompt")
    turn_s: float = _assumed(8.0, "seconds of a real device a turn: reply, action, a page that settles")
    attempts: float = _assumed(1.0, "at each task, as groups of RL or best-of-n take them")
    rl_passes: float = _assumed(2.0, "times that a trajectory is trained on, offline and online")
    copies: float = _assumed(2.0, "versions of derived data kept at once (`vesper gc --keep`)")
    machine_tb: float = _assumed(8.0, "disk of one machine")
    night_h: float = _assumed(12.0, "hours in which a night's data stages have to be done")


@dataclass(frozen=True)
class Line:
    """A line of the page: of the corpus or the trajectories, what, how much, how it comes about."""

    of: str
    what: str
    value: float
    unit: str
    how: str


def cost(figures: Mapping[str, Any], said: Assumptions, tokens: float, trajectories: float) -> list[Line]:
    """All lines for a corpus of so many tokens and so many verified trajectories."""
    found = {name: float(figure["value"]) for name, figure in figures.items()}
    return [*corpus(found, said, tokens), *rollouts(found, said, trajectories)]


def corpus(f: Mapping[str, float], said: Assumptions, tokens: float) -> list[Line]:
    """From native rows to a mid-trained checkpoint."""
    picture = image_tokens(said.picture_width, said.picture_height)
    text = f["text tokens a sample"]
    samples = tokens / said.epochs / (text + picture)
    rows = samples / f["training samples a native row"]
    screens = rows * f["pictures a native row"] * _picture_bytes(f, said)
    shards = screens * f["bytes of shards a byte of pictures"]
    requests, prompt = rows * f["judge's requests a native row"], _judge_prompt(f, said)
    reply = requests * said.judge_reply_tokens
    cores = {
        "unify, rows": ("rows / rows a second, nested", rows / f["rows unified, nested"]),
        "unify, pictures": (
            "pictures x pixels / pixels a second",
            rows * f["pictures a native row"] * said.picture_width * said.picture_height / f["pixels verified"],
        ),
        "rules judge and refinement": ("rows / rows a second", rows / f["rows judged by rules and refined"]),
        "duplicates": ("samples / items a second", samples / f["items deduplicated, embedding included"]),
        "contamination and scan": (
            "samples / samples a second",
            samples / f["samples checked for contamination and scanned"],
        ),
        "packing": ("samples / samples a second", samples / f["samples packed"]),
    }
    lines = [
        ("training samples", samples, "samples", f"tokens / epochs / ({text:.0f} of text + {picture} of a picture)"),
        ("native rows", rows, "rows", "samples / samples a row"),
        *((name, seconds / 3600, "core-hours", how) for name, (how, seconds) in cores.items()),
        ("model judge, if one is asked: requests", requests, "requests", "rows x requests a row"),
        ("its prompt tokens", requests * prompt, "judge tokens", f"requests x {prompt:.0f}"),
        ("its reply tokens", reply, "judge tokens", "requests x tokens a reply"),
        ("its GPUs, if served here", _served(said, requests * prompt, reply), "GPU-hours", "tokens / tokens a second"),
        ("mid-training", _trained(said, tokens), "GPU-hours", "6 x parameters x tokens / (peak x MFU)"),
        ("screens", screens, "bytes", "pictures x pixels x bytes a pixel"),
        (
            "tables (unified, verdicts, gold)",
            rows * f["bytes of tables a native row"] * said.copies,
            "bytes",
            "rows x bytes a row x copies",
        ),
        ("shards", shards * said.copies, "bytes", "screens x bytes a byte x copies"),
    ]
    return [Line("corpus", *one) for one in lines]


def rollouts(f: Mapping[str, float], said: Assumptions, trajectories: float) -> list[Line]:
    """From tasks to verified trajectories, and RL on them."""
    executed = trajectories * f["tasks executed for a verified trajectory"] * said.attempts
    turns = executed * f["turns a task"]
    picture = image_tokens(said.picture_width, said.picture_height)
    context = said.history_pictures * picture + f["text tokens a sample"]
    written = turns * said.policy_reply_tokens
    requests, prompt = turns * f["judge's requests a native row"], _judge_prompt(f, said)
    reply = requests * said.judge_reply_tokens
    learned = trajectories * f["turns a task"] * (context + said.policy_reply_tokens) * said.rl_passes
    lines = [
        ("tasks executed", executed, "tasks", "trajectories x tasks a verified one x attempts"),
        ("turns", turns, "turns", "tasks x turns a task"),
        ("devices", turns * said.turn_s / 3600, "device-hours", "turns x seconds a turn"),
        (
            "proposing, environments, verdicts",
            executed * f["cores' seconds a task, proposing to verdict"] / 3600,
            "core-hours",
            "tasks x seconds a task",
        ),
        ("policy's prompt tokens", turns * context, "policy tokens", f"turns x {context:.0f}"),
        ("policy's reply tokens", written, "policy tokens", "turns x tokens a reply"),
        ("policy", _served(said, turns * context, written), "GPU-hours", "tokens / tokens a second"),
        ("judge's prompt tokens", requests * prompt, "judge tokens", f"turns x requests a row x {prompt:.0f}"),
        ("judge's reply tokens", reply, "judge tokens", "requests x tokens a reply"),
        ("judge", _served(said, requests * prompt, reply), "GPU-hours", "tokens / tokens a second"),
        (
            "RL's training",
            _trained(said, learned),
            "GPU-hours",
            "6 x parameters x tokens of verified turns x passes / (peak x MFU)",
        ),
        ("screens", turns * _picture_bytes(f, said), "bytes", "turns x pixels x bytes a pixel"),
    ]
    return [Line("trajectories", *one) for one in lines]


def _picture_bytes(f: Mapping[str, float], said: Assumptions) -> float:
    return said.picture_width * said.picture_height * f["bytes a picture's pixel"]


def _judge_prompt(f: Mapping[str, float], said: Assumptions) -> float:
    """Tokens that a judge reads a request."""
    pictures = f["pictures a judge's request"] * image_tokens(said.picture_width, said.picture_height)
    return f["characters a judge's request"] / said.chars_per_token + pictures


def _served(said: Assumptions, prompt: float, reply: float) -> float:
    """GPU-hours of a server that reads and writes so many tokens."""
    return (prompt / said.prefill_per_s + reply / said.decode_per_s) / 3600


def _trained(said: Assumptions, tokens: float) -> float:
    """GPU-hours of training: 6 FLOPs a parameter and token (Kaplan et al., 2020, section 2.1)."""
    return 6 * said.parameters * tokens / (said.peak_tflops * 1e12 * said.mfu) / 3600


def page(figures: Mapping[str, Any], said: Assumptions, tokens: float, trajectories: float) -> str:
    """docs/capacity.md."""
    lines = cost(figures, said, tokens, trajectories)
    corpus_of, rollouts_of = f"{_told(tokens, '')} tokens", f"{trajectories:,.0f} trajectories"
    out = [
        "# Capacity",
        "",
        _filled(f"""What {corpus_of} of training and {rollouts_of}, verified, cost: cores, GPU-hours, judge tokens and
            disk. This page is made by"""),
        "",
        "```",
        "python bench/capacity.py",
        "```",
        "",
        _filled("""from figures measured on a machine of two cores ([Measured](#measured)) and from assumptions
            ([Assumed](#assumed)) that nobody here could measure, for want of a GPU and of real devices. Every
            assumption is an option of that command, and so are `--tokens` and `--trajectories`; `python
            bench/capacity.py measure` takes the figures of your own machine. Core-hours are of one core; parts
            are independent, so cores divide the time. The measured corpus is the demo's, which has many rows a
            screen; one of recordings alone has about one picture a row, so look at the screens' line again with
            figures of yours."""),
        "",
    ]
    for of, title in (("corpus", corpus_of), ("trajectories", rollouts_of)):
        out += [f"## {title}", "", "| what | how much | how it comes about |", "|---|---:|---|"]
        out += [f"| {one.what} | {_told(one.value, one.unit)} | {one.how} |" for one in lines if one.of == of] + [""]
    out += ["## Sums", "", "| what | corpus | trajectories | both |", "|---|---:|---:|---:|"]
    for unit in ("core-hours", "GPU-hours", "judge tokens", "device-hours", "bytes"):
        sums = [
            sum(one.value for one in lines if one.unit == unit and one.of in of)
            for of in (("corpus",), ("trajectories",), ("corpus", "trajectories"))
        ]
        out.append(f"| {'disk' if unit == 'bytes' else unit} | {' | '.join(_told(one, unit) for one in sums)} |")
    out += [
        "",
        _filled("""Downloads aren't counted: what each source takes stands in [sources.md](sources.md). With the rules
            judge or the nano judge the judge's lines are 0. A later night costs the share of the corpus's lines
            that changed."""),
        "",
        *growing(lines, said),
        "## Measured",
        "",
        "| figure | value | unit | where | date |",
        "|---|---:|---|---|---|",
        *(
            f"| {name} | {entry['value']:,.4g} | {entry['unit']} | {entry['where']} | {entry['date']} |"
            for name, entry in figures.items()
        ),
        "",
        "## Assumed",
        "",
        "| option | value | what |",
        "|---|---:|---|",
        *(
            f"| `--{one.name.replace('_', '-')}` | {getattr(said, one.name):,.6g} | {one.metadata['what']} |"
            for one in fields(said)
        ),
        "",
    ]
    return "\n".join(out)


def growing(lines: list[Line], said: Assumptions) -> list[str]:
    """The section on larger corpora: hours of the data stages on more cores, disk, and which bound is passed first.

    Stages are linear (`make growth` fails where one isn't) and their parts independent, so hours are core-hours divided
    by cores; what starts once, and a reduce step in one process, come on top.
    """
    hours = sum(one.value for one in lines if one.of == "corpus" and one.unit == "core-hours")
    rows = next(one.value for one in lines if one.what == "native rows")
    disk = sum(one.value for one in lines if one.of == "corpus" and one.unit == "bytes")
    words = {1: "one core", 16: "16 cores, one machine", 64: "64 workers"}
    out = [
        "## Ten and a hundred times that",
        "",
        f"| corpus | native rows | {' | '.join(words[count] for count in WORKERS)} | disk |",
        f"|---|---:|{'---:|' * len(WORKERS)}---:|",
    ]
    for scale in SCALES:
        spent = " | ".join(f"{hours * scale / count:,.3g} h" for count in WORKERS)
        out.append(f"| {scale} x | {_told(rows * scale, '')} | {spent} | {_told(disk * scale, 'bytes')} |")
    # Both bounds as a multiple of the corpus: whichever is smaller is met first.
    disk_at = said.machine_tb * 1e12 / disk
    night_at = {count: said.night_h * count / hours for count in WORKERS}
    first = {count: "the night" if night_at[count] < disk_at else "the disk" for count in WORKERS}
    out += [
        "",
        _filled(f"""Hours are core-hours of the data stages by cores, with the rules judge. What breaks first, as the
            corpus grows, where a night of {said.night_h:g} hours has to do: {first[1]} on one core
            ({min(night_at[1], disk_at):.3g} times this corpus), {first[16]} on one machine of 16 cores and
            {said.machine_tb:g} TB ({min(night_at[16], disk_at):.3g} times; its disk is full at {disk_at:.3g}), and the
            night with 64 workers whose store is a bucket ({night_at[64]:.3g} times). A model judge that is asked about
            everything needs the GPUs of its line above, times as much."""),
        "",
    ]
    return out


def _filled(text: str) -> str:
    """A paragraph as the documentation's lines are."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def _told(value: float, unit: str) -> str:
    if unit == "bytes":
        names, step = ("B", "kB", "MB", "GB", "TB", "PB"), 1000.0
        place = min(int(math.log(max(value, 1), step)), len(names) - 1)
        return f"{value / step**place:.3g} {names[place]}"
    for size, word in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.3g} {word} {unit}".strip()
    return f"{value:,.0f} {unit}".strip() if value >= 100 else f"{value:.2g} {unit}".strip()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what",
        nargs="?",
        choices=("page", "measure"),
        default="page",
        help="write the page from figures, or measure the figures (page)",
    )
    parser.add_argument("--figures", type=Path, default=FIGURES, help="(bench/capacity_figures.json)")
    parser.add_argument("--tokens", type=float, default=10e9, help="of the corpus (10e9)")
    parser.add_argument("--trajectories", type=float, default=30_000, help="verified ones (30000)")
    parser.add_argument("--out", type=Path, default=PAGE, help="where the page goes (docs/capacity.md)")
    for one in fields(Assumptions):
        parser.add_argument(
            f"--{one.name.replace('_', '-')}",
            type=type(one.default),
            default=one.default,
            help=one.metadata["what"].replace("%", "%%"),
        )
    parser.add_argument("--home", type=Path, default=Path(".vesper"), help="measure: a store that `make demo` filled")
    parser.add_argument("--rounds", type=Path, help="measure: a store with rounds of the generation loop (the same)")
    parser.add_argument("--report", type=Path, default=Path("report.json"), help="measure: of that demo")
    parser.add_argument(
        "--generation",
        type=Path,
        default=ROOT / "bench" / "generation.json",
        help="measure: what bench/generation.py left",
    )
    parser.add_argument(
        "--results", type=Path, default=ROOT / "bench" / "results.json", help="measure: what make bench left"
    )
    options = parser.parse_args(arguments)
    if options.what == "measure":
        rounds = options.rounds or options.home
        found = measure(options.home.resolve(), rounds.resolve(), options.report, options.generation, options.results)
        options.figures.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"{len(found)} figures in {options.figures}")
        return 0
    said = Assumptions(**{one.name: getattr(options, one.name) for one in fields(Assumptions)})
    options.out.write_text(page(read(options.figures), said, options.tokens, options.trajectories), encoding="utf-8")
    print(f"written: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
