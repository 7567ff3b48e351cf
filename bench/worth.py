"""Does worth say what is true? Experiments in which it is known: python bench/worth.py EXPERIMENT --out DIR

    fidelity   30 % of a corpus is planted low fidelity: refined against raw at equal tokens
    corpora    five corpora, of which one is noise and one is poisoned: both have to come last, five times
    mixture    the searched shares against uniform ones, five times, on seeds that the search hasn't seen
    sources    the table of a store's sources (--store), timed; then one source changes, and it is timed again

Corpora are built in a real Chromium. Everything lies in DIR, so that a run that was killed goes on: probes are kept by
content. `--small` is a smoke run, whose figures say nothing.
"""

import argparse
import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq

from generators.proving.judge_bench.build import BenchConfig, build, read_report
from pipelines.store import PartSpec, Store
from pipelines.training_data.mixture_config import TARGET_SHARES
from quality.commands.refine import refine_directory
from quality.items.folder import read_directory
from quality.judges.registry import JudgeConfig
from quality.refinement.gold import gold_tables
from quality.refinement.refine import Refined
from schemas.ids import digest
from schemas.tables import OBJECTIVES
from trainer.evaluation.evaluate import choose
from trainer.presets import NANO_BASE
from trainer.settings.worth import WorthSettings
from trainer.stages.worth import Deployed, build_worth
from trainer.worth.measure import measure, worth_row
from trainer.worth.page import interval_text
from trainer.worth.pools import Cost, Pool, PoolRow
from trainer.worth.probe import ProbeRunner, eval_config, with_screens
from trainer.worth.studies import propose_shares
from trainer.worth.tables import ALONE, SOURCES
from trainer.worth.variants import Comparison, Variant, mixture_comparison, source_comparisons

REPEATS = 5
LOW = 0.303
"""Share of planted low fidelity, as in `vesper refine bench`."""
NOISE, POISON = "noise", "poison"


class Bench:
    """The folder of the experiments: corpora, pictures, and the probes that were run."""

    def __init__(self, out: Path, small: bool) -> None:
        self.out, self.small = out, small
        self.store = Store(out / "home")
        self.repeats = 1 if small else REPEATS
        few: dict[str, Any] = {"tokens": 2_000, "grounding": 12, "navigation": 4} if small else {}
        self.settings = WorthSettings(**few)

    def corpus(self, name: str, traces: int, low: float, seed: int) -> Path:
        """A corpus of the judge bench's worlds, built once; its pictures are put into the store."""
        folder, traces = self.out / name, 8 if self.small else traces
        config = BenchConfig(traces, traces // 2, 0, 0, low=low, seed=seed)
        if read_report(folder) is None:
            build(folder, config)
        shutil.copytree(folder / "screens", self.store.home / "screens", dirs_exist_ok=True)
        return folder

    def runner(self, questions: Sequence[Mapping[str, Any]], **more: object) -> ProbeRunner:
        """Probes of nano-base on these held-out rows, without their pictures yet."""
        settings = self.settings.changed(**more)
        asked = [with_screens(self.store, row) for row in choose(list(questions), eval_config(settings))]
        return ProbeRunner(self.store, NANO_BASE, asked, settings, progress=True)


def raw_pool(folder: Path) -> Pool:
    """Everything of a corpus as training rows, judged by nobody."""
    part = read_directory(folder)
    steps = [step.row for episode in part.episodes for step in episode.steps]
    everything = Refined(steps=steps, samples=[sample.row for sample in part.native_samples])
    return _pool(gold_tables(part.screens, everything, "unknown")[1].to_pylist())


def _pool(rows: Sequence[Mapping[str, Any]]) -> Pool:
    return tuple(PoolRow.of({**row, "split": "train"}) for row in sorted(rows, key=lambda row: row["sample_id"]))  # type: ignore[typeddict-item]


def held_out(bench: Bench) -> list[Mapping[str, Any]]:
    """Questions on sound screens of another seed."""
    return [one.row for one in raw_pool(bench.corpus("held_out", 160, 0.0, 8))]


def fidelity(bench: Bench, nano: Path | None) -> Iterator[dict[str, Any]]:
    """Refined against raw, with 30 % planted low fidelity."""
    folder, refined = bench.corpus("planted", 240, LOW, 7), bench.out / "refined"
    judge = JudgeConfig() if nano is None else JudgeConfig("nano", nano=nano)
    if not (refined / "report.json").is_file():
        refine_directory(folder, refined, judge)
    gold = _pool(pq.read_table(refined / "samples.parquet").to_pylist())
    made, held = (Variant(name, pool, TARGET_SHARES) for name, pool in (("refined", gold), ("raw", raw_pool(folder))))
    compared = Comparison("rule", "refined against raw", made, held, Cost(len(gold)))
    yield _row(compared, bench.runner(held_out(bench)))


def corpora(bench: Bench, nano: Path | None) -> Iterator[dict[str, Any]]:
    """Three sound corpora, one of noise and one poisoned, by what each adds to the base."""
    rows = raw_pool(bench.corpus("sound", 240, 0.0, 9))
    last = {"points": 0, "loss": 0}
    for repeat in range(bench.repeats):
        parts = five(rows, repeat)
        found = measure_all(bench.runner(held_out(bench), first_seed=10 * repeat), parts)
        for name in last:
            worst = {row["subject"] for row in sorted(found, key=itemgetter(name))[:2]}
            last[name] += worst == {NOISE, POISON}
        yield from ({**row, "repeat": repeat} for row in found)
    for name, times in last.items():
        yield {"subject": f"noise and poison last, by {name}", "of": bench.repeats, "times": times}


def five(rows: Pool, seed: int) -> dict[str, Pool]:
    """Rows of whole episodes and screens dealt to five corpora: one has the answers of other rows, one its points and
    boxes mirrored, as somebody who wants the agent to fail would."""
    names = ("sound_a", "sound_b", "sound_c", NOISE, POISON)
    dealt: dict[str, list[PoolRow]] = {name: [] for name in names}
    for one in rows:
        owner = (one.row["parents"] or [one.row["sample_id"]])[0].rpartition("/")[0] or one.row["images"][0]
        dealt[names[int(digest([seed, owner])[:8], 16) % 5]].append(one)
    rng = Random(seed)
    for objective in OBJECTIVES:
        places = [place for place, one in enumerate(dealt[NOISE]) if one.row["objective"] == objective]
        answers = [dealt[NOISE][place].row["answer"] for place in places]
        rng.shuffle(answers)
        for place, answer in zip(places, answers, strict=True):
            dealt[NOISE][place] = PoolRow.of({**dealt[NOISE][place].row, "answer": answer})
    dealt[POISON] = [PoolRow.of({**one.row, "answer": mirrored(one.row["answer"])}) for one in dealt[POISON]]
    return {name: tuple(listed) for name, listed in dealt.items()}


def mirrored(answer: str) -> str:
    """An answer with its numbers of 0..1000 seen from the other end; one without numbers, backwards."""
    turned = re.sub(r"(?<![\w-])\d{1,4}(?!\w)", lambda found: str(max(0, 1000 - int(found[0]))), answer)
    return turned if turned != answer else answer[::-1]


def measure_all(runner: ProbeRunner, parts: Mapping[str, Pool]) -> list[dict[str, Any]]:
    """What each corpus adds to the base."""
    costs = {name: Cost(len(pool)) for name, pool in parts.items()}
    compared = [one for one in source_comparisons(parts, parts, TARGET_SHARES, costs) if one.kind == ALONE]
    found = measure([variant for one in compared for variant in (one.treatment, one.control)], runner)
    return [worth_row(one, found) for one in compared]


def mixture(bench: Bench, nano: Path | None) -> Iterator[dict[str, Any]]:
    """Shares searched on three seeds, tried on three others, against uniform ones."""
    pool = raw_pool(bench.corpus("sound", 240, 0.0, 9))
    uniform, won = {name: 1 / len(OBJECTIVES) for name in OBJECTIVES}, 0
    for repeat in range(bench.repeats):
        questions = held_out(bench)
        proposal, _ = propose_shares(bench.runner(questions, first_seed=100 * repeat), pool)
        if proposal.shares is None:
            yield {"subject": "nothing proposed", "repeat": repeat}
            continue
        compared = mixture_comparison(pool, proposal.shares, uniform)
        row = _row(compared, bench.runner(questions, first_seed=100 * repeat + 50))
        won += row["points"] > 0
        yield {**row, "shares": proposal.shares, "repeat": repeat}
    yield {"subject": "searched beats uniform", "of": bench.repeats, "times": won}


def sources(bench: Bench, store: Path) -> Iterator[dict[str, Any]]:
    """The table of a store's sources in a copy of it, timed; and again after one source has lost a row in a hundred."""
    copied = Store(bench.out / "copy")
    if not (copied.home / "assets").is_dir():
        shutil.copytree(store, copied.home)
    names = sorted(path.parent.name for path in (copied.home / "assets" / "gold").glob("*/current.json"))
    config = {"worth": bench.settings.version_part()}
    seconds = []
    for changed in (False, True):
        if changed:
            _lose_rows(copied, names[0])
        began, ran = time.perf_counter(), [0]

        def count(event: Mapping[str, Any], ran: list[int] = ran) -> None:
            ran[0] += event["kind"] == "probe"

        manifest = build_worth(copied, SOURCES, Deployed(names, TARGET_SHARES), config, count, progress=True)
        seconds.append(time.perf_counter() - began)
        yield {"subject": "changed" if changed else "first", "probes": ran[0], "minutes": seconds[-1] / 60}
        yield from manifest.read("worth").to_pylist() if not changed else ()
    yield {"subject": "share of the time after one source changed", "share": seconds[1] / seconds[0]}


def _lose_rows(store: Store, name: str) -> None:
    gold = store.require(f"gold/{name}")
    if gold.counts.get("worth bench"):
        return
    with store.build(gold.asset, code_version="worth bench", inputs=gold.inputs, parts=[PartSpec("all", "1")]) as made:
        table = gold.read("samples")
        kept = table.slice(max(1, table.num_rows // 100))
        made.run_part(PartSpec("all", "1"), lambda out: out.table("samples", kept))
        made.commit(counts={**gold.counts, "worth bench": 1}, checks=[replace(one, passed=True) for one in gold.checks])


def _row(compared: Comparison, runner: ProbeRunner) -> dict[str, Any]:
    return worth_row(compared, measure([compared.treatment, compared.control], runner))


def main() -> None:
    """Run an experiment, and print and keep its rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=["fidelity", "corpora", "mixture", "sources"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--store", type=Path, help="sources: a store with gold and held-out samples; it is copied")
    parser.add_argument("--nano", type=Path, help="fidelity: the folder of a nano judge, in place of the rules")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    bench = Bench(options.out, options.small)
    if options.experiment == "sources":
        rows = sources(bench, options.store)
    else:
        rows = {"fidelity": fidelity, "corpora": corpora, "mixture": mixture}[options.experiment](bench, options.nano)
    listed = []
    for row in rows:
        listed.append(row)
        points = interval_text(row["points"], row["low"], row["high"]) if "points" in row else ""
        rest = {
            key: row[key] for key in ("repeat", "of", "times", "minutes", "probes", "share", "shares") if key in row
        }
        print(
            f"{row.get('kind', ''):30} {row['subject']:44} {points:26} {row.get('says', '')} {rest or ''}", flush=True
        )
        if "loss" in row:
            print(f"{'':76}loss {interval_text(row['loss'], row['loss_low'], row['loss_high'], 3)} {row['loss_says']}")
    (options.out / f"{options.experiment}.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
