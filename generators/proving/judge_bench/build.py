"""Builds a judge bench, or a corpus with a set share of planted low fidelity, from all worlds at hand.

A bench holds every sound trace and many damaged copies of it, so that each defect is frequent. A corpus holds each
trace once, sound or damaged, as a real source would. Both are a pure function of the configuration (and the pages).
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from generators.devices.browser import keep_browser
from generators.proving.judge_bench.assets import BUILD_VERSION
from generators.proving.judge_bench.defects.episodes import EPISODE_OPERATORS
from generators.proving.judge_bench.defects.grounding import MovedBox, is_off, one_box, whole_screen
from generators.proving.judge_bench.defects.steps import STEP_OPERATORS, DamagedTrace, Operator, Tools
from generators.proving.judge_bench.recorders.failing_policies import fail
from generators.proving.judge_bench.recorders.losses import KINDS
from generators.proving.judge_bench.tables import BenchTables, Label
from generators.proving.judge_bench.trace import GroundingScreen, Trace
from generators.proving.judge_bench.worlds import recorders
from generators.tasks.world_interface import World
from quality.items.truth import BAND_OF
from schemas.ids import digest

OPERATORS: dict[str, Operator] = {**STEP_OPERATORS, **EPISODE_OPERATORS}
HELD_OUT_SHARE = 0.4
"""Share of page families that no judge is trained on."""
WITH_STEP_WORDS, WITH_BOXES = 0.5, 0.5
"""Shares of traces whose source would write step instructions, and target boxes."""
TRIES = 4
"""Traces tried for each copy wanted of an operator."""


@dataclass(frozen=True)
class BenchConfig:
    """`traces` and `screens`: sound traces and grounding screens in all. `copies`: damaged traces wanted per operator.
    `natural`: failed traces of policies. `low`: None for a bench; for a corpus the share of low-fidelity items."""

    traces: int = 300
    screens: int = 160
    copies: int = 60
    natural: int = 60
    low: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.traces, self.screens, self.copies, self.natural) < 0 or not self.traces:
            raise ValueError(f"judge bench: expected counts of 0 and more, and at least one trace, found {self}")
        if self.low is not None and not 0 <= self.low < 1:
            raise ValueError(f"judge bench: low must be in 0..1, found {self.low}")


def is_held_out(family: str) -> bool:
    """Whether a page family is kept from training: by the hash of its name alone."""
    # By the name alone, so that it never changes with seeds or sizes.
    return int(digest(["held out", family])[:8], 16) / 0xFFFFFFFF < HELD_OUT_SHARE


@keep_browser()  # the recorders' worlds open one after another
def build(folder: Path, config: BenchConfig, pages: Path | None = None) -> dict[str, Any]:
    """Write a bench or corpus into `folder` (replacing what stands there); returns its report, which also says what the
    recorders lost by family and reason (`losses`), and families of which nothing came (`dry`).

    `pages`: the unpacked html pages of others (see deploy/get_pages.sh); None = that world is left out, and the report
    says so. Raises `ValueError` for a folder that holds something else than a bench.
    """
    # Never delete a folder that isn't an earlier bench.
    if folder.exists() and any(folder.iterdir()) and not (folder / "truth.parquet").exists():
        raise ValueError(f"{folder}: expected an empty folder or an earlier judge bench; name another one")
    shutil.rmtree(folder, ignore_errors=True)
    tables, counts = BenchTables(folder), Counter[str]()
    worlds, losses, dry = recorders(pages), {}, []
    for name, (share, recorder) in worlds.items():
        # A generator a world: adding one leaves the others as they are.
        rng = Random(f"judge-bench/{config.seed}/{name}")
        with recorder.open() as world:
            wanted = max(2, round(config.traces * share))
            traces = list(recorder.record(world, wanted, config.seed * 10_000))
            screens = list(recorder.grounding(world, max(1, round(config.screens * share)), config.seed * 10_000))
            counts[f"traces:{name}"], counts[f"screens:{name}"] = len(traces), len(screens)
            counts.update({f"{kind}:{name}": lost for kind in KINDS if (lost := recorder.losses.total(kind))})
            losses[name] = recorder.losses.plain()
            # Families of which nothing came: recorders that dried up show.
            dry += sorted({family for family, _ in recorder.losses.dropped} - {one.family for one in traces + screens})
            if config.low is None:
                _bench(tables, world, traces, config, share, rng, counts)
                _screens(tables, screens, rng, counts, 0.5)
            else:
                _corpus(tables, world, traces, config.low, rng, counts)
                _screens(tables, screens, rng, counts, config.low)
    tables.write()
    report: dict[str, Any] = {"version": BUILD_VERSION, "config": asdict(config), "worlds": list(worlds)}
    report |= {"pages": pages is not None, "counts": dict(sorted(counts.items()))}
    report |= {"losses": {name: lost for name, lost in losses.items() if lost}, "dry": dry}
    (folder / "bench.json").write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return report


def _bench(
    tables: BenchTables,
    world: World,
    traces: Sequence[Trace],
    config: BenchConfig,
    share: float,
    rng: Random,
    counts: Counter[str],
) -> None:
    """All sound traces, damaged copies by every operator, and failures of policies."""
    for trace in traces:
        _sound(tables, trace)
    for name, operator in OPERATORS.items():
        # At least one copy, however small a world's share is.
        wanted = max(1, round(config.copies * share))
        for sound, planted in _copies(operator, world, traces, wanted, rng):
            _damaged(tables, planted, sound, operator, counts, name)
    wanted = round(config.natural * share)
    # Failures of policies are recorded, not made from sound traces.
    for trace in fail(world, traces, config.seed, wanted) if wanted else ():
        written = tables.episode(trace, *_writes(trace))
        held_out = "family" if is_held_out(trace.family) else ""
        tables.label_episode(written, trace, Label("natural", trace.failure, "reconstruct", "state", held_out))
        counts[f"natural:{trace.failure}"] += 1


def _corpus(
    tables: BenchTables, world: World, traces: Sequence[Trace], low: float, rng: Random, counts: Counter[str]
) -> None:
    """Each trace once; operators in turn until the share of low-fidelity items is reached.

    A defect of a whole trace makes all its items low; a defect of one step makes that step low.
    """
    order = rng.sample(list(traces), len(traces))
    total, planted_items = sum(len(trace.moves) for trace in order), 0
    turn = rng.sample(list(OPERATORS), len(OPERATORS))
    for trace in order:
        planted, name = None, ""
        # Stop at the wanted share, whatever operators apply to.
        if planted_items < low * total:
            tools = Tools(world, traces, rng)
            for _ in range(len(turn)):
                name = turn.pop(0)
                # Operators in turn, so that frequent ones don't crowd out the others.
                turn.append(name)
                planted = OPERATORS[name].make(trace, tools)
                if planted is not None:
                    break
        if planted is None:
            _sound(tables, trace)
            continue
        _damaged(tables, planted, trace, OPERATORS[name], counts, name)
        # A whole trace is low with all its items.
        planted_items += 1 if planted.step is not None else len(planted.trace.moves)


def _writes(trace: Trace) -> tuple[bool, bool]:
    """Whether the trace's source writes step instructions, and target boxes: by its undamaged name."""
    # By the undamaged name: a copy must not differ from its original in what is written.
    rng = Random(f"writes/{trace.uid.partition('~')[0]}")
    return rng.random() < WITH_STEP_WORDS, rng.random() < WITH_BOXES


def _sound(tables: BenchTables, trace: Trace) -> None:
    name = tables.episode(trace, *_writes(trace))
    held_out = "family" if is_held_out(trace.family) else ""
    label = Label("hard" if trace.odd else "clean", trace.odd, "keep", "state", held_out)
    tables.label_episode(name, trace, label)
    for step, move in enumerate(trace.moves):
        tables.label_step(name, step, trace, replace(label, label="hard" if move.odd else "clean", kind=move.odd))


def _copies(
    operator: Operator, world: World, traces: Sequence[Trace], wanted: int, rng: Random
) -> Iterator[tuple[Trace, DamagedTrace]]:
    """(sound trace, damaged copy) of up to `wanted` damaged copies, over `TRIES` times as many traces."""
    tools, built = Tools(world, traces, rng), 0
    order = rng.sample(list(traces), len(traces))
    for trace in order[: wanted * TRIES]:
        planted = operator.make(trace, tools)
        if planted is not None:
            built += 1
            yield trace, planted
        if built == wanted:
            return


def _damaged(
    tables: BenchTables, planted: DamagedTrace, sound: Trace, operator: Operator, counts: Counter[str], name: str
) -> None:
    trace = planted.trace
    # The family wins: a held-out family is held out whatever the operator.
    held_out = "family" if is_held_out(trace.family) else operator.held_out
    label = Label(
        "planted",
        operator.defect,
        BAND_OF[operator.defect],
        planted.confirmed_by,
        held_out,
        planted.magnitude,
        planted.original,
    )
    written = tables.episode(trace, *_writes(trace), sound=sound)
    if planted.step is None:
        tables.label_episode(written, trace, label)
    else:
        tables.label_step(written, planted.step, trace, label)
    counts[f"planted:{name}"] += 1


def _screens(
    tables: BenchTables, screens: Sequence[GroundingScreen], rng: Random, counts: Counter[str], low: float
) -> None:
    """Each grounding screen once: sound, with one box moved, or with all of them moved.

    About a share `low` of the items is moved: a moved screen damages all of its items, so those are the fewer.
    """
    total, moved_items = sum(len(screen.items) for screen in screens), 0
    for number, screen in enumerate(rng.sample(list(screens), len(screens))):
        moved: list[MovedBox] = []
        large = rng.random() < 0.5
        # In turn, one box or all of them.
        defect = "shifted_screen" if number % 2 else "shifted_box"
        if moved_items < low * total:
            moved = whole_screen(screen, rng, large) if defect == "shifted_screen" else one_box(screen, rng, large)
        held_out = "family" if is_held_out(screen.family) else ""
        labels: list[Label | None] = [
            Label("hard" if at in screen.odd else "clean", screen.odd.get(at, ""), "keep", "hit_test", held_out)
            for at in range(len(screen.items))
        ]
        for one in moved:
            original = {"box": screen.items[one.item].place.box}
            by = held_out or ("magnitude" if large else "")
            off = Label("planted", defect, BAND_OF[defect], "hit_test", by, one.sizes, original)
            # A box that was moved within its element is neither right nor wrong, and has no label.
            labels[one.item] = off if is_off(screen, one) else None
            counts[f"planted:{defect}" if is_off(screen, one) else "benign"] += 1
        moved_items += len(moved)
        tables.grounding(screen, moved, labels)


def read_report(folder: Path) -> Mapping[str, object] | None:
    """The report of an earlier build; None where there is none."""
    path = folder / "bench.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
