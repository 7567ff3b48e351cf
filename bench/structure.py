"""Figures of the tree's structure, with the limits that `make lint` holds them to: python bench/structure.py [CHECKOUT]

A *room* is a folder or file directly below a top folder. Rooms that all reach each other by imports, wherever in a file
an import stands, are a *knot*: nobody can read one of them without the rest. Imports for type checkers alone don't
count. Prints a line for each figure, with its limit; exit code 1 where one is past it. Where the tree isn't yet what is
wanted, the limit is what it has: it gets no worse.
"""

import argparse
import ast
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import grimp
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure

TOPS = ("schemas", "pipelines", "quality", "generators", "trainer", "dagster_project", "vesper")
FORMATTER_SKIP = re.compile(r"#\s*fmt:\s*(skip|off)")
PRAGMA = re.compile(r"#\s*(noqa|fmt|type:|ruff|pragma)")
"""Comments for tools, which explain nothing to a reader."""
MOST_ANY = 8.5
"""Percent; what the tree has, until it is the 8 that are wanted."""


def circles(links: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Groups of two and more nodes that all reach each other, largest first. `links`: node → nodes it points to."""
    names = sorted({*links, *(target for targets in links.values() for target in targets)})
    place = {name: index for index, name in enumerate(names)}
    pairs = [(place[source], place[target]) for source, targets in links.items() for target in targets]
    rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
    graph = csr_array((np.ones(len(pairs)), (rows, columns)), shape=(len(names), len(names)))
    _, labels = connected_components(graph, connection="strong")
    groups = defaultdict(list)
    for name, label in zip(names, labels, strict=True):
        groups[label].append(name)
    return sorted((group for group in groups.values() if len(group) > 1), key=len, reverse=True)


def room_of(module: str) -> str | None:
    """`trainer.rl.grpo` → `trainer.rl`; None for a top folder itself."""
    parts = module.split(".")
    return ".".join(parts[:2]) if len(parts) > 1 else None


def import_figures() -> list[Figure]:
    """Knots between rooms and circles between files, from the import graph of what is on the path."""
    graph = grimp.build_graph(*TOPS, cache_dir=None, exclude_type_checking_imports=True)
    files = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    rooms: dict[str, set[str]] = defaultdict(set)
    for source, targets in files.items():
        for target in targets:
            pair = room_of(source), room_of(target)
            if pair[0] and pair[1] and pair[0] != pair[1] and source.split(".")[0] == target.split(".")[0]:
                rooms[pair[0]].add(pair[1])
    knots, file_circles = circles(rooms), circles(files)
    listed = tuple(", ".join(group) for group in file_circles)
    return [
        Figure("largest knot of rooms", max(map(len, knots), default=1), most=2, examples=tuple(map(", ".join, knots))),
        Figure("circles of files", len(file_circles), most=0, examples=listed),
    ]


def in_functions(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """Import statements that stand inside functions."""
    found: dict[int, ast.Import | ast.ImportFrom] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found |= {id(part): part for part in ast.walk(node) if isinstance(part, ast.Import | ast.ImportFrom)}
    return list(found.values())


def module_of(statement: ast.Import | ast.ImportFrom) -> str:
    """The module an import statement names first."""
    return statement.names[0].name if isinstance(statement, ast.Import) else statement.module or ""


def public_functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions, and methods of public classes, whose names begin without an underscore."""
    found: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    bodies: list[list[ast.stmt]] = [tree.body]
    while bodies:
        for node in bodies.pop():
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("_"):
                continue
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append(node)
            elif isinstance(node, ast.ClassDef):
                bodies.append(node.body)
            elif isinstance(node, ast.If):
                bodies += [node.body, node.orelse]
    return found


def says_any(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether an annotation of a parameter or of the result holds `Any`."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    annotations = [function.returns, *(one.annotation for one in every if one is not None)]
    parts = (part for one in annotations if one is not None for part in ast.walk(one))
    return any(isinstance(part, ast.Name) and part.id == "Any" for part in parts)


def any_figure(trees: Mapping[str, ast.Module]) -> Figure:
    """The share of public functions whose signature says `Any` somewhere. `trees`: file → what it holds."""
    found, count = Counter[str](), 0
    for name, tree in trees.items():
        functions = public_functions(tree)
        count += len(functions)
        found[name] = sum(map(says_any, functions))
    share = round(100 * sum(found.values()) / max(count, 1), 1)
    worst = tuple(f"{name}: {number}" for name, number in found.most_common(12))
    return Figure("public signatures with Any, of 100 (wanted: 8)", share, most=MOST_ANY, examples=worst)


def text_figures(root: Path, files: Iterable[str]) -> list[Figure]:
    """What a look at each file's text gives."""
    files = list(files)
    own = other = skips = comments = lines = 0
    classes: dict[str, list[str]] = defaultdict(list)
    long_files, skipped, hidden = [], [], Counter[str]()
    trees: dict[str, ast.Module] = {}
    for name in files:
        text = (root / name).read_text(encoding="utf-8")
        here = text.splitlines()
        if len(here) > 400:
            long_files.append(f"{name}: {len(here)}")
        if name.split("/")[0] not in TOPS:
            continue
        tree = trees[name] = ast.parse(text)
        lines += len(here)
        comments += sum(line.lstrip().startswith("#") and not PRAGMA.match(line.lstrip()) for line in here)
        if found := len(FORMATTER_SKIP.findall(text)):
            skips += found
            skipped.append(f"{name}: {found}")
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(name)
        inside = [module_of(statement).split(".")[0] for statement in in_functions(tree)]
        hidden[name] = sum(module in TOPS for module in inside)
        own += hidden[name]
        other += len(inside) - hidden[name]
    doubled = {name: where for name, where in classes.items() if len(where) > 1}
    return [
        Figure(
            "imports of our own inside functions",
            own,
            most=130,
            examples=tuple(f"{n}: {k}" for n, k in hidden.most_common(12)),
        ),
        Figure("other imports inside functions", other),
        Figure(
            "class names that mean several things",
            len(doubled),
            most=15,
            examples=tuple(f"{n}: {', '.join(w)}" for n, w in doubled.items()),
        ),
        Figure("formatter skips", skips, most=50, examples=tuple(skipped)),
        Figure("comment lines of 100 (wanted: 4 to 8)", round(100 * comments / max(lines, 1), 2), least=3.2, most=8),
        any_figure(trees),
        Figure("files over 400 lines, tests included", len(long_files), most=0, examples=tuple(long_files)),
        Figure("lines in the six folders", lines),
    ]


def main() -> int:
    """Print the figures of a checkout."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "checkout", nargs="?", type=Path, default=Path(__file__).parents[1], help="whose figures (this)"
    )
    root = parser.parse_args().checkout.resolve()
    sys.path.insert(0, str(root))
    os.chdir(root)
    tracked = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True, cwd=root).stdout
    files = [name for name in tracked.splitlines() if (root / name).exists()]
    outside = sum(len((root / name).read_text().splitlines()) for name in files if not name.startswith("tests/"))
    figures = [
        *import_figures(),
        *text_figures(root, files),
        Figure("lines outside tests (wanted: 125,000)", outside, most=184_680),
    ]
    print("\n".join(map(str, figures)))
    return 0 if all(figure.fine for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
