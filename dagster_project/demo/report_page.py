"""`report.html`: what a demo made, as one page that needs nothing besides itself: no script, no request, no other file.

All text of data, pages and models is escaped, and the page forbids itself to load anything.
"""

import base64
import html
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dagster_project.assets.metadata import amount
from dagster_project.assets.plotted_metrics import plotted
from dagster_project.demo.report import HEADS, interval, number, percent, shares
from dagster_project.pictures import episode_pictures
from dagster_project.pictures.asset_pictures import record_of
from dagster_project.pictures.captions import asked_and_answered
from dagster_project.pictures.training_curves import curves_of
from dagster_project.stages.stage import GraphStage
from dagster_project.stages.training import title
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from trainer.proving.staircase.figures import ROWS
from trainer.stages.assets import CHECKPOINTS
from trainer.stages.episodes import ASSET as EPISODES
from trainer.stages.line_chart import line_chart

STYLE = Path(__file__).with_name("page.css")
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
PICTURE_PX, FIGURES, WORDS = (420, 320), 3, 160


def write(store: Store, report: Mapping[str, Any], stages: Mapping[str, GraphStage], path: Path) -> None:
    """Write the page of a report (`report.make`, with `seconds`, `failed` and `warned`) on these stages."""
    # A lone surrogate in data mustn't cost the page.
    path.write_text(page(store, report, stages), encoding="utf-8", errors="replace")


def page(store: Store, report: Mapping[str, Any], stages: Mapping[str, GraphStage]) -> str:
    """The whole page."""
    manifests = {key: found for key in stages if (found := store.current(key)) is not None}
    parts = (
        _head(report, manifests),
        _section("An agent at play", _episodes(manifests)),
        _section("Held-out figures", _held_out(report)),
        _section("The staircase, short form", _staircase(report)),
        _section("Training", _curves(manifests)),
        _section("Sources", _sources(report)),
        _section("Samples of the corpus", _samples(manifests, store)),
        _section("Checks", _checks(report, manifests)),
        _section("Stages", _stages(report, manifests, stages)),
    )
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Vesper demo</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{STYLE.read_text(encoding='utf-8')}</style></head><body>"
    )
    return f"{head}{''.join(line for part in parts for line in part)}</body></html>\n"


def _text(value: object, most: int = WORDS) -> str:
    flat = " ".join(str(value).split())
    # Words come from data and from models.
    return html.escape(flat if len(flat) <= most else f"{flat[:most]}…")


def _section(name: str, lines: Iterable[str]) -> Iterator[str]:
    """A heading with what stands below it; nothing where there is nothing."""
    found = list(lines)
    if found:
        yield f"<h2>{name}</h2>"
        yield from found


def _table(heads: Iterable[str], rows: Iterable[str]) -> Iterator[str]:
    """`rows` are `<tr>`s; a head that begins with > is that of a column of numbers."""
    cells = "".join(f"<th class=n>{head[1:]}" if head[:1] == ">" else f"<th>{head}" for head in heads)
    yield f'<div class="scroll"><table><tr>{cells}</tr>{"".join(rows)}</table></div>'


def _numbers(cells: Iterable[str]) -> str:
    return "".join(f'<td class="n">{cell}' for cell in cells)


def _head(report: Mapping[str, Any], made: Mapping[str, Manifest]) -> Iterator[str]:
    checks = [check for manifest in made.values() for check in manifest.checks]
    items = [row["items"] for row in report["sources"].values()]
    mapped, given = sum(row["mapped"] for row in items), sum(row["in"] for row in items)
    fidelity, failed = report["fidelity"], len(report["failed"])
    tiles = (
        (f"{report['seconds']['total']:.0f} s", "for this run; what was there already is not made again"),
        (f"{len(made)}", "assets, from raw files to an evaluated agent" + (f", {failed} failed" if failed else "")),
        (f"{mapped:,}", f"of {given:,} native items mapped, the others quarantined with a reason"),
        (
            f"{percent(fidelity['truth_before'])} → {percent(fidelity['truth_after'])}",
            "of the items sound, by planted truth",
        ),
        (f"{sum(check.passed for check in checks)} / {len(checks)}", "checks passed"),
    )
    yield "<h1>Vesper demo</h1>"
    yield '<p class="soft">The whole graph on embedded data: from native files of GUI datasets to one merged agent.</p>'
    cards = "".join(
        f'<div class="card tile"><b>{value}</b><span class="soft">{label}</span></div>' for value, label in tiles
    )
    yield f'<div class="grid">{cards}</div>'


def _data(data: bytes, kind: str, alt: str) -> str:
    # Inside the page, so that one file can be sent to somebody.
    return f'<img alt="{_text(alt)}" src="data:image/{kind};base64,{base64.b64encode(data).decode()}">'


def _episodes(made: Mapping[str, Manifest]) -> Iterator[str]:
    manifest = made.get(EPISODES)
    if manifest is None:
        return
    counts, shown = manifest.counts, episode_pictures.shown(manifest)
    yield (
        f"<p>The merged agent in a real Chromium: {counts['records']} tasks tried until one was solved and one failed "
        f"({counts['solved']} solved, {counts['failed']} failed). The task's own rule decides, never the agent. "
        "Held-out figures measure; this is to look at.</p>"
    )
    if "solved" not in shown:
        yield '<p class="bad">It solved none of these tasks; below is one of the tries.</p>'
    yield '<div class="grid" style="--w:380px">'
    for verdict, (animation, plain) in shown.items():
        steps = "".join(
            f"<li><code>{_text(one['action'] or 'not readable: ' + one['reply'])}</code> {_text(one['thought'])}</li>"
            for one in plain["steps"]
        )
        yield (
            f'<div class="card"><p><span class="badge {verdict}">{verdict}</span> '
            f"{_text(plain['task']['instruction'], 300)}</p>{_data(animation, 'webp', f'the {verdict} episode')}"
            f'<p class="soft">{_text(plain["task"]["target"])}: {_text(plain["why"], 300)}</p>'
            f"<details><summary>{len(plain['steps'])} steps</summary><ol>{steps}</ol></details></div>"
        )
    yield "</div>"


def _held_out(report: Mapping[str, Any]) -> Iterator[str]:
    evaluations = report["evaluations"]
    if not evaluations:
        return
    rows = []
    for name, found in evaluations.items():
        grounding, navigation = found.get("grounding", {}), found.get("navigation", {})
        found_of = [grounding.get("present"), grounding.get("absent")]
        found_of += [navigation.get(k) for k in ("step", "type", "format")]
        rows.append(f"<tr><td>{_text(title(name))}{_numbers(map(interval, found_of))}</tr>")
    # The agent's controls, or those of whatever came last.
    last = evaluations.get("unified") or list(evaluations.values())[-1]
    for name, found in last.get("grounding", {}).get("controls", {}).items():
        cells = [interval(found), *[""] * (len(HEADS) - 1)]
        rows.append(f'<tr class="control"><td>control: {_text(name.replace("_", " "))}{_numbers(cells)}</tr>')
    yield '<p class="soft">Per cent with 95 % intervals, on recordings that nothing trained on; controls below.</p>'
    yield from _table(["checkpoint", *(f">{head}" for head in HEADS)], rows)


def _staircase(report: Mapping[str, Any]) -> Iterator[str]:
    counts = report["staircase"] or {}
    rows = [
        f"<tr><td>{_text(row.replace('_', ' '))}"
        f"{_numbers(percent(counts[f'{row} {kind}']) for kind in ('greedy', 'pass_at_k'))}</tr>"
        for row in ROWS
        if f"{row} greedy" in counts
    ]
    if rows:
        yield '<p class="soft">Success on a few held-out episodes: that every part works, not how high it goes.</p>'
        yield from _table(["step", ">greedy", ">any of a few tries"], rows)


def _curves(made: Mapping[str, Manifest]) -> Iterator[str]:
    charts = [
        line_chart(f"{title(name)}: {chart.title}", chart.series, "step" if key == "loss" else "update")
        for name in CHECKPOINTS
        if (manifest := made.get(f"checkpoints/{name}")) is not None
        for key, chart in curves_of(manifest).items()
        # A single point is no curve.
        if max(map(len, chart.series.values())) > 1
    ]
    if drawn := [chart for chart in charts if chart]:
        cards = "".join(f'<div class="card">{chart}</div>' for chart in drawn)
        yield f'<div class="grid" style="--w:300px">{cards}</div>'


def _sources(report: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for name, row in report["sources"].items():
        items, fidelity = row["items"], row.get("fidelity", {})
        counted = (f"{items[key]:,}" for key in ("in", "mapped", "quarantined"))
        cells = (shares(fidelity, "judge"), shares(fidelity, "truth"), percent(fidelity.get("gold_yield")))
        rows.append(f"<tr><td>{_text(name)}{_numbers((*counted, *cells))}</tr>")
    if rows:
        heads = ("source", ">in", ">mapped", ">quarantined", ">sound by judge", ">by planted truth", ">yield")
        yield from _table(heads, rows)


def _samples(made: Mapping[str, Manifest], store: Store) -> Iterator[str]:
    cards = []
    for key, manifest in made.items():
        if key.startswith("gold/") and (record := record_of(manifest, store)) is not None:
            image, row = record
            image.thumbnail(PICTURE_PX)
            buffer = io.BytesIO()
            # Small: a page with a hundred pictures must open.
            image.save(buffer, "WEBP", quality=75)
            asked, answered = asked_and_answered(row)
            cards.append(
                f'<div class="card">{_data(buffer.getvalue(), "webp", f"a sample of {key}")}<p>{_text(asked)}</p>'
                f'<p><code>{_text(answered)}</code></p><p class="soft">{_text(key)}</p></div>'
            )
    if cards:
        yield f'<div class="grid" style="--w:240px">{"".join(cards)}</div>'


def _checks(report: Mapping[str, Any], made: Mapping[str, Manifest]) -> Iterator[str]:
    # Only what didn't pass, as there are hundreds of checks.
    wrong = [(key, check) for key, manifest in made.items() for check in manifest.checks if not check.passed]
    for key, reason in report["failed"].items():
        yield f'<p class="bad">{_text(key)} failed: {_text(reason, 300)}</p>'
    if report["missing"]:
        yield f'<p class="bad">Not made: {_text(", ".join(report["missing"]), 600)}</p>'
    if not wrong:
        yield '<p class="good">Every check passed.</p>'
        return
    rows = (
        f'<tr><td>{_text(key)}<td class="wide">{_text(check.name)}<td>{"blocks" if check.blocking else "warns"}'
        f'<td class="wide">{_text(check.found)}<td class="wide">{_text(check.expected)}</tr>'
        for key, check in wrong
    )
    yield from _table(["asset", "check", "", "found", "expected"], rows)


def _stages(report: Mapping[str, Any], made: Mapping[str, Manifest], stages: Mapping[str, GraphStage]) -> Iterator[str]:
    """Groups at a glance, and every asset below them on demand."""
    seconds = report["seconds"]["stages"]
    groups: dict[str, list[str]] = {}
    for key in made:
        groups.setdefault(stages[key].group, []).append(key)
    # Stages that were there already took no time in this run.
    spent = {group: sum(seconds.get(key, 0.0) for key in keys) for group, keys in groups.items()}
    rows = [
        f'<tr><td>{_text(group)}<td class="n">{len(keys)}{_took(spent[group], max(spent.values()))}'
        f"{_passed([made[key] for key in keys])}</tr>"
        for group, keys in groups.items()
    ]
    yield from _table(["group", ">assets", "time", ">checks"], rows)
    longest = max((seconds.get(key, 0.0) for key in made), default=0.0)
    rows = [
        f"<tr><td>{_text(key)}{_took(seconds.get(key, 0.0), longest)}"
        f'<td class="n">{"{:,} {}".format(*amount(stages[key], manifest))}{_passed([manifest])}'
        f'<td class="wide soft">{_text(_figures(manifest))}</tr>'
        for key, manifest in made.items()
    ]
    yield f"<details><summary>All {len(rows)} assets</summary>"
    yield from _table(["asset", "time", ">holds", ">checks", "figures"], rows)
    yield "</details>"


def _took(seconds: float, longest: float) -> str:
    """A cell with a bar; empty for what this run had nothing to do on."""
    if not seconds:
        return "<td>"
    width = 90 * seconds / longest
    return f'<td><span class="time" style="width:{width:.0f}px"></span>{seconds:.1f} s'


def _passed(manifests: Sequence[Manifest]) -> str:
    checks = [check for manifest in manifests for check in manifest.checks]
    passed = sum(check.passed for check in checks)
    return f'<td class="n {"good" if passed == len(checks) else "bad"}">{passed}/{len(checks)}'


def _figures(manifest: Manifest) -> str:
    found = list(plotted(manifest).items())[:FIGURES]
    shown = ((name.partition(": ")[2], f"{v:,}" if isinstance(v, int) else number(v)) for name, v in found)
    return ", ".join(f"{name} {value}" for name, value in shown)
