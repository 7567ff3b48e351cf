"""Cleaning rules: each takes out what it names, and leaves its nearest innocent neighbour alone."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from quality.items.part import SourcePart
from quality.judges import cleaning
from quality.judges.cleaning import JUDGE, clean
from quality.judges.rules import RulesJudge
from quality.judges.verdicts import judge_part
from quality.refinement.refine import refine_part
from quality.refinement.rewrite import ProofRewriter
from quality.safety.credentials import credential_in
from schemas.actions import CallUser, Click, Finished, Type, Wait
from schemas.tables import Samples, Screens, Steps


def part(world, episodes=(), samples=()) -> SourcePart:
    steps = [step.row for episode in episodes for step in episode.steps]
    screens = Screens.table(world.rows.values())
    return SourcePart("p", Steps.table(steps), Samples.table(samples), screens, world.bank())


def rules(found: SourcePart) -> dict[str, str]:
    return {item_id: taken.rule for item_id, taken in clean(found).taken.items()}


def scattered(seed: int, count: int = 9) -> tuple[bytes, list[tuple[int, int, int, int]]]:
    """A page of words in boxes at random places, none overlapping: pixel boxes on 1000 x 1000."""
    import io

    rng = random.Random(seed)
    image = Image.new("L", (1000, 1000), 255)
    draw = ImageDraw.Draw(image)
    boxes: list[tuple[int, int, int, int]] = []
    while len(boxes) < count:
        left, top = rng.randrange(100, 700), rng.randrange(100, 860)
        box = (left, top, left + rng.randrange(60, 200), top + rng.randrange(24, 60))
        if all(box[2] + 30 < b[0] or b[2] + 30 < box[0] or box[3] + 30 < b[1] or b[3] + 30 < box[1] for b in boxes):
            boxes.append(box)
            for x in range(box[0] + 2, box[2] - 2, 5):
                draw.line((x, box[1] + 3, x, box[3] - rng.randrange(3, 14)), fill=rng.randrange(0, 120), width=2)
    out = io.BytesIO()
    image.convert("RGB").save(out, "PNG")
    return out.getvalue(), boxes


def boxed_page(world, seed: int, move: tuple[int, int], listed: str = "") -> SourcePart:
    """`listed`: where the source's elements lie, with the moved "boxes" or where the "words" are drawn."""
    data, boxes = scattered(seed)
    shift = {"boxes": move, "words": (0, 0)}.get(listed)
    elements = (
        [
            ((b[0] + shift[0], b[1] + shift[1], b[2] + shift[0], b[3] + shift[1]), f"word {k}")
            for k, b in enumerate(boxes)
        ]
        if shift
        else []
    )
    page = world.screen(data, elements, size=(1000, 1000))
    moved = [(b[0] + move[0], b[1] + move[1], b[2] + move[0], b[3] + move[1]) for b in boxes]
    rows = [world.grounding(f"word {k}", page, box, k) for k, box in enumerate(moved)]
    for row, box in zip(rows, moved, strict=True):
        row["target_boxes"] = [[float(side) for side in box]]
    return part(world, samples=rows)


@pytest.mark.parametrize("move", [(0, -24), (0, 28), (-36, 20)])
def test_a_shift_of_all_boxes_is_seen_in_the_picture_alone(world, move) -> None:
    caught = sum("box_shift" in set(rules(boxed_page(world, seed, move)).values()) for seed in range(10))
    assert caught >= 8


def test_a_list_that_moved_with_the_boxes_is_no_witness(world) -> None:
    found = [rules(boxed_page(world, seed, (0, 28), "boxes")) for seed in range(10)]
    assert sum("box_shift" in set(one.values()) for one in found) >= 8
    assert not any(rules(boxed_page(world, seed, (0, 28), "words")) for seed in range(10)), "the judge sees those"


def test_boxes_that_fit_are_left_alone(world) -> None:
    for listed in ("", "boxes"):
        assert [rules(boxed_page(world, seed, (0, 0), listed)) for seed in range(20)] == [{}] * 20


def test_one_expression_for_separate_places_is_ambiguous_unless_an_element_tells(world) -> None:
    page = world.screen(scattered(1)[0], size=(1000, 1000))
    rows = [world.grounding("Edit", page, (20, 100 + 200 * k, 160, 150 + 200 * k), k) for k in range(2)]
    assert set(rules(part(world, samples=rows)).values()) == {"ambiguous_prompt"}
    told = world.screen(scattered(2)[0], [((20, 100, 160, 150), "Edit")])
    rows = [world.grounding("Edit", told, (20, 100 + 200 * k, 160, 150 + 200 * k), k) for k in range(2)]
    assert rules(part(world, samples=rows)) == {}


def test_of_nested_boxes_the_innermost_stays(world) -> None:
    page = world.screen(scattered(3)[0], size=(1000, 1000))
    outer, inner = (20, 100, 300, 400), (60, 150, 120, 190)
    rows = [world.grounding("Save", page, outer, 0), world.grounding("Save", page, inner, 1)]
    [(taken, rule)] = rules(part(world, samples=rows)).items()
    assert rule == "nested_boxes" and taken == f"sample:{rows[0]['sample_id']}"
    many = [world.grounding(name, page, (0, 100, 300, 400), k) for k, name in enumerate(["Save", "Share", "Photo"])]
    assert len(rules(part(world, samples=many))) == 3
    assert rules(part(world, samples=many[:2])) == {}, "two wordings of one thing"


def test_a_trace_without_a_deed_is_too_short(world, buttons) -> None:
    page = world.page(buttons)
    idle = world.episode((Wait(), page), (Finished(), page))
    assert set(rules(part(world, [idle])).values()) == {"short_trace"}
    for actions in ([Click((750, 195)), Finished()], [CallUser("42"), Finished()]):
        assert rules(part(world, [world.episode(*((action, page) for action in actions))])) == {}


def test_a_question_wants_an_answer(world, buttons) -> None:
    page = world.page(buttons)
    for goal in ("What is the price of tea?", "how many mails are unread"):
        silent = world.episode((Click((750, 195)), page), (Finished(), page), instruction=goal)
        assert rules(part(world, [silent])) == {silent.steps[1].item_id: "unanswered_question"}
        told = world.episode((Click((750, 195)), page), (CallUser("3"), page), (Finished(), page), instruction=goal)
        assert rules(part(world, [told])) == {}
    order = world.episode((Click((750, 195)), page), (Finished(), page), instruction="Show me what is new")
    assert rules(part(world, [order])) == {}


@pytest.mark.parametrize(
    "text",
    [
        "log in, the password is hunter2024",
        "use password 'tr0ub4dor'",
        "api_key=9f8e7d6c5b4a",
        "AKIA" + "ABCDEFGH12345678",
        "ghp_" + "a1B2" * 10,
        "pay with 4111 1111 1111 1111",
        "pay with 2223 0031 2200 3222",
        "postgres://me:secretword@db/x",
        "my pin: 90210",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w",
        "Pay with card 4539148803436467.",
        "card 4539 1488 0343 6467. Then submit",
        "the password is xK9#mm2qq",
        "password: Xavier2020!",
        "the password is _Secret9",
        "pwd = -Abc123",
        "the password is (hunter2)",
        "pin: (1234)",
        "password: *star9Light",
        "password: [K9#mm2qq",
        "(the password is hunter2024)",
        "the password is [K9mm2qq].",
    ],
)
def test_credentials_are_seen(text: str) -> None:
    assert credential_in(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "Change my password",
        "the password field",
        "Password: required",
        "call 4111 1111 1111 1112",
        "order 6011",
        "reset the pin code",
        "https://example.com/a:b@c",
        "enter your password",
        "12345678901234567890 items",
        "Set the alarm for 7:30",
        "password: ********",
        "tracking number 4444 4444 4444 4444",
        "password: xxxxxxxx",
        "api key = XXXX-XXXX-XXXX",
        "password: ••••••••.",
        "pin: ____",
        "secret: ----",
        "password: <your password>",
        "the password is {{password}}",
        "password: [PASSWORD_1]",
        "password: (optional)",
        "password: (8-16 characters)",
        "pin: (4-digit)",
        "The password is incorrect.",
        "the password is *required*",
        "price 4539148803436467.50",
        "The username is <username> and the password is <password>.",
        "sign in (the password is <password>)",
        "the password is [redacted].",
        "the password is {password}.",
        "The password is {{password}}!",
        "Password: (hidden).",
        "Password: xxxxxx?",
        "Password: [PASSWORD2]",
        "Password:</label><input type=password>",
    ],
)
def test_what_only_speaks_of_credentials_is_not_one(text: str) -> None:
    assert credential_in(text) is None


def test_a_step_with_a_credential_goes_alone_and_a_goal_with_one_takes_all(world) -> None:
    page = world.page([((20, 100, 160, 150), "Password")])
    box = [20 / 0.36, 100 / 0.64, 160 / 0.36, 150 / 0.64]
    rows = [
        world.row(0, Click((250, 195)), page),
        world.row(1, Type("blue42"), page, target_box=box),
        world.row(2, Finished(), page),
    ]
    found = SourcePart("p", Steps.table(rows), Samples.table([]), Screens.table(world.rows.values()), world.bank())
    assert rules(found) == {"step:made/e1/1": "credential"}
    left = clean(found).items[0]
    assert [step.row["step_index"] for step in left.steps] == [0, 2] and left.steps[1].follows_gap  # type: ignore[union-attr]
    goal = world.episode((Click((250, 195)), page), instruction="Log in, the password is blue42")
    assert set(rules(part(world, [goal]))) == {"episode:made/e1", "step:made/e1/0"}


def test_what_is_taken_out_is_rejected_once_and_never_judged(world, buttons) -> None:
    page = world.page(buttons)
    idle = world.episode((Wait(), page), (Finished(), page), episode_id="idle")
    sound = world.episode((Click((750, 195)), page, "Tap Search"), (Finished(), world.page(buttons, note="x")))
    found = part(world, [idle, sound])
    asked: list[str] = []

    class Watched(RulesJudge):
        def judge(self, items, round_number=0, habits=None):
            asked.extend(item.item_id for item in items)
            return super().judge(items, round_number, habits)

    verdicts = judge_part(found, Watched())
    assert asked == ["episode:made/e1"]
    by_cleaning = [v for v in verdicts if v.judge == JUDGE]
    assert len(by_cleaning) == 3 and {v.score for v in by_cleaning} == {0}
    refined = refine_part(found, verdicts, RulesJudge(), ProofRewriter())
    assert [reject.reason.split(":")[:2] for reject in refined.rejects] == [["discarded", " short_trace"]] * 2
    assert not any(row["episode_id"] == "idle" for row in refined.steps)


def test_the_version_holds_all_that_cleaning_looks_with() -> None:
    source = Path(cleaning.__file__).read_text(encoding="utf-8")
    used = re.findall(r"^from quality\.((?:evidence|safety)\.\w+|items\.pixels) import", source, re.MULTILINE)
    assert len(used) > 4 and {name.replace(".", "/") for name in used} <= set(cleaning._CODE)
