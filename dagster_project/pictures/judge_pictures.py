"""Pictures of judging and refinement: scores before and after, what became of whom, the worst and the best items."""

import io
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dagster_project.pictures.captions import caption, item_of
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from quality.items.drawing import draw_action, draw_boxes
from quality.judges.judge import route
from schemas.actions import parse
from schemas.ids import item_sample, item_step

INK, ACCENT, PALE, MIDDLE = "#33415c", "#d1495b", "#9db4c0", "#edae49"
COLOURS = {"keep": INK, "rewrite": MIDDLE, "reconstruct": ACCENT, "review": PALE}
ENDS = ("kept", "rewritten", "reconstructed", "unrepaired", "review", "dropped", "discarded")
THUMB_PX, SHOWN = 250, 4
STEP = ["source", "episode_id", "step_index", "screenshot_sha256", "action_text", "target_box"]
STEP += ["instruction", "step_instruction"]
SAMPLE = ["sample_id", "images", "messages", "answer", "target_boxes"]
"""Columns of what is drawn and said of a step and of a sample."""


def first_scores(manifest: Manifest, store: Store) -> dict[str, int]:
    """Item → score of round 0 of a verdicts asset; items without a score are left out, episodes too."""
    found: dict[str, int] = {}
    for path in manifest.paths("verdicts"):
        table = pq.read_table(path, columns=["item_id", "score"])
        pairs = zip(table.column("item_id").to_pylist(), table.column("score").to_pylist(), strict=True)
        # An episode's score comes of its steps, which are counted themselves.
        found.update((item, score) for item, score in pairs if score is not None and not item.startswith("episode:"))
    return found


def last_scores(gold: Manifest, first: Mapping[str, int]) -> dict[str, int]:
    """Item → its last score; a repaired item counts under the id of what it was."""
    last = dict(first)
    for path in gold.paths("verdicts"):
        rows = pq.read_table(path, columns=["item_id", "round", "score"]).to_pylist()
        # In order of rounds, so that the last one stays.
        for row in sorted(rows, key=lambda row: row["round"]):
            # An item keeps its name through repairs.
            item = row["item_id"].partition("@r")[0]
            if item in last and row["score"] is not None:
                last[item] = row["score"]
    return last


def draw_before_after(axes: Any, first: Mapping[str, int], last: Mapping[str, int]) -> None:
    """Two histograms of scores, side by side."""
    for offset, scores, colour, name in ((-0.2, first, PALE, "round 0"), (0.2, last, INK, "last")):
        counts = Counter(scores.values())
        axes.bar([s + offset for s in range(11)], [counts[s] for s in range(11)], 0.4, color=colour, label=name)
    axes.set_xticks(range(11))
    axes.set_xlabel("score: 0-3 reconstruct or discard, 4-6 rewrite, 7-10 keep", fontsize=7, color=INK)
    axes.legend(fontsize=7, frameon=False)


def flow(gold: Manifest, first: Mapping[str, int]) -> Counter[tuple[str, str]]:
    """(disposition of round 0, end) → items."""
    ends: dict[str, str] = {}
    for table, name in (("steps", item_step), ("samples", item_sample)):
        for path in gold.paths(table):
            keys = ["source", "episode_id", "step_index"] if table == "steps" else ["sample_id"]
            for row in pq.read_table(path, columns=[*keys, "provenance"]).to_pylist():
                item = name(*(row[key] for key in keys))  # type: ignore[operator]
                if item in first:
                    # Provenance tells, as text: parsing millions of rows would take long.
                    repaired = '"repairs"' in row["provenance"]
                    rewritten = '"rewrite' in row["provenance"]
                    ends[item] = "rewritten" if rewritten else "reconstructed" if repaired else "kept"
    for path in gold.paths("rejects"):
        table = pq.read_table(path, columns=["item_id", "reason"])
        for item, reason in zip(table.column("item_id").to_pylist(), table.column("reason").to_pylist(), strict=True):
            # The reason's first word is the end; the rest is detail.
            ends[item.partition("@r")[0]] = reason.partition(":")[0].partition(" ")[0]
    return Counter((route(first[item]), end) for item, end in ends.items() if item in first)


def draw_flow(axes: Any, counts: Mapping[tuple[str, str], int]) -> None:
    """Bands from what round 0 said (left) to what became of the items (right), as wide as they are many."""
    total = sum(counts.values())
    left = _stack([(name, sum(n for (a, _), n in counts.items() if a == name)) for name in COLOURS], total)
    right = _stack([(name, sum(n for (_, b), n in counts.items() if b == name)) for name in ENDS], total)
    # Each band begins where the one before it ended.
    at_left, at_right = {k: v[0] for k, v in left.items()}, {k: v[0] for k, v in right.items()}
    for start in COLOURS:
        for end in ENDS:
            size = counts.get((start, end), 0) / total
            if size:
                _band(axes, at_left[start], at_right[end], size, COLOURS[start])
                at_left[start] += size
                at_right[end] += size
    for side, places, align in ((-0.02, left, "right"), (1.02, right, "left")):
        for name, (low, high) in places.items():
            if high > low:
                share = f"{name} {100 * (high - low):.1f} %"
                axes.text(side, (low + high) / 2, share, ha=align, va="center", fontsize=7, color=INK)
    axes.set_xlim(-0.45, 1.45)
    axes.axis("off")


def _stack(sizes: Sequence[tuple[str, int]], total: int) -> dict[str, tuple[float, float]]:
    """Places from bottom to top, with gaps between those that are there."""
    places, low = {}, 0.0
    for name, count in sizes:
        places[name] = (low, low + count / total)
        # Gaps only between ends that are there.
        low += count / total + (0.06 if count else 0.0)
    return places


def _band(axes: Any, left: float, right: float, size: float, colour: str) -> None:
    import numpy as np

    x = np.linspace(0, 1, 30)
    # A curve that leaves and arrives level.
    curve = left + (right - left) * (3 * x**2 - 2 * x**3)
    axes.fill_between(x, curve, curve + size, color=colour, alpha=0.55, linewidth=0)


def worst_and_best(verdicts: Manifest, store: Store) -> dict[str, tuple[bytes, list[str]]]:
    """Name → PNG of the items with the lowest and the highest scores, their actions or boxes drawn, and a caption for
    each from left to right."""
    scores = first_scores(verdicts, store)
    # By id where scores are equal, so that the picture is the same each time.
    order = sorted(scores, key=lambda item: (scores[item], item))
    source = verdicts.asset.partition("/")[2]
    unified = store.version(f"unified/{source}", verdicts.inputs[f"unified/{source}"])
    found = {}
    for name, items in (("worst", order), ("best", order[::-1])):
        # More than needed, as some have no picture.
        chosen = items[: 3 * SHOWN]
        shown = list(_drawn(unified, store, chosen, reasons(verdicts, chosen)))[:SHOWN]
        if shown:
            found[name] = _strip([image for image, _ in shown]), [line for _, line in shown]
    return found


def reasons(verdicts: Manifest, items: Collection[str]) -> dict[str, tuple[int | None, str]]:
    """Item → the judge's score and reason of its first round."""
    wanted, found = pa.array(list(items), pa.string()), dict[str, tuple[int | None, str]]()
    for path in verdicts.paths("verdicts"):
        table = pq.read_table(path, columns=["item_id", "round", "score", "reason"])
        for row in table.filter(pc.is_in(table["item_id"], wanted)).sort_by("round").to_pylist():
            # The first round's, as that is the judge's own word on the native item.
            found.setdefault(row["item_id"], (row["score"], row["reason"]))
    return found


def _drawn(
    unified: Manifest, store: Store, items: Sequence[str], verdicts: Mapping[str, tuple[int | None, str]]
) -> Iterator[tuple[Any, str]]:
    """Thumbnails with their captions, in the order of the items; those without a picture are left out."""
    wanted = dict.fromkeys(items)
    rows: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {}
    for path in unified.paths("steps"):
        for row in pq.read_table(path, columns=STEP).to_pylist():
            if row["screenshot_sha256"] and row["action_text"] and item_of(row) in wanted:
                rows[item_of(row)] = _step, row
    for path in unified.paths("samples"):
        for row in pq.read_table(path, columns=SAMPLE).to_pylist():
            if row["images"] and item_of(row) in wanted:
                rows[item_of(row)] = _sample, row
    for item in wanted:
        if item in rows:
            draw, row = rows[item]
            score, reason = verdicts[item]
            yield _labelled(draw(store, row), str(score)), caption(row, score, reason)


def _step(store: Store, row: Mapping[str, Any]) -> Any:
    data = store.screen_bytes(row["screenshot_sha256"])
    return draw_action(data, parse(row["action_text"]), row["target_box"], 2 * THUMB_PX)


def _sample(store: Store, row: Mapping[str, Any]) -> Any:
    return draw_boxes(store.screen_bytes(row["images"][0]), row["target_boxes"], 2 * THUMB_PX)


def _labelled(image: Any, text: str) -> Any:
    from PIL import ImageDraw

    image = image.convert("RGB")
    image.thumbnail((THUMB_PX, THUMB_PX))
    draw = ImageDraw.Draw(image)
    # White below the number, as screens have any colour.
    draw.rectangle((0, 0, 8 + 8 * len(text), 15), fill="white")
    draw.text((4, 2), text, fill=ACCENT if int(text) < 4 else INK)
    return image


def _strip(images: Sequence[Any]) -> bytes:
    from PIL import Image

    strip = Image.new("RGB", (sum(i.width + 6 for i in images), max(i.height for i in images)), "white")
    left = 0
    for image in images:
        strip.paste(image, (left, 0))
        left += image.width + 6
    buffer = io.BytesIO()
    strip.save(buffer, "PNG")
    return buffer.getvalue()
