"""The rooms of docs/architecture.md, drawn from the layers in pyproject.toml: python bench/architecture.py [--check]

Each top folder's contract of layers names its rooms, top to bottom; the first line of a room's docstring says what it
is. Writes the picture (docs/img/architecture.svg) and the tables between the page's two marks. `--check` writes
nothing; exit code 1 where a file isn't what would be written.
"""

import argparse
import ast
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "docs" / "architecture.md", ROOT / "docs" / "img" / "architecture.svg"
BEGIN, END = "<!-- rooms: written by bench/architecture.py -->", "<!-- end of rooms -->"
TOPS = ("schemas", "pipelines", "quality", "generators", "trainer", "dagster_project", "vesper")
WIDTH, ROW, GAP, HEAD = 210, 26, 10, 40
"""Pixels: width of a folder, height of a row of rooms, space between, height of the folder's name."""


@dataclass(frozen=True)
class Folder:
    """A top folder and its layers, top one first; rooms of one layer don't import each other."""

    name: str
    layers: tuple[tuple[str, ...], ...]


def folders(pyproject: Path = ROOT / "pyproject.toml") -> list[Folder]:
    """The folders in the order of imports, each with the rooms that its contract names."""
    contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    found = {}
    for contract in contracts:
        containers = contract.get("containers", [])
        if contract["type"] == "layers" and len(containers) == 1 and containers[0] in TOPS:
            layers = [
                tuple(name.strip(" ()") for name in re.split(r"[|:]", layer))
                if isinstance(layer, str)
                else tuple(layer)
                for layer in contract["layers"]
            ]
            found[containers[0]] = Folder(containers[0], tuple(layers))
    return [found[name] for name in TOPS if name in found]


def purpose(folder: str, room: str) -> str:
    """First sentence of a room's docstring, on one line."""
    path = ROOT / folder / room
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"\.(?: |$)", paragraph)[0].rstrip(":")


def table(folder: Folder) -> str:
    """The rooms of a folder with their purposes, as Markdown."""
    lines = [f"### `{folder.name}/`", "", "| room | is |", "|---|---|"]
    for layer in folder.layers:
        for room in layer:
            lines.append(f"| `{room}` | {purpose(folder.name, room).replace('|', '/')} |")
    return "\n".join(lines)


def rows_of(layer: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The rooms of a layer, two in a row."""
    return [layer[at : at + 2] for at in range(0, len(layer), 2)]


def picture(drawn: list[Folder]) -> str:
    """All folders beside each other, their rooms stacked as their layers are; imports go down and to the left."""
    heights = {folder.name: sum(len(rows_of(layer)) * (ROW + 3) + GAP for layer in folder.layers) for folder in drawn}
    height = HEAD + max(heights.values()) + 3 * GAP
    width = len(drawn) * (WIDTH + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for column, folder in enumerate(drawn):
        left = GAP + column * (WIDTH + GAP)
        parts.append(
            f'<rect x="{left}" y="{GAP}" width="{WIDTH}" height="{height - 2 * GAP}" rx="8" fill="#eef2f7"/>'
            f'<text x="{left + 12}" y="{GAP + 24}" font-size="15" font-weight="bold">{escape(folder.name)}</text>'
        )
        y = height - 2 * GAP - heights[folder.name]  # the lowest layers of all folders stand on one line
        for layer in folder.layers:
            for row in rows_of(layer):
                wide = (WIDTH - 2 * GAP - (len(row) - 1) * 3) / len(row)
                for place, room in enumerate(row):
                    x = left + GAP + place * (wide + 3)
                    fill = "#f3e3c3" if room == "proving" else "#ffffff"
                    size = min(12.0, 1.6 * wide / len(room))
                    parts.append(
                        f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{ROW}" rx="4" fill="{fill}" '
                        f'stroke="#8899aa"/><text x="{x + wide / 2:.1f}" y="{y + 17}" text-anchor="middle" '
                        f'font-size="{size:.1f}">{escape(room)}</text>'
                    )
                y += ROW + 3
            y += GAP
    return "\n".join((*parts, "</svg>", ""))


def page(text: str, drawn: list[Folder]) -> str:
    """The page with what stands between its marks written anew. Raises `ValueError` where it lacks them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE}: expected the marks {BEGIN} and {END}")
    return "\n\n".join((before + BEGIN, *map(table, drawn), END + after))


def main() -> int:
    """Write or check the picture and the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is stale")
    check = parser.parse_args().check
    drawn = folders()
    wanted = {PICTURE: picture(drawn), PAGE: page(PAGE.read_text(encoding="utf-8"), drawn)}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is stale: run python bench/architecture.py")
        else:
            path.write_text(wanted[path], encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
