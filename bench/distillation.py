"""Distillation beside merging, at equal cost: python bench/distillation.py --out DIR [--seeds 3] [--small]

nano-base learns a drawn world of three domains with bad habits (`bench/distillation_world.py`), and for every seed:

    teacher      a specialist of each domain by offline RL, `Sizes.updates` updates
    distilled    the mid-trained model, distilled from the teachers; by each of `DISTILLED`
    trained on   the same specialists after as many replies more as distillation samples, of which are merged
    TIES         (density and lambda chosen on validation, as the stage does) and
    linear

Held-out success is greedy; intervals are of a bootstrap over rows and, independently, over seeds
(`trainer.statistics.crossed_interval`). CPU seconds of training are of the process, sampling and validation included.
Everything lies in DIR, so that a run that was killed goes on. `--small` is a smoke run, whose figures say nothing.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bench.distillation_world import DOMAINS, rows, supervised
from trainer.data.row_sources import ListSource
from trainer.distill.train import DomainRows, distill
from trainer.merging.merge import merge
from trainer.merging.merge_choice import candidates, choose_ties, validation_tasks
from trainer.midtrain.train import train
from trainer.modeling.checkpoint import LINEAGE, lineage, load_checkpoint, save_checkpoint
from trainer.modeling.sampler import Sampler
from trainer.offline.held_out import measure
from trainer.offline.run import FILE
from trainer.offline.tasks import tasks_of
from trainer.offline.train import train_offline
from trainer.presets import NANO_BASE
from trainer.settings.distill import DistillSettings, Teachers
from trainer.settings.domains import DOMAINS as TABLE
from trainer.settings.domains import DomainName
from trainer.settings.measuring import MergeSettings
from trainer.settings.offline import OfflineConfig
from trainer.settings.presets import NORMS
from trainer.settings.rewards import RewardConfig
from trainer.settings.supervised import MidtrainConfig
from trainer.statistics import crossed_interval

NAMES: dict[DomainName, str] = {name: TABLE[name].offline for name in DOMAINS}
DISTILLED: dict[str, dict[str, Any]] = {
    "distilled, full, untold": {"divergence": "full", "told_type": False},
    "distilled, full": {"divergence": "full"},
    "distilled, sampled": {"divergence": "sampled"},
}
MEANS = "mean"


@dataclass(frozen=True)
class Sizes:
    """How much is trained and measured; rows are of each domain."""

    midtrain_steps: int = 160
    supervised: int = 400
    train: int = 400
    validation: int = 24
    held_out: int = 120
    updates: int = 8
    prompts: int = 16
    replies: int = 8
    distill_updates: int = 16
    distill_prompts: int = 16

    @property
    def more_updates(self) -> int:
        """Updates of RL that sample as many replies of a domain as distillation does."""
        return -(-self.distill_updates * self.distill_prompts // (self.prompts * self.replies))


SMALL = Sizes(4, 12, 12, 6, 6, 1, 2, 2, 1, 2)


class Bench:
    """The folder of the experiment: models, and what was measured of them."""

    def __init__(self, out: Path, sizes: Sizes) -> None:
        self.out, self.sizes = out, sizes
        self.file = out / "measured.json"
        self.measured: dict[str, Any] = json.loads(self.file.read_text()) if self.file.is_file() else {}

    def model(self, name: str, make: Callable[[Path], object]) -> Path:
        """A checkpoint that is made once, with its CPU seconds."""
        folder = self.out / name
        if not (folder / LINEAGE).is_file():
            began = time.process_time()
            make(folder)
            self._note(f"seconds {name}", time.process_time() - began)
        return folder

    def success(
        self, name: str, folder: Path, domains: tuple[DomainName, ...] = DOMAINS
    ) -> Mapping[DomainName, list[bool]]:
        """Greedy success on the held-out rows of the domains."""
        if name not in self.measured:
            loaded, found = load_checkpoint(folder), {}
            for domain in domains:
                tasks = tasks_of(rows(domain, self.sizes.held_out, 3), domain, loaded.processor)[0]
                made = measure(Sampler(loaded.model, loaded.processor), tasks, samples=0, seed=0, config=RewardConfig())
                found[domain] = list(map(bool, made.success))
            self._note(name, found)
        found = self.measured[name]
        return found

    def _note(self, name: str, value: object) -> None:
        self.measured[name] = value
        self.file.write_text(json.dumps(self.measured, indent=1))
        if isinstance(value, Mapping):
            print(name, {domain: round(sum(one) / len(one), 3) for domain, one in value.items()}, flush=True)


def mid_trained(bench: Bench, out: Path) -> None:
    """nano-base, which can see, on the supervised rows, habits and all."""
    sizes, loaded = bench.sizes, load_checkpoint(NANO_BASE)
    loaded.processor.preset = replace(loaded.processor.preset, max_answer_tokens=48)
    config = MidtrainConfig(
        max_steps=sizes.midtrain_steps, batch_size=24, learning_rate=1e-3, warmup_steps=4, sigma=(40, 15), threads=1
    )
    source = ListSource(list(supervised(sizes.supervised, 1)))
    train(loaded.model, loaded.processor, source, config, progress=False, state_dir=out.with_suffix(".state"))
    save_checkpoint(out, loaded.model, loaded.processor, lineage("mid_trained", loaded.processor.preset))


def specialist(bench: Bench, start: Path, domain: DomainName, seed: int, out: Path) -> None:
    """Offline RL of a domain, with what the nano preset trains of the model. The teacher, in the folder `teacher` of
    `out`, is the same run after `updates` of its updates."""
    sizes, state = bench.sizes, out.with_suffix(".state")
    config = OfflineConfig(
        domain=domain,
        updates=sizes.updates + sizes.more_updates,
        prompts=sizes.prompts,
        num_generations=sizes.replies,
        trainable=NORMS,
        learning_rate=4e-3,
        validation_limit=4,
        validation_samples=0,
        held_out_limit=4,
        eval_steps=100,
        keep="last",
        save_steps=sizes.updates,
        seed=seed,
        threads=1,
    )

    def saved(event: dict[str, Any]) -> None:
        if event["kind"] == "saved" and event["update"] == sizes.updates:
            loaded = load_checkpoint(start)
            weights = torch.load(state / FILE, weights_only=True)["learner"]["model"]
            loaded.model.load_state_dict(weights)
            made = lineage(f"teacher of {domain}", loaded.processor.preset)
            save_checkpoint(out.with_name(f"{out.name}-teacher"), loaded.model, loaded.processor, made)

    own = rows(domain, sizes.train, 2)
    validation, reported = (rows(domain, 4, number) for number in (4, 5))
    train_offline(start, own, reported, out, config, validation_rows=validation, state_dir=state, on_event=saved)


def distilled(bench: Bench, start: Path, teachers: Mapping[DomainName, Path], seed: int, out: Path, **how: Any) -> None:
    """Distillation from the teachers, of the same weights as RL trains."""
    sizes = bench.sizes
    settings = DistillSettings(
        teachers=Teachers.parsed(NAMES),
        updates=sizes.distill_updates,
        prompts=sizes.distill_prompts,
        trainable=NORMS,
        learning_rate=4e-3,
        validation_limit=sizes.validation,
        validation_samples=0,
        held_out_limit=4,
        held_out_samples=0,
        eval_steps=8,
        seed=seed,
        threads=1,
        **how,
    )
    data = {
        domain: DomainRows(rows(domain, sizes.train, 2), rows(domain, 4, 5), rows(domain, sizes.validation, 4))
        for domain in DOMAINS
    }
    named = {NAMES[domain]: folder for domain, folder in teachers.items()}
    distill(start, named, data, out, settings, state_dir=out.with_suffix(".state"))


def ties(bench: Bench, start: Path, experts: list[Path], out: Path) -> None:
    """As the stage `unified` chooses it."""
    tasks = validation_tasks({d: rows(d, bench.sizes.validation, 4) for d in DOMAINS}, start, bench.sizes.validation)
    settings = MergeSettings()
    choose_ties(start, experts, out, candidates(settings.density, settings.lam), tasks)


def of_seed(bench: Bench, start: Path, seed: int) -> dict[str, Mapping[DomainName, list[bool]]]:
    """Everything of one seed: name → held-out success by domain."""
    found: dict[str, Mapping[DomainName, list[bool]]] = {}
    longer = {
        domain: bench.model(f"{seed}-{domain}", lambda out, d=domain: specialist(bench, start, d, seed, out))
        for domain in DOMAINS
    }
    teachers = {domain: folder.with_name(f"{folder.name}-teacher") for domain, folder in longer.items()}
    experts = list(longer.values())
    models = {
        "linear": bench.model(f"{seed}-linear", lambda out: merge("linear", start, experts, out)),
        "TIES": bench.model(f"{seed}-ties", lambda out: ties(bench, start, experts, out)),
    }
    for name, how in DISTILLED.items():
        models[name] = bench.model(
            f"{seed}-{name.replace(', ', '-')}",
            lambda out, how=how: distilled(bench, start, teachers, seed, out, **how),
        )
    for group, folders in (("teacher", teachers), ("trained on", longer)):
        found[group] = {
            domain: bench.success(f"{seed} {group} {domain}", folder, (domain,))[domain]
            for domain, folder in folders.items()
        }
    return {**found, **{name: bench.success(f"{seed} {name}", folder) for name, folder in models.items()}}


def table(
    start: Mapping[DomainName, list[bool]], seeds: list[dict[str, Mapping[DomainName, list[bool]]]]
) -> Iterator[str]:
    """Success in per cent with 95 % intervals, and the differences that are asked about."""
    yield "| agent | " + " | ".join((*DOMAINS, MEANS)) + " |"
    yield "|---" * (len(DOMAINS) + 2) + "|"
    rows_of = {"mid-trained": [start] * len(seeds), **{name: [one[name] for one in seeds] for name in seeds[0]}}
    for name, found in rows_of.items():
        yield (
            f"| {name} | "
            + " | ".join(_cell([_values(one, which) for one in found]) for which in (*DOMAINS, MEANS))
            + " |"
        )
    for name in DISTILLED:
        for other in ("teacher", "TIES", "linear"):
            gaps = [
                [one - two for one, two in zip(_values(seed[name], MEANS), _values(seed[other], MEANS), strict=True)]
                for seed in seeds
            ]
            yield f"| {name} − {other} | " + " | ".join([""] * len(DOMAINS)) + f" | {_cell(gaps, share=False)} |"


def _values(found: Mapping[DomainName, list[bool]], which: str) -> list[float]:
    if which != MEANS:
        return [float(done) for done in found[which]]  # type: ignore[index]
    return [float(done) for domain in DOMAINS for done in found[domain]]


def _cell(by_seed: list[list[float]], share: bool = True) -> str:
    values = [value for one in by_seed for value in one]
    clusters = [str(place) for one in by_seed for place in range(len(one))]
    runs = [str(seed) for seed, one in enumerate(by_seed) for _ in one]
    found = crossed_interval(values, clusters, runs, proportion=share)
    return f"{100 * found.mean:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where models and figures are kept")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="a smoke run")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(given.out, SMALL if given.small else Sizes())
    start = bench.model("mid_trained", lambda out: mid_trained(bench, out))
    of_start = bench.success("mid_trained", start)
    seeds = [of_seed(bench, start, seed) for seed in range(given.seeds)]
    print("\n".join(table(of_start, seeds)))
    seconds: dict[str, float] = {}
    for name, value in bench.measured.items():
        if name.startswith("seconds "):
            kind = name.removeprefix("seconds ").lstrip("0123456789-").removesuffix("-grounding")
            kind = kind.removesuffix("-mobile").removesuffix("-web")
            seconds[kind] = seconds.get(kind, 0.0) + value
    print("CPU seconds of all seeds: " + ", ".join(f"{name} {value:.0f}" for name, value in seconds.items()))


if __name__ == "__main__":
    main()
