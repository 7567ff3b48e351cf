"""Pictures in the assets' metadata, as Markdown with the PNG inside: where people would rather look than read."""

import base64
import io
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq
from PIL import Image

from dagster_project.pictures import episode_pictures, judge_pictures, worth_pictures
from dagster_project.pictures.captions import below, caption, caption_in, item_of
from dagster_project.pictures.judge_pictures import SAMPLE, STEP
from dagster_project.pictures.training_curves import curves_of
from pipelines.markdown_text import markdown_text
from pipelines.store import Store
from pipelines.store.images import open_image
from pipelines.store.manifest import Manifest, mainline_key
from pipelines.training_data.chat_turns import with_prompts
from quality.items.drawing import draw_action, draw_boxes
from schemas.actions import parse
from trainer.proving.staircase.report import MARKDOWN
from trainer.suites.care import BESIDE
from trainer.suites.leaderboard import REPORT

SIDE_PX = 420
INK, ACCENT, PALE = "#33415c", "#d1495b", "#9db4c0"
FEW = 20
"""Points of a line that are marked: looks are rare, and one alone would not be seen."""


def of(manifest: Manifest, store: Store) -> dict[str, str]:
    """Name → Markdown for what there is to see of an asset; empty where there is nothing."""
    # An experiment's asset is painted as the mainline's.
    asset = mainline_key(manifest.asset)
    group, _, name = asset.partition("/")
    painter: Callable[[Manifest, Store], dict[str, str]] | None = {
        "unified": _records,
        "verdicts": _scores,
        "gold": _gold,
        "hygiene": _hygiene,
        "task_pool": _strata,
        "generation": _generated,
        "checkpoints": _curves,
        "evaluations": _evaluation,
        "episodes": episode_pictures.of,
        "cards": _sheet,
        "suites": _suite,
        "staircase": _staircase,
        "worth": worth_pictures.pictures,
    }.get(group)
    # These are named apart, as their groups hold assets of other kinds.
    if asset in ("mid_training/shards", "evaluations/heldout"):
        painter = _shards
    elif asset == "mid_training/mixture":
        painter = _mixture
    elif asset == "hygiene/contamination":
        painter = _pairs
    elif asset == "hygiene/safety":
        painter = _triggers
    elif asset.startswith("evaluations/judge_"):
        painter = _judge_figures
    elif asset == "checkpoints/nano_judge":
        # The judge is no policy: it has no curves of this form.
        painter = None
    return painter(manifest, store) if painter else {}


def markdown(png: bytes, title: str, caption: str = "", captions: Sequence[str] = ()) -> str:
    """A picture as Markdown. The caption comes from data: it is shown as code, never read as Markdown. `captions` are
    Markdown already (`captions.caption`)."""
    # A backtick would end the code.
    safe = " ".join(caption.replace("`", "'").split())[:300]
    text = f"\n\n`{safe}`" if safe else ""
    return f"![{title}](data:image/png;base64,{base64.b64encode(png).decode()}){text}{below(captions)}"


def _staircase(manifest: Manifest, store: Store) -> dict[str, str]:
    """The report's tables."""
    return {"rows": manifest.file(MARKDOWN).read_text(encoding="utf-8")}


def _generated(manifest: Manifest, store: Store) -> dict[str, str]:
    """A verified step of the round; the other stages of a round show no picture."""
    return _records(manifest, store) if "/verified/" in manifest.asset else {}


# --- screens ----------------------------------------------------------------------------------------------------------
def _records(manifest: Manifest, store: Store, judged: Manifest | None = None) -> dict[str, str]:
    """A step, else a sample; with what the judge said of it in `judged` (verdicts)."""
    record = record_of(manifest, store)
    if record is None:
        return {}
    image, found = record
    name, said = ("sample" if "sample_id" in found else "step"), {}
    if judged is not None:
        said = judge_pictures.reasons(judged, [item_of(found)])
    line = caption(found, *said.get(item_of(found), (None, "")))
    return {name: markdown(_png(image), f"a {name}", captions=[line])}


def record_of(manifest: Manifest, store: Store) -> tuple[Any, dict[str, Any]] | None:
    """(picture with the action or the boxes drawn, row) of the first step, else sample, that has something to draw;
    None without one. The picture is Pillow's."""
    found = _first(manifest, "steps", STEP) or _first(manifest, "samples", SAMPLE)
    if found is None:
        return None
    # Samples show boxes, steps gestures.
    if "sample_id" in found:
        return draw_boxes(store.screen_bytes(found["images"][0]), found["target_boxes"], 2 * SIDE_PX), found
    data = store.screen_bytes(found["screenshot_sha256"])
    return draw_action(data, parse(found["action_text"]), found["target_box"], 2 * SIDE_PX), found


def _first(manifest: Manifest, table: str, columns: list[str]) -> dict[str, Any] | None:
    """The first row with a picture and, of steps, a point to draw."""
    for path in manifest.paths(table):
        # The first rows are enough: most have a picture.
        for row in pq.read_table(path, columns=columns).slice(0, 200).to_pylist():
            if row.get("images") or (row.get("screenshot_sha256") and "=(" in (row["action_text"] or "")):
                return dict(row)
    return None


def _sheet(manifest: Manifest, store: Store) -> dict[str, str]:
    if not any(entry.path.endswith("/sheet.png") for entry in manifest.files):
        return {}
    said = json.loads(manifest.file("card.json").read_text(encoding="utf-8")).get("captions", [])
    sheet, title = manifest.file("sheet.png").read_bytes(), "twelve samples with their actions drawn"
    return {"sheet": markdown(sheet, title, captions=[markdown_text(line) for line in said])}


def _shards(manifest: Manifest, store: Store) -> dict[str, str]:
    """The first picture of a few shards, side by side, as the trainer will get them."""
    images, captions = [], []
    for path in manifest.paths("shard")[:4]:
        file = pq.ParquetFile(path)
        # A shard may be empty, where little was left for it.
        if file.metadata.num_row_groups:
            for row in with_prompts(file.read_row_group(0, columns=SAMPLE).take([0])).to_pylist():
                images += [open_image(picture["bytes"]) for picture in row["images"][:1]]
                captions += [caption(row)] * bool(row["images"])
    if not images:
        return {}
    for image in images:
        image.thumbnail((SIDE_PX, SIDE_PX))
    strip = Image.new("RGB", (sum(i.width + 8 for i in images), max(i.height for i in images)), "white")
    left = 0
    for image in images:
        strip.paste(image, (left, 0))
        left += image.width + 8
    return {"pictures": markdown(_png(strip), "first pictures of some shards", captions=captions)}


def _png(image: Any) -> bytes:
    image.thumbnail((2 * SIDE_PX, SIDE_PX))
    buffer = io.BytesIO()
    # Few colours: pictures stand in the metadata of every version.
    image.convert("RGB").quantize(128).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


# --- charts -----------------------------------------------------------------------------------------------------------
def _chart(draw: Callable[[Any], None], title: str, width: float = 6.0, height: float = 2.8) -> bytes:
    """PNG of a Matplotlib figure; no global state, so it may run in any thread."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    # An own canvas, as pyplot keeps global state.
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=9, loc="left", color=INK)
    axes.tick_params(labelsize=7, colors=INK)
    draw(axes)
    # `savefig` draws everything twice
    canvas.draw()
    buffer = io.BytesIO()
    Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1).save(buffer, "PNG")
    return buffer.getvalue()


def _bars(title: str, values: Mapping[str, float]) -> bytes:
    return _chart(lambda axes: axes.bar(list(values), list(values.values()), color=INK), title)


def _scores(manifest: Manifest, store: Store) -> dict[str, str]:
    scores: Mapping[str, int] = manifest.counts.get("scores", {})
    # Nothing was judged yet.
    if not any(scores.values()):
        return {}

    def draw(axes: Any) -> None:
        axes.bar(
            list(scores),
            list(scores.values()),
            # In three colours, by what becomes of such items.
            color=[ACCENT if int(s) < 4 else PALE if int(s) < 7 else INK for s in scores],
        )
        axes.set_xlabel("score: 0-3 reconstruct or discard, 4-6 rewrite, 7-10 keep", fontsize=7, color=INK)

    found = {"scores": markdown(_chart(draw, "Items by the judge's score, round 0"), "score histogram")}
    for name, (png, captions) in judge_pictures.worst_and_best(manifest, store).items():
        found[name] = markdown(png, f"the {name} by the judge, with their scores", captions=captions)
    return found


def _gold(manifest: Manifest, store: Store) -> dict[str, str]:
    asset = f"verdicts/{manifest.asset.partition('/')[2]}"
    # The verdicts that this version was made from, not the current ones.
    verdicts = store.version(asset, manifest.inputs[asset])
    first = judge_pictures.first_scores(verdicts, store)
    if not first:
        return _records(manifest, store, verdicts)
    last = judge_pictures.last_scores(manifest, first)
    moved = judge_pictures.flow(manifest, first)
    scores = _chart(lambda axes: judge_pictures.draw_before_after(axes, first, last), "Scores before and after")
    flow = _chart(lambda axes: judge_pictures.draw_flow(axes, moved), "What became of the items", 6.5, 3.6)
    return {
        "flow": markdown(flow, "from the first verdict to the end"),
        "scores": markdown(scores, "score histograms"),
        **_records(manifest, store, verdicts),
    }


def _judge_figures(manifest: Manifest, store: Store) -> dict[str, str]:
    """Recall per defect and the reliability diagram of a judge on the bench."""
    titles = {"recall": "recall per defect at 5 % false alarms", "reliability": "risk and share of bad items"}
    return {name: markdown(manifest.file(f"{name}.png").read_bytes(), title) for name, title in titles.items()}


def _triggers(manifest: Manifest, store: Store) -> dict[str, str]:
    """Crops of what is suspected to be a planted trigger, one sheet a source."""
    # Eight at most: each is a picture in the metadata.
    sheets = [entry for entry in (*manifest.files, *manifest.side_files) if "/triggers/" in entry.path][:8]
    rows = manifest.read("triggers").to_pylist() if sheets else []
    found = {}
    for entry in sheets:
        name = entry.path.rpartition("/")[2]
        mine = [row for row in rows if f"{row['source']}.png" == name]
        said = [f"{markdown_text(row['reason'])}: on {row['screens']} screens of {row['source']}" for row in mine]
        found[name] = markdown((manifest.root / entry.path).read_bytes(), "suspicious patches", captions=said)
    return found


def _hygiene(manifest: Manifest, store: Store) -> dict[str, str]:
    found: dict[str, dict[str, int]] = {}
    for table in ("keep", "displaced"):
        for path in manifest.paths(table):
            for entry in pq.read_table(path, columns=["source"])["source"].value_counts().to_pylist():
                row = found.setdefault(entry["values"], {"keep": 0, "displaced": 0})
                row[table] += entry["counts"]
    if not found:
        return {}

    def draw(axes: Any) -> None:
        names = sorted(found)
        retained = [found[name]["keep"] for name in names]
        axes.bar(names, retained, color=INK, label="kept")
        # On top of each other: together they are all items.
        axes.bar(names, [found[name]["displaced"] for name in names], bottom=retained, color=ACCENT, label="displaced")
        axes.tick_params(axis="x", rotation=30)
        axes.legend(fontsize=7, frameon=False)

    return {"duplicates": markdown(_chart(draw, "Items kept and displaced, by source"), "duplicates by source")}


def _pairs(manifest: Manifest, store: Store) -> dict[str, str]:
    """The first pairs of training item (left) and evaluation item (right), as they were drawn when they were found."""
    paths = [manifest.root / e.path for e in (*manifest.files, *manifest.side_files) if "/pairs/" in e.path]
    drawn = [path for path in sorted(paths) if path.suffix == ".png"][:4]
    rows = {row["file"].rpartition("/")[2]: row for row in manifest.read("pairs").to_pylist()} if drawn else {}
    found = {}
    for number, path in enumerate(drawn, 1):
        row = rows[path.name]
        said = f"{row['item_id']} is like {row['suite_item']} of {row['suite']}, by {row['kind']}"
        found[f"pair {number}"] = markdown(path.read_bytes(), "training item, evaluation item", said)
    return found


def _mixture(manifest: Manifest, store: Store) -> dict[str, str]:
    rows = [row for row in manifest.read("shares").to_pylist() if row["group"] == "objective"]

    def draw(axes: Any) -> None:
        places = range(len(rows))
        axes.bar(
            [p - 0.2 for p in places], [100 * row["target_share"] for row in rows], 0.4, color=PALE, label="target"
        )
        axes.bar(
            [p + 0.2 for p in places], [100 * row["reached_share"] for row in rows], 0.4, color=INK, label="reached"
        )
        axes.set_xticks(list(places), [row["name"] for row in rows])
        axes.set_ylabel("% of tokens", fontsize=7, color=INK)
        axes.legend(fontsize=7, frameon=False)

    return {"mixture": markdown(_chart(draw, "Token shares by objective"), "mixture")} if rows else {}


def _strata(manifest: Manifest, store: Store) -> dict[str, str]:
    strata: dict[str, float] = {}
    for path in manifest.paths("tasks"):
        for entry in pq.read_table(path, columns=["stratum"])["stratum"].value_counts().to_pylist():
            strata[str(entry["values"])] = strata.get(str(entry["values"]), 0) + entry["counts"]
    return {"strata": markdown(_bars("Tasks by stratum", strata), "tasks by stratum")} if strata else {}


def _curves(manifest: Manifest, store: Store) -> dict[str, str]:
    names = {entry.path.rpartition("/")[2] for entry in manifest.files}
    drawn: dict[str, str] = {}
    for name, chart in curves_of(manifest).items():
        drawn |= _lines(name, chart.title, chart.series)
    if "rollout.png" in names:
        strip = manifest.file("rollout.png").read_bytes()
        # The picture says itself what it shows.
        drawn["rollout"] = markdown(strip, "screens of a rollout", caption_in(strip))
    if "merge.json" in names:
        # A merged checkpoint wasn't trained, so it has no curves.
        layers = json.loads(manifest.file("merge.json").read_text(encoding="utf-8")).get("layers", [])
        norms = {row["name"]: row["delta_norm"] for row in layers}
        return {"layers": markdown(_bars("Change by layer (norm)", norms), "change by layer")} if norms else {}
    return drawn


def _lines(name: str, title: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, str]:
    drawn = {label: points for label, points in series.items() if points}
    if not drawn:
        return {}

    def draw(axes: Any) -> None:
        for (label, points), colour in zip(drawn.items(), (INK, ACCENT), strict=False):
            # A few points are hard to see on a line.
            few = "o" if len(points) < FEW else ""
            axes.plot(
                [p[0] for p in points],
                [p[1] for p in points],
                few + "-",
                color=colour,
                linewidth=1.2,
                markersize=3,
                label=label,
            )
        axes.xaxis.get_major_locator().set_params(integer=True)
        if len(series) > 1:  # also where one has no points: which is it that is drawn?
            axes.legend(fontsize=7, frameon=False)

    return {name: markdown(_chart(draw, title), title)}


def _evaluation(manifest: Manifest, store: Store) -> dict[str, str]:
    summary = json.loads(manifest.file("evaluation.json").read_text(encoding="utf-8"))["summary"]
    bars: list[tuple[str, Mapping[str, Any]]] = []
    if "grounding" in summary:
        bars.append(("grounding", summary["grounding"]["present"]))
        bars += [(name.replace("_", " "), value) for name, value in summary["grounding"]["controls"].items()]
    if "navigation" in summary:
        bars += [(f"step: {name}", summary["navigation"][name]) for name in ("step", "type", "format")]
        bars.append(("step: blind", summary["navigation"]["controls"]["blind"]))
    plain = ("grounding", "step: step", "step: type", "step: format")
    return _intervals("Held-out figures (dark) beside their controls, 95 % intervals", bars, plain)


def _suite(manifest: Manifest, store: Store) -> dict[str, str]:
    """The headline of a suite beside its strata, or its controls."""
    summary = json.loads(manifest.file(REPORT).read_text(encoding="utf-8"))["summary"]
    name = str(summary["headline_of"])
    measured = {name: summary[name] for name in BESIDE if name in summary}
    beside = {**measured, **summary.get("by_stratum", {}), **summary.get("controls", {})}
    bars = [(name, summary["headline"]), *((word.replace("_", " "), value) for word, value in beside.items())]
    what = "strata" if "by_stratum" in summary else "controls"
    return _intervals(f"{manifest.asset}: {name} (dark) beside its {what}, 95 % intervals", bars, (name,))


def _intervals(title: str, named: Sequence[tuple[str, Mapping[str, Any]]], plain: Collection[str]) -> dict[str, str]:
    """Bars of shares with their intervals, those of `plain` dark; without those over nothing. Where there are too few
    to say how sure a mean is, it has no line."""
    bars = [(name, value) for name, value in named if value.get("mean") is not None]
    if not bars:
        return {}

    def draw(axes: Any) -> None:
        means = [100 * value["mean"] for _, value in bars]
        ends = [
            # Without an interval the bar gets no line.
            [m if v[end] is None else 100 * v[end] for m, (_, v) in zip(means, bars, strict=True)]
            for end in ("low", "high")
        ]
        errors = [
            [max(0.0, m - low) for m, low in zip(means, ends[0], strict=True)],
            [max(0.0, high - m) for m, high in zip(means, ends[1], strict=True)],
        ]
        axes.bar(
            [n for n, _ in bars], means, yerr=errors, capsize=2, color=[INK if n in plain else PALE for n, _ in bars]
        )
        axes.set_ylabel("%", fontsize=7, color=INK)
        axes.tick_params(axis="x", rotation=20)

    return {"figures": markdown(_chart(draw, title), "evaluation")}
