"""Captions say which item a picture shows, what was asked and done, and what the judge said; none of it is markup."""

from __future__ import annotations

import io
import json
from pathlib import Path

from PIL import Image

from dagster_project.pictures import asset_pictures, judge_pictures
from dagster_project.pictures.captions import below, caption, caption_in
from pipelines.store import PartSpec, PartWriter, Store
from schemas.tables import Samples, Verdicts
from trainer.online.pictures import filmstrip
from trainer.online.rollouts import ReplySample, Rollout

STEP = {
    "source": "aitz",
    "episode_id": "e1",
    "step_index": 2,
    "instruction": "Archive the mail",
    "step_instruction": "click on **Archive**",
    "action_text": "Click(box=(608,895))",
}


def test_a_step_is_named_with_its_own_instruction_its_action_and_the_verdict() -> None:
    assert caption(STEP, 2, "no effect: `x`") == (
        "**score 2**: click on \\*\\*Archive\\*\\* → **Click(box=(608,895))** · judge: no effect: \\`x\\` · "
        "*step:aitz/e1/2*"
    )
    asked = caption({**STEP, "step_instruction": None, "action_text": "<script>alert(1)</script>"})
    assert asked.startswith("Archive the mail → **&lt;script&gt;") and "score" not in asked


def test_several_captions_are_a_numbered_list() -> None:
    assert below(["a", "b"]) == "\n\n1. a\n2. b" and below(["a"]) == "\n\na" and below([]) == ""


def test_the_worst_samples_say_why_they_are(tmp_path: Path) -> None:
    store, picture = Store(tmp_path), io.BytesIO()
    Image.new("RGB", (300, 500), "teal").save(picture, "PNG")
    screen = store.put_screen(picture.getvalue()).sha256
    message = json.dumps([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What time?"}]}])
    common = {"source": "x", "split": "train", "platform": "mobile", "objective": "vqa", "images": [screen]}
    common |= {"messages": message, "target_boxes": [], "tokens": 1, "licence": "MIT", "parents": []}
    common |= {"synthetic": False, "provenance": "{}"}
    samples = [{**common, "sample_id": f"{n:032x}", "answer": f"at {n}"} for n in range(2)]
    judged = {"alignment": None, "reachability": None, "disposition": "keep", "confidence": 1.0, "judge": "rules"}
    judged |= {"model": "none", "rubric_version": "1", "round": 0}
    verdicts = [
        {**judged, "item_id": f"sample:{n:032x}", "score": 9 - 7 * n, "reason": f"reason {n}"} for n in range(2)
    ]

    def commit(asset: str, table: str, rows: object, inputs: dict[str, str]) -> str:
        def write(out: PartWriter) -> None:
            out.table(table, rows)  # type: ignore[arg-type]

        with store.build(asset, code_version="1", inputs=inputs, parts=[PartSpec("a", "1")]) as build:
            build.run_part(PartSpec("a", "1"), write)
            return build.commit().version

    version = commit("unified/x", "samples", Samples.table(samples), {})
    commit("verdicts/x", "verdicts", Verdicts.table(verdicts), {"unified/x": version})
    found = judge_pictures.worst_and_best(store.require("verdicts/x"), store)
    png, captions = found["worst"]
    assert Image.open(io.BytesIO(png)).width > 200
    assert captions[0] == f"**score 2**: What time? → **at 1** · judge: reason 1 · *sample:{1:032x}*"
    assert captions[1].startswith("**score 9**") and found["best"][1] == captions[::-1]
    [shown] = asset_pictures.of(store.require("unified/x"), store).values()
    assert shown.endswith(f"\n\nWhat time? → **at 0** · *sample:{0:032x}*")


def test_a_film_strip_says_what_it_shows() -> None:
    picture = io.BytesIO()
    Image.new("RGB", (30, 60), "teal").save(picture, "PNG")
    message = json.dumps([{"role": "user", "content": [{"type": "text", "text": "Order a pizza –\nnow"}]}])
    sample = ReplySample(message, picture.getvalue(), "web", (), (), 1)
    strip = filmstrip(Rollout("g-000", "fsm/shop-1", (sample,), True, 3, 0, "done"))
    assert caption_in(strip) == "fsm/shop-1: Order a pizza – now: success after 3 steps (done)"
    assert caption_in(picture.getvalue()) == ""
