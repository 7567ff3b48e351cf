"""What a GPU makes of the trainer, in one report: ceilings of the card, mid-training of the 2b (tokens/s, MFU, memory),
a step of GRPO, replies drawn and their log-probabilities against the learner's, a mixture of experts, vLLM.

    make gpu                                        # one GPU of 80 GB, at most 25 minutes; leaves bench/gpu_report.md
    python bench/gpu.py --only ceilings,grpo        # some parts
    python bench/gpu.py --preset nano --device cpu  # a minute: shows that it runs; says nothing about a GPU

Each part is a process of its own, so that one that fails or runs out of memory costs the others nothing: the report
says why. Weights are random, in the published shapes, and screens are drawn: nothing is loaded from anywhere.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REPORT = HERE / "gpu_report.md"
MFU_WANTED = 0.45


@dataclass(frozen=True)
class GpuSection:
    """A script of this folder with its arguments, and what it is to show. `seconds`: it is ended after so many."""

    name: str
    shows: str
    script: str
    arguments: tuple[str, ...] = ()
    seconds: int = 240
    fixed: bool = False
    """Whether it has no preset."""


GRPO = ("--only", "grpo", "--micro-batch", "32", "--compile")
LARGE_GIB = 120.0
"""Memory of a card on which 16,384 tokens are computed at a time; on a smaller one 4,096."""
SMALLER = ("--max-length", "4096", "--gradient-accumulation-steps", "2")
PARTS = (
    GpuSection(
        "ceilings", "what the card does at best: products in bf16, copies", "gpu_ceilings.py", seconds=60, fixed=True
    ),
    GpuSection("midtrain", "mid-training, blocks compiled", "gpu_midtrain.py", ("--only", "midtrain", "--compile")),
    GpuSection("grpo", "an optimiser step of GRPO, groups of 8 replies, blocks compiled", "gpu_midtrain.py", GRPO),
    GpuSection("sampling", "200 replies drawn, and the learner's figures of them", "gpu_sampling.py"),
    GpuSection(
        "experts",
        "mid-training of the 30b-a3b with its first 4 layers, activations recomputed",
        "gpu_midtrain.py",
        ("--preset", "30b-a3b", "--layers", "4", "--only", "midtrain", "--sequences", "1", "--gradient-checkpointing"),
        fixed=True,
    ),
    GpuSection(
        "midtrain_plain",
        "mid-training, not compiled, activations recomputed",
        "gpu_midtrain.py",
        ("--only", "midtrain", "--gradient-checkpointing"),
    ),
    GpuSection(
        "vllm", "the same 200 prompts by a vLLM server, and an update of its weights", "gpu_vllm.py", seconds=420
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts, write the report, print it; 0 where no part failed (one that can't run here hasn't)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=("nano", "2b", "8b"), default="2b", help="(2b)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="(cuda)")
    parser.add_argument("--only", help=f"parts, of {', '.join(part.name for part in PARTS)}")
    parser.add_argument("--out", type=Path, default=REPORT, help="the report (bench/gpu_report.md); .json beside it")
    options = parser.parse_args(arguments)
    wanted = options.only.split(",") if options.only else [part.name for part in PARTS]
    if unknown := sorted(set(wanted) - {part.name for part in PARTS}):
        print(f"gpu: expected parts of {', '.join(part.name for part in PARTS)}, found {unknown[0]!r}", file=sys.stderr)
        return 2
    found: dict[str, dict[str, Any]] = {}
    for part in PARTS:
        if part.name in wanted:
            memory = found.get("ceilings", {}).get("memory_gib") or LARGE_GIB
            found[part.name] = measured(part, options.preset, options.device, small=memory < LARGE_GIB)
            options.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            options.out.write_text(report(found), encoding="utf-8")
    print(report(found))
    return int(any("failed" in one for one in found.values()))


def measured(part: GpuSection, preset: str, device: str, *, small: bool = False) -> dict[str, Any]:
    """What a part printed, and `wall_s`; {"failed": why}, or {"skipped": why} where it can't run here."""
    words = [*part.arguments, "--device", device] + ([] if part.fixed else ["--preset", preset])
    if small and part.name.startswith("midtrain"):
        words += SMALLER
    if device == "cpu":
        words = [word for word in words if word != "--compile"]  # a minute of a compiler, which shows nothing
        if part.name == "experts":
            return {"skipped": "it takes 60 GB and minutes a step on a CPU"}
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / part.script), *words],
            capture_output=True,
            text=True,
            timeout=part.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {part.seconds} s", "wall_s": float(part.seconds)}
    wall = round(time.perf_counter() - began, 1)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return {"failed": last[:300], "wall_s": wall}
    return {**json.loads(done.stdout), "wall_s": wall}


def report(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The parts' figures as a page."""
    lines = ["# Measured on a GPU", "", "By `make gpu`; random weights in the published shapes, drawn screens.", ""]
    for part in PARTS:
        if (figures := found.get(part.name)) is None:
            continue
        lines += [f"## {part.name}: {part.shows}", ""]
        if why := figures.get("failed") or figures.get("skipped"):
            lines += [f"{'Failed' if 'failed' in figures else 'Not here'}: {why}", ""]
            continue
        flat = {**figures, **figures.get("grpo", {})}
        flat.pop("grpo", None)
        lines += ["| figure | value |", "|---|---|", *(f"| {name} | {_shown(value)} |" for name, value in flat.items())]
        if part.name == "midtrain" and flat.get("mfu"):
            lines += ["", f"MFU wanted: {MFU_WANTED:.0%}, found {flat['mfu']:.1%}."]
        lines.append("")
    return "\n".join(lines)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


if __name__ == "__main__":
    sys.exit(main())
