"""Where an asset comes from: the code of its function, and the columns that its own are taken from."""

import functools
import importlib.util
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import dagster as dg

from dagster_project.assets.keys import asset_key
from dagster_project.stages.stage import GraphStage, NamedFunction

STEP_COLUMNS = {
    "images": "screenshot_sha256",
    "messages": "step_instruction",
    "answer": "action_text",
    "target_boxes": "target_box",
    "parents": "episode_id",
}
"""Column of a sample → that of the steps which it is derived from, where their names differ."""
PASSED_ON = {"gold": ("unified",), "mid_training": ("gold", "mid_training"), "evaluations": ("gold",)}
"""Group → groups of inputs whose columns pass through to it."""


def code_references(stage: GraphStage) -> dg.CodeReferencesMetadataValue | None:
    """The line at which a stage's function begins; nothing is imported to find it. None where there is no file."""
    found = _named(stage.run) if isinstance(stage.run, NamedFunction) else _defined(stage.run)
    if found is None:
        return None
    path, line = found
    return dg.CodeReferencesMetadataValue(
        code_references=[dg.LocalFileCodeReference(file_path=str(path), line_number=line, label=path.name)]
    )


def _named(named: NamedFunction) -> tuple[Path, int] | None:
    module, _, name = named.where.rpartition(":")
    if module.endswith(".py"):
        path = Path(module)
    else:
        spec = importlib.util.find_spec(module)  # imports the packages above it, which are empty, and not itself
        path = Path(spec.origin) if spec is not None and spec.origin else Path()
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    # By text: to import it would take what the function needs, torch included.
    begun = re.search(rf"^def {re.escape(name)}\(", text, re.MULTILINE)
    return path, text.count("\n", 0, begun.start()) + 1 if begun else 1


def _defined(function: Callable[..., object]) -> tuple[Path, int] | None:
    """Of a function that is here; of a partial, or one that wraps another, of that; of an object, of what calls it."""
    # Whatever wraps the function, its own file and line are what a reader wants.
    while isinstance(function, functools.partial):
        function = function.func
    function = function if hasattr(function, "__code__") else type(function).__call__
    # A lambda that calls another function holds it in its closure.
    held = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    inner = next((one for one in held if callable(one) and hasattr(one, "__code__")), function)
    code = getattr(inner, "__code__", None)
    return (Path(code.co_filename), code.co_firstlineno) if code is not None else None


def column_lineage(stage: GraphStage, stages: Mapping[str, GraphStage]) -> dg.TableColumnLineage | None:
    """Columns of an asset → those of its inputs that they hold on; None where none passes through."""
    wanted = PASSED_ON.get(stage.group, ())
    inputs = [stages[dep] for dep in stage.deps if dep in stages and stages[dep].group in wanted]
    found: dict[str, list[dg.TableColumnDep]] = {}
    for name in stage.columns.schema.names if stage.columns is not None else ():
        for one in inputs:
            there = one.columns.schema.names if one.columns is not None else []
            # The same name, or the one that a sample's column has among steps.
            taken = name if name in there else STEP_COLUMNS.get(name, "")
            if taken in there:
                found.setdefault(name, []).append(dg.TableColumnDep(asset_key(one.key), taken))
    return dg.TableColumnLineage(found) if found else None
