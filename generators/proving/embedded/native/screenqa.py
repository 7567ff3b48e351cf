"""ScreenQA: a JSON list a split; several raters a question, boxes in pixels of the picture."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from generators.devices.browser import RICO
from generators.proving.embedded.defects import DefectRates, PlantedDefect, shift_point
from generators.proving.embedded.native import common
from generators.proving.embedded.screens import ScreenQuestion, StillScreen, questions
from schemas.coordinates import centre
from schemas.ids import digest

WIDTH, HEIGHT = round(RICO.width * RICO.scale), round(RICO.height * RICO.scale)
SPLIT_FILES = {"train": "train", "validation": "validation", "test": "test"}


@dataclass(frozen=True)
class ScreenqaRow:
    screen: StillScreen
    question: ScreenQuestion
    text: str
    ratings: tuple[dict[str, Any], ...]


def rate(screen: StillScreen, question: ScreenQuestion, rng: Random) -> tuple[dict[str, Any], ...]:
    """Two or three raters: other wordings, boxes a few pixels apart; `vh_index` -1 where a rater drew the box."""
    found = []
    for _ in range(rng.choice((2, 3, 3))):
        shown = []
        for i in question.shown:
            left, top, right, bottom = (round(side * RICO.scale) for side in screen.elements[i].box)
            # Raters don't draw the same box: a few pixels apart.
            near = [rng.randint(-3, 3) for _ in range(4)]
            bounds = [
                max(0, left + near[0]),
                max(0, top + near[1]),
                min(WIDTH, right + near[2]),
                min(HEIGHT, bottom + near[3]),
            ]
            text = screen.elements[i].text or question.answer
            # As often as in the release.
            shown.append({"text": text, "bounds": bounds, "vh_index": i if rng.random() < 0.56 else -1})
        found.append({"full_answer": rng.choice(question.full), "ui_elements": shown})
    return tuple(found)


def rows(screens: Sequence[StillScreen], count: int, rng: Random) -> list[ScreenqaRow]:
    """`count` questions, the screens in turn, questions without an answer at most about 5 %."""
    pools = [(s, rng.sample(q := questions(s, rng), len(q))) for s in screens]
    found: list[ScreenqaRow] = []
    turn = refusals = 0
    while len(found) < count and any(pool for _, pool in pools):
        screen, pool = pools[turn % len(pools)]
        turn += 1
        if not pool:
            continue
        question = pool.pop()
        if not question.shown:
            # At most a twentieth: most questions of the release have an answer.
            if refusals >= 0.05 * count:
                continue
            refusals += 1
        found.append(ScreenqaRow(screen, question, question.text, rate(screen, question, rng)))
    return found


def native_id(row: ScreenqaRow) -> str:
    """ScreenQA gives no row ids: the screen, and a digest of the question as asked."""
    return f"{row.screen.number}-{digest(row.text)[:12]}"


def row_json(row: ScreenqaRow) -> dict[str, object]:
    return {
        "image_id": row.screen.number,
        "image_width": WIDTH,
        "image_height": HEIGHT,
        "question": row.text,
        "ground_truth": list(row.ratings),
    }


def _edit(row: ScreenqaRow, **changes: Any) -> tuple[dict[str, Any], ...]:
    """All ratings with another answer, or with every box moved by (dx, dy)."""
    found = []
    for rating in row.ratings:
        new = {**rating}
        if "answer" in changes:
            new["full_answer"] = changes["answer"]
            new["ui_elements"] = [{**u, "text": changes["answer"]} for u in rating["ui_elements"]]
        if "by" in changes:
            dx, dy = changes["by"]
            moved = [
                [u["bounds"][0] + dx, u["bounds"][1] + dy, u["bounds"][2] + dx, u["bounds"][3] + dy]
                for u in rating["ui_elements"]
            ]
            new["ui_elements"] = [{**u, "bounds": b} for u, b in zip(rating["ui_elements"], moved, strict=True)]
        found.append(new)
    return tuple(found)


def _damage(kind: str, row: ScreenqaRow, answers: Sequence[str], rng: Random) -> ScreenqaRow | None:
    if kind == "empty_text":
        # Nothing asked: ingestion must set it aside.
        return replace(row, text="")
    if not row.question.shown:
        return None
    if kind == "wrong_text":
        return replace(row, ratings=_edit(row, answer=rng.choice([a for a in answers if a != row.question.answer])))
    if kind == "off_screen":
        return replace(row, ratings=_edit(row, by=(WIDTH, 0)))
    box = [side * RICO.scale for side in row.screen.elements[row.question.shown[0]].box]
    x, y = map(int, centre(box))
    point = shift_point((x, y), box, (WIDTH, HEIGHT), rng)
    if point is None:
        return None
    # All raters' boxes alike, or the others would give the defect away.
    new = _edit(row, by=(point[0] - x, point[1] - y))
    inside = all(
        u["bounds"][0] >= 0 and u["bounds"][1] >= 0 and u["bounds"][2] <= WIDTH and u["bounds"][3] <= HEIGHT
        for rating in new
        for u in rating["ui_elements"]
    )
    return replace(row, ratings=new) if inside else None


def plant(found: Sequence[ScreenqaRow], rates: DefectRates, seed: int) -> tuple[list[ScreenqaRow], list[PlantedDefect]]:
    """Wrong answers and shifted boxes up to the low share; empty questions, boxes off the screen; copies."""
    rng = Random(f"screenqa/{seed}")
    answers = sorted({row.question.answer for row in found if row.question.shown})
    order = [i for i, row in enumerate(found) if row.screen.split in rates.splits]
    rng.shuffle(order)
    low, bad = round(rates.low * len(order)), round(rates.unreadable * len(order))
    # Kinds in equal parts, as many as the shares ask for.
    wanted = (["shifted_point", "wrong_text"] * low)[:low] + (["off_screen", "empty_text"] * bad)[:bad]
    out, truths, free = list(found), [], iter(order)
    for kind in wanted:
        for i in free:
            new = _damage(kind, found[i], answers, rng)
            if new is not None:
                out[i] = new
                first = found[i].ratings[0]
                original: dict[str, Any] = {"question": found[i].text}
                if kind == "wrong_text":
                    original["answer"] = first["full_answer"]
                elif first["ui_elements"]:
                    original["box"] = first["ui_elements"][0]["bounds"]
                truths.append(PlantedDefect(native_id(new), 0, kind, original))
                break
    # Copies of sound rows only.
    rest = [i for i in free if found[i].screen.split == "train"]
    copies, reworded = round(rates.duplicate * len(order)), round(rates.paraphrase * len(order))
    for i in rest[:copies]:
        out.append(found[i])
        truths.append(PlantedDefect(native_id(found[i]), None, "duplicate_record", {"question": found[i].text}))
    for i in rest[copies : copies + reworded]:
        copy = replace(found[i], text=found[i].question.paraphrase)
        out.append(copy)
        truths.append(PlantedDefect(native_id(copy), None, "paraphrased_duplicate", {"of": native_id(found[i])}))
    return out, truths


def write(root: Path, found: Sequence[ScreenqaRow]) -> None:
    """`answers_and_bboxes/{train,validation,test}.json`."""
    for split, name in SPLIT_FILES.items():
        listed = [row_json(row) for row in found if row.screen.split == split]
        common.write(root / "answers_and_bboxes" / f"{name}.json", common.dump(listed, indent=1))
