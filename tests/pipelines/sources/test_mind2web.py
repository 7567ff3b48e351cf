"""Mind2Web: DOM candidates of the full page → actions, every action counted once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from unified import unify
from webnative import candidate, png, real, web_action, web_episode, write

from pipelines.native import json_array
from pipelines.sources.mind2web import Mind2webAdapter


def real_episode() -> dict[str, Any]:
    """SeeAct's example step, written back: its additions (score, rank, context, choices) taken away, list of one."""
    step = json.loads(real("mind2web", "seeact_query_thumbtack.trimmed.json").read_text())
    lists = {
        name: [{key: value for key, value in item.items() if key not in ("score", "rank")} for item in step[name]]
        for name in ("pos_candidates", "neg_candidates")
    }
    action = {
        "action_uid": step["action_uid"],
        "raw_html": "",
        "cleaned_html": step["cleaned_html"],
        "operation": step["operation"],
        **lists,
    }
    return {
        "annotation_id": step["annotation_id"],
        "website": step["website"],
        "domain": "Service",
        "subdomain": "Home",
        "confirmed_task": step["confirmed_task"],
        "action_reprs": ["[button]  Search -> CLICK"],
        "actions": [action],
    }


def test_the_real_step(tmp_path: Path) -> None:
    write(tmp_path / "raw/data/train/train_0.json", [real_episode()])
    run = unify(tmp_path / "home", "mind2web", tmp_path / "raw")
    # box 587,596.59375 93x54 on a page of 1280x7411.703125: centre x = 633.5 / 1280 = 0.49492 → 495;
    # centre y = 623.59375 / 7411.703125 = 0.084136 → 84
    assert run.actions == ["Click(box=(495,84))"]
    [step] = run.steps
    # 587/1280 = 458.59, 596.59375/7411.703 = 80.49, 680/1280 = 531.25, 650.59375/7411.703 = 87.78
    assert [round(side, 2) for side in step["target_box"]] == [458.59, 80.49, 531.25, 87.78]
    assert (step["width_px"], step["height_px"]) == (1280, 7412)
    assert step["episode_id"] == "725d96cd-9283-4ec7-b902-d003503f2d6b" and step["app"] == "thumbtack"
    assert step["instruction"].startswith("View the profile of a Wedding Photographer near 10203")
    assert step["platform"] == "web" and step["split"] == "train" and step["episode_outcome"] is None
    assert run.provenance(0)["image_missing"] == "image_missing"
    assert run.items == (1, 1, 0)


def test_a_full_page_picture_is_used_and_a_crop_is_not(tmp_path: Path) -> None:
    episode = real_episode()
    name = f"{episode['annotation_id']}-{episode['actions'][0]['action_uid']}"
    for home, size, kept in (("full", (128, 741), True), ("crop", (128, 72), False)):
        root = tmp_path / home
        write(root / "data/train/train_0.json", [episode])
        write(root / f"screenshots/{name}.png", png(*size))  # 128 · 7411.7/1280 = 741.2: within 1 px of 741
        run = unify(tmp_path / f"home-{home}", "mind2web", root)
        assert run.actions == ["Click(box=(495,84))"] and run.items == (1, 1, 0)
        assert (run.steps[0]["screenshot_sha256"] is not None) is kept
        assert run.reasons == ({} if kept else {"image_misfit": 1})
        if kept:
            assert {"Search"} <= {element["name"] for element in run.screens[0]["elements"]}
        else:
            assert run.provenance(0)["image_missing"] == "image_misfit"


def test_operations(tmp_path: Path) -> None:
    actions = [
        web_action("TYPE", uid="a", value="it's"),
        web_action("SELECT", uid="b", value="Two"),
        web_action("HOVER", uid="c"),
        web_action("ENTER", rect=None, uid="d"),
        web_action("CLICK", rect=None, uid="e"),
        web_action("CLICK", uid="f"),
    ]
    write(tmp_path / "raw/data/test_website/test_website_0.json", [web_episode(actions)])
    run = unify(tmp_path / "home", "mind2web", tmp_path / "raw")
    # box 100,200 50x20 on 1000x2000: centre 125/1000 → 125, 210/2000 → 105
    assert run.actions == [
        "Click(box=(125,105))",
        r"Type(content='it\'s')",
        "Click(box=(125,105))",
        "Type(content='Two')",
        "Hover(box=(125,105))",
        "PressEnter()",
        "Click(box=(125,105))",
    ]
    assert {row["split"] for row in run.steps} == {"test"}
    assert [run.provenance(place).get("lossy") for place in range(4)] == [None, None, True, True]
    assert run.reasons == {"no_target": 1} and run.items == (6, 5, 1)
    assert run.provenance(6)["gap_at"] == 6
    assert run.manifest.counts["losses"]["SELECT"] == {"lossy": 1}


def test_the_original_target_wins_over_the_top_level_one(tmp_path: Path) -> None:
    both = [
        candidate("div", "0,0,400,400", is_original_target=False, is_top_level_target=True),
        candidate("a", "10,20,20,40", is_original_target=True, is_top_level_target=False),
    ]
    actions = [web_action(uid="a", pos_candidates=both), web_action(uid="b", pos_candidates=both[:1])]
    write(tmp_path / "raw/train_0.json", [web_episode(actions)])
    run = unify(tmp_path / "home", "mind2web", tmp_path / "raw")
    assert run.actions == ["Click(box=(20,20))", "Click(box=(200,100))"]  # 20/1000, 40/2000; 200/1000, 200/2000


def test_no_finish_is_made_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "raw/train_0.json", [web_episode([web_action()])])
    assert "Finished(content='')" not in unify(tmp_path / "one", "mind2web", tmp_path / "raw").actions
    monkeypatch.setattr(Mind2webAdapter, "synthesise_finish", True)
    run = unify(tmp_path / "two", "mind2web", tmp_path / "raw")
    assert run.actions[-1] == "Finished(content='')" and run.provenance(1)["rules"] == ["finish_synthesised"]
    assert run.items == (1, 1, 0)


def test_faults_are_named_and_counted(tmp_path: Path) -> None:
    good = [web_action(uid=f"g{place}") for place in range(9)]
    bad = [
        web_action("SWIPE"),
        web_action("TYPE", value=""),
        web_action(rect="900,1990,500,500"),
        web_action(rect="-1,-1,-1,-1"),
        web_action(rect="1,2,3"),
        web_action(neg_candidates=[]),
        web_action(uid="../../x"),
        {"action_uid": "u"},
        web_action(colour=1),
    ]
    write(tmp_path / "raw/train_0.json", [web_episode([*good, *bad], extra=1)])
    run = unify(tmp_path / "home", "mind2web", tmp_path / "raw")
    assert run.items == (18, 10, 8)
    assert run.reasons == {
        "unknown_action:SWIPE": 1,
        "empty_text": 1,
        "off_screen": 1,
        "bad_box": 1,
        "bad_value": 1,
        "bad_frame": 1,
        "unsafe_path": 1,
        "missing_field": 1,
        "unknown_field:colour": 1,
        "unknown_field:extra": 1,
    }


def test_broken_files_are_counted_by_what_they_held(tmp_path: Path) -> None:
    whole = json.dumps([web_episode([web_action()]), web_episode([web_action(), web_action()], annotation_id="e2")])
    write(tmp_path / "raw/train_0.json", whole[:-40])
    write(tmp_path / "raw/train_1.json", '[{"annotation_id": "e3", "actions": [}, {"action_uid": 1}]')
    write(tmp_path / "raw/train_2.json", "{}")
    write(
        tmp_path / "raw/train_3.json",
        [
            web_episode([web_action()], annotation_id="e4", confirmed_task=" "),
            {"annotation_id": "e5"},
            3,
            web_episode([web_action()] * 5, annotation_id="e6"),
        ],
    )
    run = unify(tmp_path / "home", "mind2web", tmp_path / "raw")
    # mapped: 1 of e1, 5 of e6; quarantined: 2 of e2, 1 of e3, 1 of e4, e5, the 3 and the lone object as one each
    assert run.items == (13, 6, 7)
    assert run.reasons == {"truncated_record": 2, "bad_json": 1, "bad_value": 1, "empty_text": 1, "missing_field": 2}


@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
def test_the_array_is_streamed_whatever_the_chunk(tmp_path: Path, chunk: int) -> None:
    rows = [{"a": 'é\\"\n' * 20, "b": [1, 2, {"c": None}]}, {}, {"x": "]},{"}, 12, "s"]
    path = write(tmp_path / "a.json", "\ufeff " + json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    assert [row for _, row in json_array.elements(path, chunk)] == rows
    path = write(tmp_path / "b.json", json.dumps(rows)[:-3])
    *found, (_, last) = json_array.elements(path, chunk)
    assert [row for _, row in found] == rows[:4] and isinstance(last, json_array.ArrayDamage)
    assert last.reason == "truncated_record"
