"""Forms in which publishers really write their files, each with what it means in plain numbers."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import native_benchmarks
import pyarrow as pa
import pyarrow.parquet
import pytest
from native import fixture, write_bytes, write_json, write_lines
from PIL import ExifTags, Image, ImageDraw
from tfrecords import small_aitw, write_examples
from unified import Unified, unify

from pipelines.derivers.grounding import expression
from pipelines.mapping.adapter import Raw
from pipelines.store import Store
from pipelines.store.images import open_image
from trainer.suites.reading import Read, questions
from trainer.suites.registry import benchmark

RED = (200, 0, 0)


def button(mode: str = "RGB", fill: Any = RED, ground: Any = (128, 128, 128)) -> Image.Image:
    """A picture of 100 x 200 with a button at 20..60 x 150..170: its middle is [400,800]."""
    picture = Image.new(mode, (100, 200), ground)
    ImageDraw.Draw(picture).rectangle((20, 150, 60, 170), fill=fill)
    return picture


def encoded(picture: Image.Image, form: str, **how: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, form, **how)
    return out.getvalue()


def answers(run: Unified) -> list[str]:
    return sorted(row["answer"] for row in run.samples if row["objective"] == "grounding")


def seeclick(root: Path, name: str, data: bytes) -> Unified:
    element = {"instruction": "Buy", "bbox": [0.2, 0.75, 0.6, 0.85], "data_type": "text"}
    write_json(root / "raw/seeclick_web.json", [{"img_filename": name, "url": "x", "elements": [element]}])
    write_bytes(root / f"raw/seeclick_web_imgs/{name}", data)
    return unify(root / "home", "seeclick_web", root / "raw")


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_a_picture_that_its_exif_turns_is_stored_as_people_saw_it(form: str, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    lies = button().rotate(90, expand=True)
    run = seeclick(tmp_path, "a.jpg", encoded(lies, form, exif=exif, quality=95))
    [screen] = run.screens
    assert (screen["width_px"], screen["height_px"], answers(run)) == (100, 200, ["[400,800]"])
    seen = open_image(Store(tmp_path / "home").screen_bytes(screen["screenshot_sha256"])).convert("RGB")
    red, _, blue = seen.getpixel((40, 160))  # type: ignore[misc]
    assert red > 150 and blue < 60, "the button lies under its label"


def test_sixteen_bits_of_grey_keep_their_shades_and_a_second_picture_is_passed_over(tmp_path: Path) -> None:
    grey = button("I;16", fill=9_000, ground=33_000)
    run = seeclick(tmp_path / "grey", "a.png", encoded(grey, "PNG"))
    picture = Store(tmp_path / "grey/home").screen_bytes(run.screens[0]["screenshot_sha256"])
    seen = open_image(picture).convert("L")
    assert (answers(run), seen.getpixel((40, 160)), seen.getpixel((5, 5))) == (["[400,800]"], 35, 128)
    two = encoded(button(), "MPO", save_all=True, append_images=[Image.new("RGB", (9, 9))])
    assert answers(seeclick(tmp_path / "two", "a.jpg", two)) == ["[400,800]"]


@pytest.mark.parametrize(("mark", "frame"), [("\ufeff", [200, 100]), ("", [200.0, 100.0])])
def test_a_mark_before_the_first_row_and_sizes_as_floats_cost_no_row(
    mark: str, frame: list[float], tmp_path: Path
) -> None:
    row = {"instruction": "Click on 'Buy'.", "source": "webui", "platform": "web", "resolution": frame}
    rows = [
        {**row, "image": f"{n}.png", "bbox": [20 + n, 20, 80 + n, 60], "raw_instruction": f"Buy {n}"} for n in (0, 20)
    ]
    path = tmp_path / "raw/metadata.jsonl"
    write_lines(path, rows)
    path.write_text(mark + path.read_text("utf-8"), "utf-8")
    run = unify(tmp_path / "home", "groundui_18k", tmp_path / "raw")
    # The middle of 20..80 of 200 is 250 of 1000, that of 20..60 of 100 is 400.
    assert (run.items, answers(run)) == ((2, 2, 0), ["[250,400]", "[350,400]"])


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_pictures_in_a_plain_column_of_bytes_are_pictures(kind: pa.DataType, tmp_path: Path) -> None:
    fixture("waveui_25k").write(tmp_path / "as_it_is")
    [file] = (tmp_path / "as_it_is/raw").rglob("*.parquet")
    table = pa.parquet.read_table(file)
    bare = pa.array([cell["bytes"] if cell else None for cell in table["image"].to_pylist()], kind)
    again = table.set_column(table.schema.get_field_index("image"), "image", bare)
    (tmp_path / "raw").mkdir()
    pa.parquet.write_table(again, tmp_path / "raw/a.parquet")
    before = unify(tmp_path / "h1", "waveui_25k", tmp_path / "as_it_is/raw")
    run = unify(tmp_path / "h2", "waveui_25k", tmp_path / "raw")
    assert (answers(run), len(run.screens)) == (answers(before), len(before.screens)) and answers(run)


def test_showui_web_says_class_name_for_the_kind_of_an_element(tmp_path: Path) -> None:
    elements = [
        {"instruction": "2 rooms", "bbox": [0.5, 0.7, 0.7, 0.72], "point": [0.6, 0.71], "class_name": "ListItem"},
        {"instruction": "Book", "bbox": [0.1, 0.1, 0.3, 0.14], "point": [0.2, 0.12], "class_name": "Button"},
    ]
    elements[1]["data_type"] = None  # as a table has it whose other rows say one
    page = {"img_url": "a.png", "img_size": [1920, 1080], "element": elements, "element_size": 2}
    write_json(tmp_path / "raw/metadata/hf_train.json", [page])
    write_bytes(tmp_path / "raw/images/a.png", native_benchmarks.png(192, 108))
    run = unify(tmp_path / "home", "showui_web", tmp_path / "raw")
    assert (run.items, answers(run)) == ((2, 2, 0), ["[200,120]", "[600,710]"])


def test_a_log_of_json_lines_may_be_called_json(tmp_path: Path) -> None:
    log = {"img_path": "a.png", "group": "Dev", "platform": "linux", "application": "ed", "img_size": [2000, 1000]}
    rows = [
        {**log, "prompt_to_evaluate": f"{name} button", "gt_type": "positive", "ui_type": "icon", "bbox": box}
        for name, box in (("save", [100, 50, 140, 70]), ("open", [200, 50, 240, 70]))
    ]
    write_lines(tmp_path / "logs.json", rows)
    write_bytes(tmp_path / "a.png", native_benchmarks.png(200, 100))
    found = {one.instruction: one.box for one in questions(benchmark("screenspot_pro"), Raw(tmp_path), Read())}
    assert found == {"save button": (50, 50, 70, 70), "open button": (100, 50, 120, 70)}


def test_a_key_leaves_every_source_under_one_name(tmp_path: Path) -> None:
    said = {"Control+a": "['ctrl', 'a']", "Escape": "['esc']", "ArrowDown": "['down']", "Meta+c": "['command', 'c']"}
    asked = "OBSERVATION:\n[1] link 'a'\nURL: https://a.example\nOBJECTIVE: Go\nPREVIOUS ACTIONS:\n1: None"
    turns = [
        {
            **{"dataset": "d", "id": f"e{n}", "task_name": f"e{n}", "n_tokens": 5, "output": "", "prompt": asked},
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": asked},
                {"role": "assistant", "content": f"x ```press [{key}]```"},
            ],
        }
        for n, key in enumerate([*said, "Return"])
    ]
    write_lines(tmp_path / "nnetnav/train.jsonl", turns)
    codes = [f"pyautogui.hotkey(keys={keys})" for keys in said.values()] + ["pyautogui.press(keys=['return'])"]
    traj = [{"index": n, "image": f"{n}.png", "value": {"code": code}} for n, code in enumerate(codes)]
    write_lines(tmp_path / "agentnet/agentnet_ubuntu_5k.jsonl", [{"task_id": "t", "instruction": "Go", "traj": traj}])
    one, other = (unify(tmp_path / f"home_{name}", name, tmp_path / name) for name in ("nnetnav", "agentnet"))
    keys = ["'ctrl','a'", "'esc'", "'down'", "'meta','c'"]
    expected = [*(f"Hotkey(keys=[{key}])" for key in keys), "PressEnter()"]
    assert (one.actions, other.actions) == (expected, expected)


@pytest.mark.parametrize(
    "fenced", ["```stop [7 euros]``````", "```\nstop [7 euros]\n```", "```text\nstop [7 euros]```"]
)
def test_the_last_step_of_nnetnav_may_stand_in_two_fences(fenced: str, tmp_path: Path) -> None:
    asked = "OBSERVATION:\n[1] link 'a'\nURL: https://a.example\nOBJECTIVE: Price?\nPREVIOUS ACTIONS:\n1: None"
    said = f"In summary, the next action is ```I have read it.\n\nMy next action will be {fenced}"
    chat = [{"role": role, "content": text} for role, text in (("system", "s"), ("user", asked), ("assistant", said))]
    row = {"dataset": "d", "id": "e", "task_name": "e", "n_tokens": 5, "output": "", "prompt": "", "messages": chat}
    write_lines(tmp_path / "raw/train.jsonl", [row])
    assert unify(tmp_path / "home", "nnetnav", tmp_path / "raw").actions == ["Finished(content='7 euros')"]


def test_what_an_input_method_types_stands_in_the_field_alone(tmp_path: Path) -> None:
    def dom(value: str) -> dict[str, Any]:
        field = {"tag": "INPUT_text", "ref": 2, "left": 10, "top": 60, "width": 100, "height": 20, "children": []}
        whole = {"left": 0, "top": 0, "width": 160, "height": 210}
        return {"tag": "BODY", "ref": 1, **whole, "children": [{**field, "value": value, "focused": True}]}

    events: list[tuple[dict[str, Any] | None, str]] = [
        (None, ""),
        *(({"type": kind, "x": 60, "y": 70, "timing": 1}, "") for kind in ("mousedown", "mouseup", "click")),
        *(({"type": "keydown", "keyCode": 229, "charCode": 0, "timing": 1}, "tea"[:n]) for n in range(3)),
        ({"type": "keydown", "keyCode": 229, "charCode": 0, "timing": 3}, "tea"),
    ]
    states = [{"time": 50 * n, "action": action, "dom": dom(value)} for n, (action, value) in enumerate(events)]
    demo = {"taskName": "enter-text", "utterance": 'Enter "tea".', "states": states, "reward": 1, "rawReward": 1}
    write_json(tmp_path / "raw/enter-text/enter-text_x_d0.json", demo)
    run = unify(tmp_path / "home", "miniwob_demos", tmp_path / "raw")
    assert run.actions == ["Click(box=(375,333))", "Type(content='tea')", "Finished(content='')"]
    assert run.items[2] == 0


def test_the_longer_way_in_pixels_is_a_swipe_s_direction(tmp_path: Path) -> None:
    # 0.5 of the width of 20 are 10 px, 0.4 of the height of 40 are 16: up, though the fraction is smaller.
    swipe = small_aitw(code=4, results__yx_touch=[0.8, 0.2], results__yx_lift=[0.4, 0.7])
    write_examples(tmp_path / "raw/google_apps-00000-of-00001", [swipe])
    [action] = unify(tmp_path / "home", "aitw", tmp_path / "raw").actions
    assert action == "Scroll(start=(200,800), end=(700,400), direction='down')"


def test_steps_stand_in_the_order_of_their_numbers_and_a_missing_one_is_a_gap(tmp_path: Path) -> None:
    def episode(name: str, *numbers: int) -> dict[str, Any]:
        traj = [
            {"index": n, "image": f"{n}.png", "value": {"code": f"pyautogui.click(x=0.{n + 1}, y=0.4)"}}
            for n in numbers
        ]
        return {"task_id": name, "instruction": "Save", "task_completed": True, "traj": traj}

    write_lines(tmp_path / "raw/agentnet_ubuntu_5k.jsonl", [episode("gap", 0, 1, 3), episode("order", 2, 0, 1)])
    run = unify(tmp_path / "home", "agentnet", tmp_path / "raw")
    found = {name: [row["action_text"] for row in run.steps if row["episode_id"] == name] for name in ("gap", "order")}
    assert found["order"] == [f"Click(box=({x},400))" for x in (100, 200, 300)]
    assert found["gap"] == [f"Click(box=({x},400))" for x in (100, 200, 400)]
    gaps = [(json.loads(row["provenance"]).get("gap_at"), row["action_text"]) for row in run.steps]
    assert [text for gap, text in gaps if gap is not None] == ["Click(box=(400,400))"]


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("go to messages", "messages"),
        ("move to the icon below share", "the icon below share"),
        ("Click on the search bar.", "the search bar"),
        ("tap inside the text field", "the text field"),
        ("move the cursor to the bell", "the bell"),
        ("move down to the footer", "the footer"),
        ("open the menu", "the menu"),
        ("toggle the second switch", "the second switch"),
        ("open now", None),
        ("view all", None),
        ("scroll to the bottom", None),
    ],
)
def test_the_verb_before_an_element_is_no_part_of_it(said: str, what: str | None) -> None:
    assert expression(said) == what
