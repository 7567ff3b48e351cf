"""An explanation as text for a terminal: one section a stage, in the order of the graph."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dagster_project.lineage.tables import clean, table
from trainer.worth.page import interval_text

SHOWN = 8
"""Rows of a section that text shows; JSON has them all."""


def explain_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Native row, rules, verdicts, what became of it, duplicates, shards, checkpoints, worth."""
    yield clean(answer["item"])
    yield from _native(answer["native"])
    for row in _some(answer.get("quarantine", [])):
        yield f"quarantined ({row['unit']}, {row['items']} items): {clean(row['reason'])}: {clean(row['detail'])}"
        yield f"  native: {clean(row['native'], 500)}"
    yield from _rows(answer.get("row", []))
    yield from _verdicts(answer.get("verdicts", []))
    for run in answer.get("trajectory", []):
        yield (
            f"trajectory of task {run['task_id']} by {clean(run['policy'])}: {run['outcome'] or 'nobody can tell'}, "
            f"{'verified' if run['verified'] else 'not verified'}: {clean(run['reason'])}"
        )
        for vote in run["votes"]:
            yield f"  {clean(vote[0])}: {vote[1]} ({vote[2]:g}) {clean(vote[3])}"
    yield f"became: {clean(answer['gold']['fate'])}"
    for row in _some(answer["gold"].get("after", [])):
        yield f"  after repair: {clean(row.get('action_text') or row.get('answer'))}"
    for row in _some(answer["gold"].get("rejects", [])):
        yield f"  {clean(row['item_id'])} rejected: {clean(row['reason'])}"
    yield from _hygiene(answer.get("hygiene", {}))
    yield from _corpus(answer)
    for row in answer.get("worth", []):
        yield (
            f"worth: {row['kind']}, {clean(row['subject'])}: {interval_text(row['points'], row['low'], row['high'])} "
            f"points ({row['says']}), {row['asset']} {row['version']}"
        )
    if answer.get("worth") == []:
        yield "worth: not measured (vesper worth --what sources)"


def _some(rows: Sequence[object]) -> Sequence[Any]:
    # Enough to see what is there; JSON has all.
    return rows[:SHOWN]


def _native(origins: Sequence[Mapping[str, object]]) -> Iterator[str]:
    for one in _some(origins):
        known = ", ".join(
            f"{key} {clean(one[key])}" for key in ("version", "revision", "licence", "sha256") if one.get(key)
        )
        yield f"native: {one['asset']} {clean(one['file'])} {clean(one['place'])}"
        if one.get("native_index") is not None:
            yield f"  record {clean(one['record'])}, item {one['native_index']} of it"
        if known:
            yield f"  {known}"
        rules = {key: one[key] for key in ("rules", "lossy", "gap_at", "image_missing") if one.get(key)}
        if rules:
            yield f"  rules applied: {clean(rules, 300)}"
        if "row" in one:
            yield f"  row: {clean(one['row'], 2000)}"
    if len(origins) > SHOWN:
        yield f"  and {len(origins) - SHOWN} more native rows"


def _rows(rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    for row in _some(rows):
        if "action_text" in row:
            yield (
                f"step {row['step_index']} ({row['split']}, {row['platform']}): {clean(row['action_text'])}  "
                f"for {clean(row['instruction'], 100)!r}"
            )
            yield f"  screen {row['screenshot_sha256']}; native action {clean(row['native_action'], 300)}"
        else:
            yield (
                f"sample ({row['split']}, {row['platform']}, {row['objective']}): "
                f"answer {clean(row['answer'], 160)!r}, derived by {clean((row['provenance'] or {}).get('deriver'))}"
            )
            parents = ", ".join(map(clean, row["parents"])) or "none"
            yield f"  screens {', '.join(row['images']) or 'none'}; parents {parents}"
    if len(rows) > SHOWN:
        yield f"  and {len(rows) - SHOWN} more rows"


def _verdicts(rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    yield f"verdicts: {len(rows)}"
    columns = ["item_id", "round", "score", "disposition", "judge", "model", "rubric_version", "reason"]
    cells = [[row[name] for name in columns] for row in _some(rows)]
    head = [name.removesuffix("_id").removesuffix("_version") for name in columns]
    if cells:
        yield from (f"  {line}" for line in table(head, cells, 70))


def _hygiene(found: Mapping[str, Sequence[Mapping[str, object]]]) -> Iterator[str]:
    for row in _some(found.get("contamination", [])):
        yield (
            f"contaminated: {clean(row['item_id'])} {clean(row['reason'])}, {clean(row['suite'])} "
            f"{clean(row['suite_item'])}: {clean(row['because'])}"
        )
    for row in _some(found.get("safety", [])):
        yield f"unsafe: {clean(row['item_id'])} {clean(row['reason'])}"
    for row in _some(found.get("refused", [])):
        yield f"refused: {clean(row['item_id'])} {clean(row['reason'])}"
    for row in _some(found.get("safety_findings", [])):
        found_by = f"{clean(row['rule'])} {clean(row['kind'])}"
        yield f"safety finding: {clean(row['item_id'])} {found_by}: {clean(row['detail'])}"
    for key, word in (("duplicate_of", "yields to"), ("displaces", "is kept instead of")):
        for row in _some(found.get(key, [])):
            one, other = (row["item_id"], row["kept"]) if key == "duplicate_of" else (row["kept"], row["item_id"])
            alike = "" if row["similarity"] is None else f", similarity {row['similarity']:.3f}"
            yield f"duplicate: {clean(one)} {word} {clean(other)} ({clean(row['reason'])}{alike})"


def _corpus(answer: Mapping[str, Any]) -> Iterator[str]:
    if "samples" in answer:
        kinds = Counter(outcome["meaning"] for outcome in answer["fates"].values())
        said = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common()) or "none"
        # The commonest outcome first; then single samples, but for those that train.
        yield f"samples: {answer['samples']}: {said}"
        for name, outcome in list(answer["fates"].items())[:SHOWN]:
            if outcome["kind"] != "trained":
                yield f"  {name}: {outcome['meaning']}{': ' if outcome['detail'] else ''}{clean(outcome['detail'])}"
        for row in _some(answer["shards"]):
            repeats = "" if row["repeats"] is None else f", {row['repeats']} times an epoch"
            yield f"shard: {clean(row['shard'])} row {row['row']}{repeats} ({row['sample_id']})"
        if len(answer["shards"]) > SHOWN:
            yield f"  and {len(answer['shards']) - SHOWN} more rows of shards"
    yield f"checkpoints: {len(answer['checkpoints'])}"
    for touch in answer["checkpoints"]:
        rows = ", ".join(f"{number} rows of {name}" for name, number in touch["rows"].items())
        parents = ", ".join(parent.partition("@")[0] for parent in touch["parents"])
        yield f"  {touch['asset']} {touch['version']}: {'; '.join(filter(None, (rows, parents and 'from ' + parents)))}"
