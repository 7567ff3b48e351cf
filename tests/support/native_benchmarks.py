"""Small folders in the native form of each grounding benchmark, and answers that are known by hand."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from pipelines.prompts import prompt_text
from trainer.suites.answering import SuiteAnswer


@cache
def png(width: int, height: int, shade: int = 0) -> bytes:
    """A plain picture; another shade is another screen."""
    out = io.BytesIO()
    Image.new("L", (width, height), shade % 256).save(out, "PNG")
    return out.getvalue()


def write(root: Path, name: str, rows: Any) -> None:
    """JSON (a list or an object), or JSON lines by the name's ending; bytes as they are."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(rows, bytes):
        path.write_bytes(rows)
    else:
        path.write_text("\n".join(map(json.dumps, rows)) if name.endswith("l") else json.dumps(rows), encoding="utf-8")


class Scripted:
    """Answers by a function of (instruction, picture); remembers what it was asked."""

    name = "scripted"

    def __init__(self, answer: Callable[[str, bytes], str]) -> None:
        self._answer = answer
        self.asked: list[str] = []

    def __call__(self, rows: Sequence[Any], max_new_tokens: int, /) -> list[SuiteAnswer]:
        found = []
        for row in rows:
            words = prompt_text(row["messages"]).removeprefix("Where is ").removesuffix("?")
            self.asked.append(words)
            found.append(SuiteAnswer(self._answer(words, row["images"][0])))
        return found


def by_words(**answers: str) -> Scripted:
    """Answers by the instruction alone ("_" stands for a blank), [0,0] to the rest."""
    known = {words.replace("_", " "): reply for words, reply in answers.items()}
    return Scripted(lambda words, picture: known.get(words, "[0,0]"))


def screenspot_v2(root: Path) -> None:
    """Original rows (x, y, width, height), one file a platform; four screens of 200 x 100."""

    def row(name: str, words: str, box: list[int], kind: str, source: str) -> dict[str, Any]:
        return {"img_filename": name, "instruction": words, "bbox": box, "data_type": kind, "data_source": source}

    write(
        root,
        "screenspot_mobile_v2.json",
        [
            row("mobile_1.png", "go back", [20, 10, 40, 30], "icon", "ios"),
            row("mobile_2.png", "send it", [0, 0, 20, 10], "text", "android"),
        ],
    )
    write(
        root,
        "screenspot_desktop_v2.json",
        [
            row("pc_1.png", "close", [180, 0, 20, 10], "icon", "windows"),
            row("pc_1.png", "open", [0, 90, 20, 10], "text", "macos"),
        ],
    )
    write(
        root,
        "screenspot_web_v2.json",
        [
            row("web_1.png", "search", [100, 50, 40, 20], "text", "shop"),
            row("web_gone.png", "lost", [0, 0, 5, 5], "text", "shop"),
            row("web_1.png", "off", [900, 0, 5, 5], "text", "shop"),
        ],
    )
    for shade, name in enumerate(("mobile_1", "mobile_2", "pc_1", "web_1")):
        write(root, f"screenspotv2_image/{name}.png", png(200, 100, shade))


def screenspot_pro(root: Path) -> None:
    """Two programs; corners in pixels; Chinese beside English."""
    row = {"img_size": [200, 100], "group": "CAD", "application": "autocad", "platform": "windows"}
    write(
        root,
        "annotations/autocad_windows.json",
        [
            {
                **row,
                "id": "a",
                "img_filename": "autocad_windows/s.png",
                "bbox": [20, 10, 60, 40],
                "instruction": "zoom",
                "instruction_cn": "放大",
                "ui_type": "icon",
            },
            {
                **row,
                "id": "b",
                "img_filename": "autocad_windows/s.png",
                "bbox": [0, 0, 20, 10],
                "instruction": "save",
                "ui_type": "text",
            },
        ],
    )
    write(
        root,
        "annotations/vscode_macos.json",
        [
            {
                **row,
                "id": "c",
                "img_filename": "vscode_macos/s.png",
                "bbox": [100, 50, 140, 70],
                "instruction": "run",
                "ui_type": "icon",
                "group": "Dev",
                "application": "vscode",
                "platform": "macos",
            }
        ],
    )
    write(root, "images/autocad_windows/s.png", png(200, 100, 1))
    write(root, "images/vscode_macos/s.png", png(200, 100, 2))


def osworld_g(root: Path) -> None:
    """A box, an L-shaped polygon, a refusal; refined wording in a file of its own."""
    row = {"image_path": "x.png", "image_size": [200, 100], "GUI_types": ["Icon", "Button"]}
    corner = [0, 0, 100, 0, 100, 50, 50, 50, 50, 100, 0, 100]  # pixels; all but the lower right quarter of its box
    rows = [
        {**row, "id": "b", "box_type": "bbox", "box_coordinates": [20.0, 10.0, 40.0, 30.0], "instruction": "box"},
        {
            **row,
            "id": "p",
            "box_type": "polygon",
            "box_coordinates": corner,
            "instruction": "corner",
            "image_path": "y.png",
        },
        {
            **row,
            "id": "r",
            "box_type": "refusal",
            "box_coordinates": [0, 0, 0, 0],
            "instruction": "gone",
            "GUI_types": ["Label"],
        },
        {**row, "id": "w", "box_type": "circle", "box_coordinates": [1], "instruction": "circle"},
    ]
    write(root, "benchmark/OSWorld-G.json", rows)
    write(root, "benchmark/OSWorld-G_refined.json", [{**rows[0], "instruction": "the box with the arrow"}])
    write(
        root,
        "benchmark/classification_result.json",
        {
            "classified": {
                "text_matching": [{"id": "b"}, {"id": "p"}],
                "layout_understanding": [{"id": "p"}],
                "refusal": [{"id": "r"}],
            }
        },
    )
    write(root, "benchmark/images/x.png", png(200, 100, 3))
    write(root, "benchmark/images/y.png", png(200, 100, 4))


def ui_vision(root: Path) -> None:
    """The same element in three wordings, with swapped corners; a layout."""
    row = {
        "image_path": "element/1.png",
        "image_size": [200, 100],
        "platform": "gimp",
        "category": "Creativity",
        "element_type": "icon",
        "bbox": [60, 40, 20, 10],
    }
    for split, words in (("basic", "brush"), ("functional", "to paint"), ("spatial", "left of the pen")):
        rows = [{**row, "prompt_to_evaluate": words}]
        if split == "basic":
            rows.append({**row, "prompt_to_evaluate": "pen", "image_path": "element/2.png", "element_type": "text"})
        write(root, f"annotations/element_grounding/element_grounding_{split}.json", rows)
    write(
        root,
        "annotations/layout_grounding/layout_grounding.json",
        [
            {
                "image_path": "element/1.png",
                "image_size": [200, 100],
                "platform": "gimp",
                "name": "toolbar",
                "explanation": "The bar.",
                "bbox": [0, 0, 200, 50],
            }
        ],
    )
    write(root, "images/element/1.png", png(200, 100, 5))
    write(root, "images/element/2.png", png(200, 100, 6))


def venusbench_gd(root: Path) -> None:
    """Two tasks and refusals, in two languages."""
    row = {
        "img_filename": "mobile/1.png",
        "img_size": [200, 100],
        "application": "maps",
        "platform": "mobile",
        "ui_type": "icon",
        "bbox": [20, 10, 60, 40],
    }
    write(
        root,
        "instruction/element_grounding.json",
        [{**row, "instruction": "send", "instruction_zh": "发送"}, {**row, "instruction": "no box", "bbox": None}],
    )
    write(
        root,
        "instruction/reasoning_grounding.json",
        [{**row, "instruction": "the way home", "img_filename": "web/1.png", "platform": "web"}],
    )
    write(
        root,
        "instruction/refusal_spatial.json",
        [
            {**row, "instruction": "left of the moon", "gt_type": "negative", "bbox": None},
            {**row, "instruction": "under the sea", "bbox": [-1, -1]},
        ],
    )
    write(root, "meta.json", {"apps": 97})
    write(root, "images/mobile/1.png", png(200, 100, 7))
    write(root, "images/web/1.png", png(200, 100, 8))


def mmbench_gui_l2(root: Path) -> None:
    """Fractions; the platform's folder is in one path and not in the other."""
    row = {"image_size": [200, 100], "app_name": "calendar", "bbox": [0.1, 0.1, 0.3, 0.4]}
    write(
        root,
        "L2_annotations.json",
        [
            {
                **row,
                "index": 0,
                "image_path": "a.png",
                "platform": "os_windows",
                "data_type": "icon",
                "grounding_type": "basic",
                "instruction": "the arrow",
            },
            {
                **row,
                "index": 1,
                "image_path": "os_windows/a.png",
                "platform": "os_windows",
                "data_type": "icon",
                "grounding_type": "advanced",
                "instruction": "scroll the years",
            },
            {
                **row,
                "index": 2,
                "image_path": "b.png",
                "platform": "os_ios",
                "data_type": "text",
                "grounding_type": "basic",
                "instruction": "Settings",
                "bbox": [0.5, 0.5, 0.6, 0.6],
            },
        ],
    )
    write(root, "offline_images/os_windows/a.png", png(200, 100, 9))
    write(root, "offline_images/os_ios/b.png", png(200, 100, 10))
