"""`vesper lineage`: back to the native files, forward to the checkpoints, and what a withdrawal makes stale."""

import argparse
import json
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dagster_project.commands.store_option import add_store, open_store
from dagster_project.lineage.forward_text import forward_lines, forward_picture, plan_lines
from dagster_project.lineage.manifests import Manifests, Start, name_of
from dagster_project.lineage.openlineage import run_events
from dagster_project.lineage.origins import Origins, origins
from dagster_project.lineage.picture import Box, draw
from dagster_project.lineage.rebuild import plan
from dagster_project.lineage.subjects import find_subject
from dagster_project.lineage.tables import clean, table, tree
from dagster_project.lineage.touched import forward
from dagster_project.settings import deployment


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n  vesper lineage unified\n  vesper lineage gold/aitw --json\n  vesper lineage out/unified\n"
        "  vesper lineage unified --svg lineage.svg\n"
        "  vesper lineage aitw --forward            which checkpoints it touches\n"
        "  vesper lineage aitw --withdrawn          what becomes stale without it, and the rebuild plan\n"
        "  vesper lineage --openlineage events.ndjson"
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="a checkpoint's name or folder, or any asset key, with @VERSION for another than the current one; with "
        "--forward or --withdrawn also a dataset, a screen's sha256, task:ID, or an item (step:..., sample:...)",
    )
    parser.add_argument("--forward", action="store_true", help="which checkpoints NAME touches, row by row")
    parser.add_argument("--withdrawn", action="store_true", help="what is stale without NAME, and the rebuild plan")
    add_store(parser)
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a picture of the graph")
    parser.add_argument(
        "--openlineage",
        type=Path,
        metavar="FILE",
        help="write OpenLineage run events as NDJSON, one a committed manifest (of NAME's ancestry, or "
        "of the whole store)",
    )
    parser.set_defaults(run=run)


def show(lines: Iterable[str], plain: object, as_json: bool) -> None:
    """Print an answer as text or as JSON."""
    if as_json:
        print(json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False))
        return
    for line in lines:
        print(line)


def write_file(path: Path, text: str) -> None:
    """Write a whole file. Raises `ValueError` if its folder isn't there."""
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"{path}: expected a file to write in a folder that exists")
    path.write_text(text, encoding="utf-8")


def run(options: argparse.Namespace) -> int:
    """Answer the question, and write the files that were requested."""
    if options.forward and options.withdrawn:
        raise ValueError("--forward and --withdrawn: give one of them")
    if options.name is None and not options.openlineage:
        raise ValueError("expected NAME (a checkpoint, an asset, a dataset ...), or --openlineage FILE")
    if options.name is None and (options.forward or options.withdrawn or options.svg):
        raise ValueError("--forward, --withdrawn and --svg need NAME")
    manifests = Manifests(open_store(options.home))
    if options.forward or options.withdrawn:
        if options.openlineage:
            raise ValueError("--openlineage is written of an ancestry or of the whole store, not forward")
        return _forward(options, manifests)
    start = None if options.name is None else manifests.start(options.name)
    if options.openlineage:
        _openlineage(options, manifests, start)
    if start is None:
        return 0
    found = origins(manifests, start)
    show(_back(manifests, start, found), found.plain(), options.json)
    if options.svg:
        write_file(options.svg, _picture(manifests, start, found))
    return 0


def _back(manifests: Manifests, start: Start, found: Origins) -> Iterator[str]:
    """Datasets, judges and code as tables, then the tree with each ancestor's own ancestors once."""
    yield found.asset
    columns = ("records", "items", "quarantined", "gold", "samples", "packed", "trained")
    rows = [
        [
            d.name + ("" if d.current else " (not current)"),
            d.version,
            d.role,
            d.revision,
            d.licence,
            *(d.rows.get(name) for name in columns),
        ]
        for d in found.datasets
    ]
    yield ""
    yield f"raw datasets: {len(rows)}"
    yield from table(("dataset", "version", "role", "revision", "licence", *columns), rows)
    for one in found.generated:
        yield (
            f"generated by Vesper's own loop: {one.verified} of {one.trajectories} trajectories verified in "
            f"{one.rounds} rounds, {one.samples} samples, {'-' if one.trained is None else one.trained} rows trained"
        )
    yield ""
    yield "judges"
    judged = [[j.judge, j.model, j.rubric_version, j.verdicts, f"{len(j.assets)} assets"] for j in found.judges]
    yield from table(("judge", "model", "rubric", "verdicts", "in"), judged)
    if found.annotators:
        votes = ", ".join(f"{clean(name)} {number}" for name, number in found.annotators.items())
        yield f"votes on generated trajectories: {votes}"
    yield ""
    yield "code"
    versions = "; ".join(f"{group} {', '.join(used)}" for group, used in found.code["versions"].items())
    yield from textwrap.wrap(versions, 118, initial_indent="  ", subsequent_indent="  ", break_long_words=False)
    if found.code["checkpoint"]:
        stated = found.code["checkpoint"]
        yield "  checkpoint: " + ", ".join(f"{key} {clean(value, 80)}" for key, value in stated.items() if value)
    recorded = ", ".join(found.code["recorded_revisions"]) or "not recorded in the manifests"
    yield f"  revision: {recorded}; the code that answers here is {found.code['revision_here'] or 'no checkout'}"
    for name, why in found.missing.items():
        yield f"{clean(name)}: {clean(why)}"
    yield ""
    yield from tree(manifests, start.inputs)


def _picture(manifests: Manifests, start: Start, found: Origins) -> str:
    data = {f"raw/{d.name}@{d.version}": d for d in found.datasets}
    boxes, edges = [], {}
    for node, manifest in manifests.upstream(start.inputs.items()).items():
        key = name_of(node)
        dataset = data.get(key)
        line = f"{dataset.revision} · {dataset.licence}" if dataset else node[1]
        hint = json.dumps(manifest.counts, sort_keys=True, ensure_ascii=False) if manifest else "not in this store"
        boxes.append(Box(key, line, f"{key} {hint}", "" if manifest else "gone"))
        edges[key] = [name_of(parent) for parent in (manifest.inputs.items() if manifest else ())]
    boxes.append(Box(start.name, "asked for", start.name, "start"))
    edges[start.name] = [name_of(parent) for parent in start.inputs.items()]
    return draw(f"Lineage of {start.name}", boxes, edges)


def _openlineage(options: argparse.Namespace, manifests: Manifests, start: Start | None) -> None:
    chosen = manifests.all
    if start is not None:
        above = manifests.upstream(start.inputs.items())
        chosen = [m for m in (*above.values(), start.manifest) if m is not None]
    lines = [json.dumps(event, sort_keys=True, ensure_ascii=False) for event in run_events(manifests, chosen)]
    write_file(options.openlineage, "".join(f"{line}\n" for line in lines))
    if not options.json:
        print(f"{options.openlineage}: {len(lines)} run events")


def _forward(options: argparse.Namespace, manifests: Manifests) -> int:
    subject = find_subject(manifests, options.name)
    found = forward(manifests, subject)
    plain: dict[str, Any] = found.plain()
    lines = list(forward_lines(found))
    built = None
    if options.withdrawn:
        from dagster_project.stages import graph

        built = plan(manifests, subject, graph.stages(deployment.load()))
        plain["plan"] = built.plain()
        lines += ["", *plan_lines(built)]
    show(lines, plain, options.json)
    if options.svg:
        write_file(options.svg, forward_picture(manifests, subject, built))
    return 0
