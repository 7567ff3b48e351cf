"""Figures that docs/capacity.md is computed from: what `make demo`, `make bench` and `bench/generation.py` left."""

import datetime
import json
import time
from pathlib import Path
from typing import Any


def measure(home: Path, rounds: Path, report: Path, generation: Path, results: Path) -> dict[str, Any]:
    """Figures by name: value, unit, and where it was measured. `home` is the store of a demo, `report` that demo's,
    `rounds` a store with rounds of the generation loop. Raises `SystemExit` if a file is missing."""
    from pipelines.store import Store

    said = {name: read(path) for name, path in (("report", report), ("generation", generation), ("results", results))}
    store, seconds = Store(home), said["report"]["seconds"]["stages"]
    rows = sum(source["items"]["in"] for source in said["report"]["sources"].values())
    shards, duplicates = store.require("mid_training/shards"), store.require("hygiene/duplicates")
    samples, packed = shards.counts["gold_samples"], shards.counts["packed"]
    pictures = [path.stat().st_size for path in (home / "screens").rglob("*.*")]
    area = _area(home)
    loop = said["generation"]["with feedback"]
    executed = sum(entry["executed"] for entry in loop)
    demo = f"a demo of {rows:,} native rows on this machine (report.json)"
    made = "the same demo's store"

    def stage(*groups: str) -> float:
        return float(sum(value for key, value in seconds.items() if key.startswith(groups)))

    def rate(name: str) -> float:
        return float(next(line["value"] for line in said["results"] if line["name"].startswith(name)))

    bench, loop_bench = "make bench, bench/results.json", "bench/generation.py, six rounds"
    tables = sum(
        entry.bytes
        for group in ("unified", "verdicts", "gold")
        for manifest in _current(store, group)
        for entry in manifest.files
    )
    found: dict[str, tuple[float, str, str]] = {
        "rows unified, flat": (rate("unify, flat"), "rows a core-second", bench),
        "rows unified, nested": (rate("unify, nested"), "rows a core-second", bench),
        "pixels verified": (_pixels_verified(home), "pixels a core-second, decoded whole and hashed twice", made),
        "rows judged by rules and refined": (rows / stage("verdicts/", "gold/"), "rows a core-second", demo),
        "items deduplicated, embedding included": (
            duplicates.counts["items"] / stage("hygiene/duplicates"),
            "items a core-second",
            demo,
        ),
        "samples checked for contamination and scanned": (
            samples / stage("hygiene/contamination", "hygiene/shard_scan"),
            "samples a core-second",
            demo,
        ),
        "samples packed": (packed / stage("mid_training/shards"), "samples a core-second", demo),
        "training samples a native row": (samples / rows, "samples", made),
        "text tokens a sample": (_text_tokens(store), "tokens, pictures not counted", made),
        "pictures a native row": (len(pictures) / rows, "pictures", made),
        "bytes a picture's pixel": (sum(pictures) / area, "bytes", made),
        "bytes of tables a native row": (tables / rows, "bytes", made),
        "bytes of shards a byte of pictures": (
            sum(entry.bytes for entry in shards.files) / sum(pictures),
            "bytes",
            made,
        ),
        "tasks executed for a verified trajectory": (
            executed / sum(entry["verified"] for entry in loop),
            "tasks",
            loop_bench,
        ),
        "cores' seconds a task, proposing to verdict": (
            sum(entry["seconds"] for entry in loop) / executed,
            "seconds",
            loop_bench,
        ),
        "turns a task": _turns(Store(rounds)),
        **_judge(home),
    }
    days = {
        path: datetime.date.fromtimestamp(path.stat().st_mtime).isoformat() for path in (report, generation, results)
    }
    of = {bench: results, loop_bench: generation}
    return {
        name: {"value": float(f"{value:.6g}"), "unit": unit, "where": where, "date": days[of.get(where, report)]}
        for name, (value, unit, where) in found.items()
    }


def read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"capacity: {path}: expected what a demo or a bench wrote: {error}") from None


def _current(store: Any, group: str) -> list[Any]:
    folders = sorted((store.home / "assets" / group).glob("*"))
    return [found for path in folders if (found := store.current(f"{group}/{path.name}")) is not None]


def _area(home: Path) -> float:
    """Pixels of all screens of a store."""
    from PIL import Image

    total = 0
    for path in (home / "screens").rglob("*.*"):
        with Image.open(path) as picture:
            total += picture.width * picture.height
    return float(total)


def _pixels_verified(home: Path, at_most: int = 500) -> float:
    """What unify does with a picture that it sees for the first time."""
    from pipelines.store.images import read_image

    pictures = [path.read_bytes() for path in sorted((home / "screens").rglob("*.*"))[:at_most]]
    began = time.process_time()
    pixels = sum(info.width_px * info.height_px for info in map(read_image, pictures))
    return pixels / (time.process_time() - began)


def _text_tokens(store: Any) -> float:
    """Mean of prompt and answer over all gold samples, by the mixture's own rule (`pipelines.prompts.tokens`)."""
    from pipelines.prompts.tokens import count_tokens
    from schemas.tables import Samples

    total = count = 0
    for manifest in _current(store, "gold"):
        table = manifest.read("samples", Samples.schema).select(["messages", "answer"])
        for messages, answer in zip(*(table.column(name).to_pylist() for name in ("messages", "answer")), strict=True):
            total += count_tokens(messages, answer, ())
            count += 1
    return total / count


def _turns(store: Any) -> tuple[float, str, str]:
    """Turns of an execution, from the rounds that the store holds."""
    rounds = [
        store.current(f"generation/trajectories/{path.name}")
        for path in sorted((store.home / "assets" / "generation" / "trajectories").glob("round_*"))
    ]
    counts = [manifest.counts for manifest in rounds if manifest is not None]
    if not counts:
        raise SystemExit("capacity: expected rounds of the generation loop in the store, found none (a demo runs two)")
    mean = sum(count["turns"] for count in counts) / sum(count["trajectories"] for count in counts)
    return mean, "turns", "two rounds of the same demo"


def _judge(home: Path, source: str = "aitw") -> dict[str, tuple[float, str, str]]:
    """What a model judge asks about a source: requests a native row, characters and pictures a request."""
    from openai_server import OpenAIServer

    from pipelines.store import Store
    from quality.items.part import load_part
    from quality.judges.openai_judge import OpenAIJudge
    from quality.judges.verdicts import judge_part

    store = Store(home)
    unified = store.require(f"unified/{source}")
    with OpenAIServer() as server:
        judge = OpenAIJudge(server.url, "stand-in", None)
        for key in unified.part_hashes:
            judge_part(load_part(unified, key, store), judge)
        bodies = server.bodies
    parts = [part for body in bodies for message in body["messages"] for part in _parts(message["content"])]
    chars = sum(len(part["text"]) for part in parts if part["type"] == "text")
    pictures = sum(part["type"] == "image_url" for part in parts)
    where = f"judge openai asked about unified/{source} of the same demo"
    return {
        "judge's requests a native row": (len(bodies) / unified.counts["items_in"], "requests", where),
        "characters a judge's request": (chars / len(bodies), "characters", where),
        "pictures a judge's request": (pictures / len(bodies), "pictures", where),
    }


def _parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
