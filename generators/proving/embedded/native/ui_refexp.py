"""UIBert RefExp: plain TFRecord, one Example an expression; the label is the index of the object that is meant."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from generators.devices.browser import RICO
from generators.proving.embedded.defects import DefectRates, PlantedDefect, shift_point
from generators.proving.embedded.native import common
from generators.proving.embedded.screens import StillScreen, expression, nameable, picture_box
from generators.worlds.pages.own_pages import PageElement
from pipelines.native import tf_example, tfrecord
from schemas.ids import digest

CLASSES = {
    "android.widget.TextView": "TEXT_VIEW",
    "android.widget.Button": "TEXT_BUTTON",
    "android.widget.ImageButton": "IMAGE_BUTTON",
    "android.widget.EditText": "EDIT_TEXT",
    "android.widget.CheckBox": "CHECK_BOX",
    "android.widget.Switch": "SWITCH",
    "android.widget.RadioButton": "RADIO_BUTTON",
    "android.widget.SeekBar": "SLIDER",
    "android.widget.ImageView": "IMAGE_VIEW",
}
SPLIT_FILES = {"train": "train", "validation": "dev", "test": "test"}
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class RefExpRow:
    """One expression: the text, the label, and the objects' boxes (a copy, so that a defect can move one)."""

    screen: StillScreen
    text: str
    label: int
    boxes: tuple[Box, ...]
    target: int  # the element that is truly meant
    template: int


def objects(screen: StillScreen) -> list[int]:
    """Indices of the elements that are objects: what can be clicked, and text."""
    return [i for i, e in enumerate(screen.elements) if e.clickable or e.text]


def rows(screens: Sequence[StillScreen], count: int, rng: Random) -> list[RefExpRow]:
    # Each screen once in turn, so that few screens don't make up the set.
    """`count` expressions, the screens in turn, each element of a screen at most once."""
    found: list[RefExpRow] = []
    pools = [(s, rng.sample(nameable(s), len(nameable(s)))) for s in screens]
    turn = 0
    while len(found) < count and any(pool for _, pool in pools):
        screen, pool = pools[turn % len(pools)]
        turn += 1
        if not pool:
            continue
        i, element = pool.pop()
        listed = objects(screen)
        template = rng.randrange(3)
        boxes = tuple(screen.elements[o].box for o in listed)
        found.append(RefExpRow(screen, expression(element, template), listed.index(i), boxes, i, template))
    return found


def example(row: RefExpRow) -> bytes:
    """The Example with all features of the source; boxes 0..1."""
    features: dict[str, Sequence[bytes | str | float | int]] = {
        "image/id": [str(row.screen.number)],
        "image/ref_exp/text": [row.text],
        "image/ref_exp/label": [row.label],
        "image/object/num": [float(len(row.boxes))],
    }
    tree = row.screen.elements
    for prefix, boxes in (("image/object", row.boxes), ("image/view_hierarchy", tuple(e.box for e in tree))):
        for at, side in enumerate(("xmin", "ymin", "xmax", "ymax")):
            features[f"{prefix}/bbox/{side}"] = [
                # x by the width, y by the height.
                box[at] / (RICO.width if at % 2 == 0 else RICO.height)
                for box in boxes
            ]
    names = [CLASSES.get(common.android_class(e), "View") for e in tree]
    known = sorted(set(CLASSES.values()) | {"View"})
    features |= {
        "image/view_hierarchy/class/label": [known.index(name) for name in names],
        "image/view_hierarchy/class/name": names,
        "image/view_hierarchy/text": [e.text.lower() for e in tree],
        "image/view_hierarchy/description": [e.name.lower() if e.name != e.text else "" for e in tree],
        "image/view_hierarchy/id/name": [e.role for e in tree],
    }
    return tf_example.serialise(features)


def native_id(row: RefExpRow) -> str:
    """The source gives rows no id; this is the digest of the decoded features, as for any record without one."""
    return digest(dict(tf_example.parse(example(row))))


def _damage(kind: str, row: RefExpRow, rng: Random) -> RefExpRow | None:
    size = (RICO.width, RICO.height)
    target: PageElement = row.screen.elements[row.target]
    box = row.boxes[row.label]
    others = [(i, e) for i, e in nameable(row.screen) if i != row.target]
    if kind == "shifted_point":
        x, y = (int(v) for v in target.centre)
        point = shift_point((x, y), box, size, rng)
        if point is None:
            return None
        dx, dy = point[0] - x, point[1] - y
        moved = (box[0] + dx, box[1] + dy, box[2] + dx, box[3] + dy)
        # Cut at the edges: off the screen is another defect.
        moved = (max(0.0, moved[0]), max(0.0, moved[1]), min(size[0], moved[2]), min(size[1], moved[3]))
        return replace(row, boxes=(*row.boxes[: row.label], moved, *row.boxes[row.label + 1 :]))
    if kind == "off_screen":
        moved = (box[0] + size[0], box[1], box[2] + size[0], box[3])
        return replace(row, boxes=(*row.boxes[: row.label], moved, *row.boxes[row.label + 1 :]))
    if kind == "empty_text":
        return replace(row, text="")
    if not others:
        return None
    i, other = rng.choice(others)
    if kind == "wrong_element":
        return replace(row, label=objects(row.screen).index(i))
    if kind == "near_miss_instruction":
        return replace(row, text=expression(other, row.template))
    raise ValueError(f"ui_refexp: no defect {kind!r}")


def plant(found: Sequence[RefExpRow], rates: DefectRates, seed: int) -> tuple[list[RefExpRow], list[PlantedDefect]]:
    """Damaged rows and the truth: low-fidelity ones in equal parts, unreadable ones, copies, other words."""
    rng = Random(f"ui_refexp/{seed}")
    order = [i for i, row in enumerate(found) if row.screen.split in rates.splits]
    rng.shuffle(order)
    out, truths = list(found), []
    low, bad = round(rates.low * len(order)), round(rates.unreadable * len(order))
    kinds = ["shifted_point", "wrong_element", "near_miss_instruction"] * low + ["off_screen", "empty_text"] * bad
    # Equal parts of the low kinds; the unreadable ones lie behind 3·low.
    wanted = kinds[:low] + kinds[3 * low :][:bad]
    free = iter(order)
    for kind in wanted:
        for i in free:
            new = _damage(kind, found[i], rng)
            if new is not None:
                out[i] = new
                element = found[i].screen.elements[found[i].target]
                original = {"expression": found[i].text, "label": found[i].label, "box": picture_box(element.box)}
                truths.append(
                    PlantedDefect(native_id(new), None if kind == "near_miss_instruction" else 0, kind, original)
                )
                break
    rest = [i for i in free if found[i].screen.split == "train"]
    for i in rest[: round(rates.duplicate * len(order))]:
        out.append(found[i])
        truths.append(PlantedDefect(native_id(found[i]), None, "duplicate_record", {"expression": found[i].text}))
    for i in rest[round(rates.duplicate * len(order)) :][: round(rates.paraphrase * len(order))]:
        # The next wording of the same element.
        element = found[i].screen.elements[found[i].target]
        copy = replace(found[i], text=expression(element, found[i].template + 1))
        out.append(copy)
        truths.append(
            PlantedDefect(
                native_id(copy), None, "paraphrased_duplicate", {"of": native_id(found[i]), "expression": found[i].text}
            )
        )
    return out, truths


def write(root: Path, found: Sequence[RefExpRow]) -> None:
    """`train.tfrecord`, `dev.tfrecord`, `test.tfrecord`."""
    for split, name in SPLIT_FILES.items():
        records = [example(row) for row in found if row.screen.split == split]
        common.write(root / f"{name}.tfrecord", tfrecord.dumps(records, compress=False))
