"""Reports of the judge bench: aligned text for a terminal, JSON, and pictures. Names from data are cleaned of control
characters before they are printed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from quality.items.truth import DEFECTS, INTENT
from quality.proving.figure_rows import PREVALENCE, PREVALENCES, Alarm, DetectionRow, Figures, Point, plain
from quality.proving.judge_bench import BenchResult

BLIND = 0.6
"""An AUROC below this is called a blind spot: little better than a coin."""
NAME_LENGTH = 80


# --- text -------------------------------------------------------------------------------------------------------------
def text(results: Sequence[BenchResult]) -> str:
    """All results side by side: a table per question, a column (or a few) per judge."""
    if not results:
        raise ValueError("judge bench: expected at least one result to report")
    legend = [f"[{_letter(number)}] {one.title}: {_result_text(one)}" for number, one in enumerate(results)]
    parts = [
        f"Judge bench, split {results[0].split}\n" + "\n".join(legend),
        "Planted defects: AUROC, and recall at a cut frozen at 5 % false alarms (95 % intervals by page family)\n"
        + _rows_table(results, lambda figures: figures.defects, DEFECTS),
        _summary(results),
        "Sound items flagged at that cut\n" + _alarms(results),
        "Cuts: false alarms where chosen → where measured\n" + _cuts(results),
        f"Frozen cuts at other prevalences (frozen at {PREVALENCE:.1%}): precision / F1\n" + _points(results),
        "Natural errors\n" + _rows_table(results, lambda figures: figures.natural, ()),
    ]
    if any(one.figures.held_out for one in results):
        parts.append("Planted, by what was held out\n" + _rows_table(results, lambda figures: figures.held_out, ()))
    parts.append("Cost\n" + _costs(results))
    notes = [f"[{_letter(n)}] {note}" for n, one in enumerate(results) for note in _notes(one)]
    return "\n\n".join([*parts, *(["Notes\n" + "\n".join(notes)] if notes else [])]) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first to the left, the others to the right."""
    lines = [[_clean(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    stated = [
        "  ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(line, widths)))
        for line in lines
    ]
    return "\n".join(line.rstrip() for line in [stated[0], "  ".join("-" * width for width in widths), *stated[1:]])


def _clean(cell: str) -> str:
    """One printable line: what a page or a data set wrote can't move a terminal's cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in str(cell))[:NAME_LENGTH]


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else str(number)


def _number(value: float, digits: int = 3) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def _interval(value: float, ends: tuple[float, float], digits: int = 2) -> str:
    """`0.912 (0.88–0.95)`; the value alone where no interval is known."""
    if math.isnan(ends[0]):
        return _number(value)
    return f"{_number(value)} ({ends[0]:.{digits}f}–{ends[1]:.{digits}f})"


def _result_text(result: BenchResult) -> str:
    figures = result.figures
    return f"{figures.bad} bad and {figures.sound} sound items, {figures.abstained} abstentions"


def _rows_table(
    results: Sequence[BenchResult], pick: Callable[[Figures], tuple[DetectionRow, ...]], order: Sequence[str]
) -> str:
    found = [{(row.name, row.unit): row for row in pick(one.figures)} for one in results]
    keys = list(dict.fromkeys(key for rows in found for key in rows))
    if order:
        keys.sort(key=lambda key: order.index(key[0]))
    if not keys:
        return "none in this split"
    head = ["name", "unit", "n"]
    for number in range(len(results)):
        head += [f"[{_letter(number)}] AUROC", "recall", "own cut"]
    lines = []
    for key in keys:
        counts = sorted({rows[key].n for rows in found if key in rows})
        line = [key[0] + ("*" if key[0] in INTENT else ""), key[1], "/".join(map(str, counts))]
        for rows in found:
            row = rows.get(key)
            line += (
                ["", "", ""]
                if row is None
                else [
                    _interval(row.auroc, row.auroc_interval),
                    _interval(row.recall, row.recall_interval),
                    _number(row.recall_own),
                ]
            )
        lines.append(line)
    return table(head, lines)


def _summary(results: Sequence[BenchResult]) -> str:
    head = ["over defects without * (intent)", *(f"[{_letter(number)}]" for number in range(len(results)))]
    lines = [
        ["macro recall", *(_interval(r.figures.macro_recall, r.figures.macro_recall_interval) for r in results)],
        ["macro AUROC", *(_number(r.figures.macro_auroc) for r in results)],
        ["κ of three bands, quadratic", *(_number(r.figures.agreement.quadratic) for r in results)],
        ["κ of three bands, linear", *(_number(r.figures.agreement.linear) for r in results)],
    ]
    for name, title in (
        ("error", "calibration error"),
        ("brier", "Brier score"),
        ("brier_of_prevalence", "Brier of 30.3 % for all"),
    ):
        overall = [[one for one in r.figures.calibrated if one.unit == "all"] for r in results]
        lines.append([title, *(_number(getattr(found[0], name)) if found else "-" for found in overall)])
    return table(head, lines)


def _alarms(results: Sequence[BenchResult]) -> str:
    found: list[dict[tuple[str, str], Alarm]] = [{(a.kind, a.unit): a for a in r.figures.alarms} for r in results]
    keys = sorted({key for rows in found for key in rows}, key=lambda key: (key[0] != "", key))
    head = ["kind", "unit", "n", *(f"[{_letter(number)}] flagged" for number in range(len(results)))]
    lines = []
    for key in keys:
        shown = [rows.get(key) for rows in found]
        counts = sorted({one.n for one in shown if one is not None})
        cells = ["" if one is None else _interval(one.share, one.interval) for one in shown]
        lines.append([key[0] or "clean", key[1], "/".join(map(str, counts)), *cells])
    return table(head, lines) if lines else "none in this split"


def _cuts(results: Sequence[BenchResult]) -> str:
    head = ["cut", "unit", *(f"[{_letter(number)}] risk above, chosen → actual" for number in range(len(results)))]
    found = [{(cut.rule, cut.unit): cut for cut in one.figures.cuts} for one in results]
    lines = []
    for key in dict.fromkeys(key for cuts in found for key in cuts):
        cells = []
        for cuts in found:
            cut = cuts.get(key)
            known = cut is not None and not math.isnan(cut.cut)
            cells.append(f"{cut.cut:.3f}: {_share(cut.chosen)} → {_share(cut.actual)}" if cut and known else "-")
        lines.append([RULES[key[0]], key[1], *cells])
    return table(head, lines) if lines else "none"


RULES = {"alarms": "5 % false alarms", "f1": "best F1"}


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1%}"


def _points(results: Sequence[BenchResult]) -> str:
    head = ["cut", "unit", "", "recall", "alarms", *(f"at {share:.1%}" for share in PREVALENCES)]
    lines = []
    for number, result in enumerate(results):
        for point in result.figures.points:
            lines.append([RULES[point.rule], point.unit, f"[{_letter(number)}]", *_point(point)])
    return table(head, lines) if lines else "none in this split"


def _point(point: Point) -> list[str]:
    shown = [f"{_number(one.precision)} / {_number(one.f1)}" for one in point.at]
    return [_number(point.recall), _share(point.false_alarms), *shown]


def _costs(results: Sequence[BenchResult]) -> str:
    head = ["judge", "items", "requests", "cached", "ms/item", "tokens/item", "price/item"]
    lines = []
    for number, result in enumerate(results):
        costs, each = result.costs, result.costs.per_item()
        price = "-" if each["price"] is None else f"{each['price']:.6f}"
        counts = [str(one) for one in (costs.items, costs.requests, costs.cached)]
        line = [f"[{_letter(number)}]", *counts, f"{1000 * (each['seconds'] or 0):.1f}", f"{each['tokens']:.0f}", price]
        lines.append(line)
    return table(head, lines)


def blind_spots(result: BenchResult) -> list[str]:
    """Defects that the judge tells from sound items little better than a coin would."""
    first: dict[str, DetectionRow] = {}
    for row in result.figures.defects:
        first.setdefault(row.name, row)
    return [row.name for row in first.values() if row.auroc < BLIND]


def _notes(result: BenchResult) -> list[str]:
    blind = blind_spots(result)
    spots = [f"blind spots (AUROC below {BLIND}): {', '.join(blind)}"] if blind else []
    waiting = [f"{result.pending} labelled items are pending: in no figure"] if result.pending else []
    return [*waiting, *spots, *result.figures.notes]


# --- JSON -------------------------------------------------------------------------------------------------------------
def report(results: Sequence[BenchResult]) -> dict[str, object]:
    """Figures as plain data: the same answers give the same bytes (no time, no money)."""
    return {
        "prevalence": PREVALENCE,
        "results": [
            {
                **one.judge,
                "elements": one.elements,
                "pending": one.pending,
                "blind_spots": blind_spots(one),
                **one.figures.as_json(),
            }
            for one in results
        ],
    }


def costs(results: Sequence[BenchResult]) -> list[dict[str, object]]:
    """What each result cost, as plain data."""
    return [
        {
            **one.judge,
            "elements": one.elements,
            **plain(asdict(one.costs)),
            "per_item": plain(one.costs.per_item()),
            "told": plain(one.told),
        }
        for one in results
    ]


def write(results: Sequence[BenchResult], out: Path, extra: dict[str, Any] | None = None) -> list[Path]:
    """`report.json`, `costs.json`, `report.txt`, `reliability.png` and `recall.png` in a folder; their paths.
    `extra` joins the report."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, value in (("report.json", {**report(results), **(extra or {})}), ("costs.json", costs(results))):
        path = out / name
        path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(path)
    (out / "report.txt").write_text(text(results), encoding="utf-8")
    for name, picture in (("reliability.png", reliability_png(results)), ("recall.png", recall_png(results))):
        (out / name).write_bytes(picture)
        written.append(out / name)
    return [*written, out / "report.txt"]


# --- pictures ---------------------------------------------------------------------------------------------------------
def reliability_png(results: Sequence[BenchResult]) -> bytes:
    """Reliability diagram: the share of bad items over the mean risk of each bin, at a prevalence of 30.3 %; the area
    of a point grows with the weight of its bin."""
    figure, axes = _figure(5.2, 5.0)
    axes.plot([0, 1], [0, 1], color="#9db4c0", linewidth=1, label="calibrated")
    for number, result in enumerate(results):
        overall = [one for one in result.figures.calibrated if one.unit == "all"]
        if not overall:
            continue
        bins, colour = overall[0].bins, COLOURS[number % len(COLOURS)]
        x, y = [one.mean_risk for one in bins], [one.share_bad for one in bins]
        label = f"{_clean(result.title)} (error {overall[0].error:.3f})"
        axes.plot(x, y, color=colour, linewidth=1.2, label=label)
        axes.scatter(x, y, s=[12 + 300 * one.weight for one in bins], color=colour, alpha=0.6)
    axes.set(
        xlabel="risk",
        ylabel="share of bad items",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        title=f"Reliability at {PREVALENCE:.1%} bad items, {results[0].split}",
    )
    figure.legend(frameon=False, fontsize=8, loc="outside lower left")
    return _png(figure)


def recall_png(results: Sequence[BenchResult]) -> bytes:
    """Bars: recall per defect at the cut of 5 % false alarms, with intervals by page family."""
    rows = [{row.name: row for row in reversed(result.figures.defects)} for result in results]
    names = [name for name in DEFECTS if any(name in found for found in rows)]
    figure, axes = _figure(8.0, 1.2 + 0.36 * max(len(names), 1) * max(1.0, len(results) * 0.6))
    height = 0.8 / len(results)
    for number, (result, found) in enumerate(zip(results, rows)):
        shown = [(at, found[name]) for at, name in enumerate(names) if name in found]
        shown = [(at, row) for at, row in shown if not math.isnan(row.recall)]
        places = [at + (number - (len(results) - 1) / 2) * height for at, _ in shown]
        values = [row.recall for _, row in shown]
        ends = [
            row.recall_interval if not math.isnan(row.recall_interval[0]) else (row.recall,) * 2 for _, row in shown
        ]
        spread = [
            [max(v - low, 0) for v, (low, _) in zip(values, ends)],
            [max(high - v, 0) for v, (_, high) in zip(values, ends)],
        ]
        axes.barh(
            places,
            values,
            height,
            color=COLOURS[number % len(COLOURS)],
            label=_clean(result.title),
            xerr=spread if values else None,
            error_kw={"elinewidth": 0.8, "ecolor": "#33415c"},
        )
    axes.set_yticks(range(len(names)), [name + (" *" if name in INTENT else "") for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.set(
        xlim=(0, 1.02),
        xlabel="recall at 5 % false alarms (* needs a reading of intent)",
        title=f"Recall per defect, {results[0].split}",
    )
    figure.legend(frameon=False, fontsize=8, loc="outside lower left")
    return _png(figure)


COLOURS = ("#33415c", "#d1495b", "#2e8b57", "#edae49", "#6a4c93", "#00798c")


def _figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure without pyplot's global state. Raises `ImportError` naming the extra where matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures of the judge bench need matplotlib: install the extra `dagster`") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _png(figure: Any) -> bytes:
    import io

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})  # no version: same bytes
    return buffer.getvalue()
