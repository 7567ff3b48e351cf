"""A seed's report (JSON, Markdown, SVG), and several seeds' reports as one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.whole_files import put_json
from trainer.proving.staircase.chart import staircase_svg
from trainer.proving.staircase.figures import course, differences, reference_steps, table

REPORT, RECORDS, MARKDOWN, PICTURE = "report.json", "records.json", "report.md", "report.svg"
SAYS: dict[str, str] = json.loads(Path(__file__).with_name("report_words.json").read_text(encoding="utf-8"))


def write_report(
    folder: Path, head: Mapping[str, Any], seeds: Mapping[int, Mapping[str, Any]], looks: Sequence[Mapping[str, Any]]
) -> dict[str, object]:
    """Write `report.json`, `report.md` and `report.svg`; → the report. `head` is what it begins with."""
    report = {
        **head,
        "seeds": sorted(seeds),
        "rows": table(seeds),
        "differences": differences(seeds),
        "reference_steps": reference_steps(seeds),
        "offline_course": course(looks),
    }
    put_json(folder / REPORT, report)
    title = f"The staircase on {head['platform']}, training seeds {', '.join(map(str, sorted(seeds)))}"
    (folder / MARKDOWN).write_text(markdown(title, report), encoding="utf-8")
    (folder / PICTURE).write_text(
        staircase_svg(title, report["rows"], report["offline_course"]["looks"]), encoding="utf-8"
    )
    return report


def combine(folders: Sequence[str | Path], out: str | Path) -> dict[str, object]:
    """Reports of several seeds → one, with intervals over tasks and seeds. Raises `ValueError` for reports that don't
    belong together: of two platforms, on other tasks, or twice of one seed."""
    seeds: dict[int, Mapping[str, Any]] = {}
    heads = []
    for folder in map(Path, folders):
        try:
            head = json.loads((folder / REPORT).read_text(encoding="utf-8"))
            # Records hold attempts, which intervals over several seeds are
            # computed from; a report's own intervals don't add up.
            records = json.loads((folder / RECORDS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"combine: expected a finished report in {folder.name}, found {error}") from error
        if head["seed"] in seeds:
            raise ValueError(f"combine: expected every training seed once, found {head['seed']} twice")
        seeds[head["seed"]] = records
        heads.append(head)
    if not heads:
        raise ValueError("combine: expected folders of reports, found none")
    # Success on other tasks or worlds isn't a repetition of the same measurement.
    for name in ("platform", "tasks_digest"):
        if len({head[name] for head in heads}) > 1:
            raise ValueError(f"combine: expected one {name}, found {sorted({head[name] for head in heads})}")
    first = heads[0]
    head = {
        "platform": first["platform"],
        "tasks_digest": first["tasks_digest"],
        "measured": first["measured"],
        "stages": {str(one["seed"]): one["stages"] for one in heads},
    }
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    # The first seed's curve stands for all: a mean over runs that stop
    # at different updates would show none of them.
    return write_report(out, head, seeds, first["offline_course"]["looks"])


def markdown(title: str, report: Mapping[str, Any]) -> str:
    """The tables for people."""
    lines = [
        f"# {title}",
        "",
        "Success on held-out episodes, decided by each world's own state; 95 % intervals by a "
        "bootstrap over tasks (and training seeds, where there are several).",
        "",
        "| row | what it is | greedy | sampled | pass@k | grounding hit | refusals |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in report["rows"].items():
        found = row["grounding"] or {}
        lines.append(
            f"| {name.replace('_', ' ')} | {SAYS[name]} | {_cell(row['greedy'])} | {_cell(row['sampled'])} | "
            f"{_cell(row['pass_at_k'])} (k = {row['k']}) | {_cell(found.get('hit'))} | "
            f"{_cell(found.get('refused'))} |"
        )
    lines += ["", "| paired difference | greedy | sampled |", "|---|---|---|"]
    lines += [
        f"| {name.replace('_', ' ')} | {_cell(found['greedy'])} | {_cell(found['sampled'])} |"
        for name, found in report["differences"].items()
    ]
    # The last row that has them: controls differ by row in the swapped screen only.
    controls = next((row["grounding"] for row in reversed(list(report["rows"].values())) if row["grounding"]), None)
    if controls:
        lines += [
            "",
            "Grounding is asked on pages that no training row shows. Blind table "
            f"{_cell(controls['blind'])}, random element {_cell(controls['random_element'])}; on the wrong "
            "screen (the control of each row): "
            + ", ".join(
                f"{name.replace('_', ' ')} {_cell(row['grounding']['swapped'])}"
                for name, row in report["rows"].items()
                if row["grounding"]
            )
            + ".",
        ]
    course = report["offline_course"]
    if course["trace_peak"] is not None:
        lines += [
            "",
            f"Offline RL: trace success was highest at update {course['trace_peak']}, step success at update "
            f"{course['step_peak']}; traces fell from their peak while steps did not: "
            f"{'yes' if course['traces_fell_steps_did_not'] else 'no'}.",
        ]
    moved = [
        f"at updates {', '.join(str(step['update']) for step in steps)} (seed {seed})"
        if steps
        else f"never (seed {seed})"
        for seed, steps in report["reference_steps"].items()
    ]
    if moved:
        lines += ["", f"The reference policy of online RL followed the policy {', '.join(moved)}."]
    lines += [
        "",
        "| task | blind | oracle |" + "".join(f" {name.replace('_', ' ')} |" for name in report["rows"]),
        "|---|---|---|" + "---|" * len(report["rows"]),
    ]
    for task in (one for one in report["measured"] if one["chosen"]):
        cells = (row["by_task"].get(task["family"]) for row in report["rows"].values())
        lines.append(
            f"| {task['family']} | {task['blind']:.2f} | {task['oracle']:.2f} |"
            + "".join(f" {'' if cell is None else f'{cell:.2f}'} |" for cell in cells)
        )
    return "\n".join(lines) + "\n"


def _cell(interval: Mapping[str, Any] | None) -> str:
    if not interval or interval["mean"] is None:
        return "–"
    bounds = (
        "no interval" if interval["low"] is None else f"{100 * interval['low']:.1f} to {100 * interval['high']:.1f}"
    )
    return f"{100 * interval['mean']:.1f} % ({bounds})"
