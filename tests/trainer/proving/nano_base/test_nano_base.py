"""Building nano-base on a few steps: parts that are done stay done, a kill changes nothing, the gate can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from forked import kill_myself, run_until_killed

from trainer.proving.nano_base.build import GATE, build_nano_base, goal_texts
from trainer.proving.nano_base.curriculum import CURRICULUM, NanoBaseConfig, Phase
from trainer.proving.nano_base.source import Drawings, PerceptionSource
from trainer.proving.nano_base.vision import VisionConfig
from trainer.runtime.precision import native_bf16

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_chromium")]

SHAPE: dict[str, Any] = {
    "vocab_size": 2048,
    "hidden": 32,
    "layers": 1,
    "heads": 1,
    "kv_heads": 1,
    "intermediate": 32,
    "vision_hidden": 16,
    "vision_heads": 1,
    "vision_intermediate": 16,
    "position_grid": 8,
}
TINY = NanoBaseConfig(
    sheets=2,
    layouts=2,
    held_out_sheets=1,
    held_out_layouts=2,
    tokenizer_rows=200,
    gate_rows=12,
    gated=("mixed",),
    warmup_steps=1,
    threads=1,
    save_steps=2,
    shape=SHAPE,
    vision=VisionConfig(max_steps=4, batch_size=2, threads=1, save_steps=2),
    curriculum=(
        Phase(name="colour", lessons={"colour": 1.0}, max_steps=4, batch_size=4),
        Phase(name="mixed", lessons={"mixed": 1.0}, max_steps=6, frozen=False, batch_size=4),
    ),
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("nano_base")
    build_nano_base(work / "out", work, TINY, progress=False)
    return work


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_a_build_that_is_done_takes_no_step(built: Path) -> None:
    steps: list[dict[str, Any]] = []
    found = build_nano_base(built / "again", built, TINY, progress=False, on_event=steps.append)
    assert not [event for event in steps if event["kind"] == "step"]
    assert weights(built / "again") == weights(built / "out")
    assert set(found["lessons"]["mixed"]["controls"]) == {"blind", "random_element", "swapped"}
    assert not found["passed"]  # ten steps see nothing
    assert (built / "again" / GATE).exists()


def test_phases_of_another_precision_are_kept(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.proving.nano_base.curriculum.native_bf16", lambda: not native_bf16())
    other, steps = TINY.changed(vision=TINY.vision.changed(bf16=not native_bf16())), []
    build_nano_base(built / "moved", built, other, progress=False, on_event=steps.append)
    assert not [event for event in steps if event["kind"] == "step"]
    assert weights(built / "moved") == weights(built / "out")


def test_a_frozen_phase_leaves_the_tower_as_it_is(built: Path) -> None:
    from safetensors.torch import load_file

    before, after, later = (load_file(next(built.glob(f"{n}-*")) / "model.safetensors") for n in (1, 2, 3))
    tower = {name for name in before if "visual" in name}
    assert all(before[name].equal(after[name]) for name in tower)
    assert any(not before[name].equal(after[name]) for name in set(before) - tower)
    assert any(not after[name].equal(later[name]) for name in tower)


def test_a_phase_may_begin_with_the_tower_alone(built: Path) -> None:
    from safetensors.torch import load_file

    look = VisionConfig(max_steps=2, batch_size=2, threads=1, save_steps=2)
    config = TINY.changed(
        curriculum=(
            TINY.curriculum[0],
            Phase(name="again", lessons={"colour": 1.0}, max_steps=2, batch_size=4, look=look),
        )
    )
    seen: list[str] = []
    build_nano_base(
        built / "looked",
        built,
        config,
        progress=False,
        on_event=lambda event: seen.append(event["kind"]) if event["kind"] == "step" else None,
    )
    names = ("2-colour", "3-look", "3-again")
    before, looked, after = (load_file(built / name / "model.safetensors") for name in names)
    tower = {name for name in before if "visual" in name}
    assert len(seen) == 4  # the first phase is as it was
    assert {name for name in before if not before[name].equal(looked[name])} <= tower
    assert any(not before[name].equal(looked[name]) for name in tower)
    assert all(looked[name].equal(after[name]) for name in tower)


def build_until(work: Path, step: int, times: int) -> None:
    """Build, and die when it tells of this step for so many times."""
    told: list[int] = []

    def event(what: dict[str, Any]) -> None:
        told.extend([what["step"]] if what["kind"] == "step" else [])
        if told.count(step) == times:
            kill_myself()

    build_nano_base(work / "out", work, TINY, progress=False, on_event=event)


def test_killed_twice_it_goes_on_to_the_same_weights(built: Path, tmp_path: Path) -> None:
    for drawn in ("sheets", "layouts"):
        (tmp_path / drawn).symlink_to(built / drawn)
    run_until_killed(build_until, tmp_path, 3, 1)  # the third step of the vision tower's four: past what was saved last
    run_until_killed(build_until, tmp_path, 3, 3)  # after its other two: the third step of the second phase of lessons
    steps: list[int] = []

    def event(what: dict[str, Any]) -> None:
        if what["kind"] == "step":
            steps.append(what["step"])

    build_nano_base(tmp_path / "out", tmp_path, TINY, progress=False, on_event=event)
    assert steps == [3, 4, 5, 6]
    assert weights(tmp_path / "out") == weights(built / "out")


def test_another_config_is_built_anew(built: Path) -> None:
    steps: list[int] = []
    changed = TINY.changed(curriculum=(TINY.curriculum[0], TINY.curriculum[1].changed(learning_rate=1e-3)))
    build_nano_base(
        built / "other",
        built,
        changed,
        progress=False,
        on_event=lambda event: steps.append(event["step"]) if event["kind"] == "step" else None,
    )
    assert steps == [1, 2, 3, 4, 5, 6]  # the first phase is as it was
    assert weights(built / "other") != weights(built / "out")


def test_nothing_can_be_answered_blind(built: Path) -> None:
    from schemas.actions import parse_reply
    from trainer.evaluation.controls import BlindTable

    for lesson in ("texts", "mixed"):  # the small screens of the first lessons can be guessed at a little
        seen = PerceptionSource(Drawings.of_split(built, "train", 2, 2, 0), {lesson: 1.0}, "seen")
        table = BlindTable(seen.question(place)[0] for place in range(800))
        questions = PerceptionSource(Drawings.of_split(built, "test", 1, 2, 0), {lesson: 1.0}, "asked")
        asked = [made for place in range(200) if (made := questions.question(place)[0])["target_boxes"]]
        hits = 0
        for made in asked:
            point, box = parse_reply(table.reply(made)).point, made["target_boxes"][0]
            hits += point is not None and box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]
        assert hits / len(asked) <= 0.05, (lesson, hits, len(asked))


def test_the_curriculum_names_lessons_and_the_goals_are_sentences() -> None:
    from generators.proving.perception.questions import LESSONS, WINDOW_LESSONS

    assert {name for phase in CURRICULUM for name in phase.lessons} <= set(LESSONS)
    many = ("colour", *WINDOW_LESSONS)  # the first, of few names; and those that teach what isn't there
    shares = {name: lesson.refusals for name, lesson in LESSONS.items() if name not in many}
    assert all(0.1 <= share <= 0.15 for share in shares.values()), shares
    goals = goal_texts(1)
    assert len(goals) > 100
    assert all(goal.strip() for goal in goals)


def test_bad_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no-such"):
        PerceptionSource(Drawings(tmp_path, ("train-000",)), {"no-such": 1.0})
    with pytest.raises(ValueError, match="sheets"):
        PerceptionSource(Drawings(tmp_path, ()), {"mixed": 1.0})


def test_new_phases_go_on_from_weights_with_pages_in_real_fonts(built: Path) -> None:
    from safetensors.torch import load_file

    look = VisionConfig(max_steps=3, batch_size=4, threads=1, save_steps=2, kits=0.5, apps=0.5)
    phases = (Phase(name="kits", lessons={"kits": 0.5, "apps": 0.5}, max_steps=2, batch_size=2, look=look),)
    gated = ("mixed", "kits", "kits_held_out", "apps")
    config = TINY.changed(curriculum=phases, kits=2, apps=2, held_out_kits=1, held_out_apps=1, gated=gated)
    steps: list[Any] = []
    found = build_nano_base(
        built / "more", built, config, begin=built / "out", progress=False, on_event=lambda event: steps.append(event)
    )
    assert len([event for event in steps if event["kind"] == "step"]) == 5
    assert set(found["lessons"]) == set(gated)
    [folder] = built.glob("from-*")
    first, again = (load_file(where / "0-random" / "model.safetensors") for where in (built, folder))
    assert all(tensor.equal(again[name]) for name, tensor in first.items())  # what the tower was taught before
    steps.clear()
    build_nano_base(built / "more", built, config, begin=built / "out", progress=False, on_event=steps.append)
    assert not [event for event in steps if event["kind"] == "step"]
    with pytest.raises(ValueError, match="another folder"):  # a build that goes on would begin from its own result
        build_nano_base(built / "out", built, config, begin=built / "out", progress=False)
    with pytest.raises(ValueError, match="weights of nano-base"):
        build_nano_base(built / "no", built, config, begin=built / "0-random", progress=False)
