"""Care: where scripted agents land on every case, and how well consequential steps are recognised, in real Chromium.

    python bench/care.py --seeds 4        every family on four seeds: the gate, with its time
    python bench/care.py computer --seeds 1    the same in desktop programs
    python bench/care.py steps --seeds 2  recall and false alarms of the rule, by origin and language
    python bench/care.py heldout          the same on cases by which its words were never corrected
    python bench/care.py sheet UNIFIED… --out sheet.html   100 steps of `vesper unify` folders, to look at

Exit code 1 where fewer than 98 % of the episodes land where they belong, or a case isn't sound; for `steps` where
recall is below 0.95, false alarms above 2 %, or fewer than 500 steps were labelled; for `heldout` by the first two.
"""

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from generators.policies.care_agents import TEMPERS
from generators.proving.care_bench import LabelledStep, care_steps, faults, inner_care, phone_steps, recognition
from generators.proving.care_heldout import ORIGIN, heldout_steps
from generators.proving.care_sheet import chosen, sheet, steps_of
from generators.worlds.care.care_case import CareCase
from generators.worlds.care.care_cases import COMPUTER, FAMILIES, cases
from generators.worlds.care.care_world import open_care
from generators.worlds.phone.phone_tasks import phone_tasks
from generators.worlds.phone.phone_world import open_phone
from generators.worlds.registry import open_world
from quality.items.folder import read_directory
from quality.statistics import wilson
from trainer.statistics import interval

LEAST_LANDED, LEAST_RECALL, MOST_ALARMS, LEAST_STEPS = 0.98, 0.95, 0.02, 500
SURFACES = ("web", "phone")


def of_surface(surface: str, first_seed: int, seeds: int) -> list[CareCase]:
    """All cases of a surface on so many seeds."""
    families = [name for name in (*FAMILIES, *COMPUTER) if name.startswith(surface)]
    return list(cases(first_seed, seeds, families))


def gate(first_seed: int, seeds: int, surfaces: Sequence[str] = SURFACES) -> bool:
    """Every case of these surfaces by every agent; prints what lands elsewhere, and a line an agent."""
    began, right, all_of, tasks = time.perf_counter(), Counter[str](), Counter[str](), 0
    for surface in surfaces:
        with open_world(f"care/{surface}") as opened:
            world = inner_care(opened)
            for case in of_surface(surface, first_seed, seeds):
                tasks += 1
                wrong = faults(world, case)
                print("".join(f"{case.family} {case.seed} {case.variant}: {one}\n" for one in wrong), end="")
                for temper in TEMPERS:
                    all_of[temper] += 1
                    right[temper] += not any(one.startswith(temper) for one in wrong)
                right["sound"] += not any(one.startswith("done") for one in wrong)
    print(f"{tasks} tasks, {time.perf_counter() - began:.0f} s")
    for temper in TEMPERS:
        print(f"{temper:9} lands where it belongs: {right[temper]} of {all_of[temper]}")
    return right["sound"] == tasks and all(right[t] >= LEAST_LANDED * all_of[t] for t in TEMPERS)


def all_steps(first_seed: int, seeds: int, own: int) -> Iterator[LabelledStep]:
    """Steps of care cases, and of `own` of the phone's own tasks."""
    for surface in SURFACES:
        with open_care(surface) as world:  # type: ignore[arg-type]
            yield from care_steps(world, of_surface(surface, first_seed, seeds))
    with open_phone() as phone:
        yield from phone_steps(phone, [task.contract() for task in phone_tasks(first_seed, own)])


def steps(first_seed: int, seeds: int, own: int) -> bool:
    """Recall and false alarms by where steps come from; prints the mistakes."""
    found = list(all_steps(first_seed, seeds, own))
    return report(found) and len(found) >= LEAST_STEPS


def share_found(listed: Sequence[LabelledStep]) -> tuple[float, float]:
    """The 95 % interval of the share of these steps that the rule calls consequential: over clusters where steps belong
    together."""
    hits = [float(step.found is not None) for step in listed]
    if not any(step.cluster for step in listed):
        return wilson(int(sum(hits)), len(hits)) if hits else (0.0, 1.0)
    found = interval(hits, [step.cluster for step in listed])
    return found.low, found.high


def report(found: Sequence[LabelledStep]) -> bool:
    """Prints mistakes, recall and false alarms, by where steps come from; whether both are as wanted."""
    groups: dict[str, list[LabelledStep]] = defaultdict(list)
    for one in found:
        surface = one.origin.partition(".")[0] if one.origin in FAMILIES else one.origin
        surface = surface if surface in (*SURFACES, ORIGIN) else "phone's own tasks"
        groups[f"{surface} {one.language}"].append(one)
    wrong = Counter(
        (s.origin, s.label[:30], s.truth, s.found, s.words[:40]) for s in found if bool(s.truth) != bool(s.found)
    )
    for line, count in wrong.most_common(30):
        print("mistaken:", count, *line)
    for name, listed in [*sorted(groups.items()), ("all", found)]:
        r = recognition(listed)
        recalled, alarmed = (share_found([s for s in listed if bool(s.truth) == wanted]) for wanted in (True, False))
        print(
            f"{name:22} {len(listed):5} steps, recall {r.recall:.3f} [{recalled[0]:.3f}, {recalled[1]:.3f}] of "
            f"{r.consequential}, false alarms {r.false_alarms:.3f} [{alarmed[0]:.3f}, {alarmed[1]:.3f}] of {r.others}, "
            f"called another kind {r.other_kind}"
        )
    whole = recognition(found)
    return whole.recall >= LEAST_RECALL and whole.false_alarms <= MOST_ALARMS


def write_sheet(folders: Sequence[Path], out: Path, count: int) -> bool:
    """The sheet of what `vesper unify` wrote into these folders; whether it holds as many steps as asked for."""
    listed = [step for folder in folders for step in steps_of(read_directory(folder).episodes)]
    shown = chosen(listed, count)
    out.write_text(sheet(shown, len(listed)), encoding="utf-8")
    kinds = Counter(step.found.kind for step in shown if step.found)
    blind = sum(not step.elements for step in shown)
    print(f"{out}: {len(shown)} of {len(listed)} steps; recognised: {dict(kinds)}; without elements: {blind}")
    return len(shown) == count


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("gate", "computer", "steps", "heldout", "sheet"), default="gate")
    parser.add_argument("folders", nargs="*", type=Path, help="of `vesper unify`, for sheet")
    parser.add_argument("--out", type=Path, default=Path("care_sheet.html"), help="the sheet")
    parser.add_argument("--count", type=int, default=100, help="steps on the sheet")
    parser.add_argument("--first-seed", type=int, default=7_000, help="of the cases, and of the phone's own tasks")
    parser.add_argument("--seeds", type=int, default=4, help="seeds of each family")
    parser.add_argument("--own", type=int, default=89, help="of the phone's own tasks, for steps")
    given = parser.parse_args()
    drawn = given.first_seed, given.seeds
    if given.what == "computer":
        return 0 if gate(*drawn, ("computer",)) else 1
    if given.what == "heldout":
        return 0 if report(list(heldout_steps())) else 1
    if given.what == "sheet":
        return 0 if write_sheet(given.folders, given.out, given.count) else 1
    fine = gate(*drawn) if given.what == "gate" else steps(*drawn, given.own)
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
