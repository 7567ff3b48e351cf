"""AgentNet: pyautogui steps → actions, every step counted once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unified import unify
from webnative import png, real, write


def line(*codes: Any, **changes: Any) -> dict[str, Any]:
    traj = [
        {"index": place, "image": f"{place}.png", "value": code if isinstance(code, dict) else {"code": code}}
        for place, code in enumerate(codes)
    ]
    return {"task_id": "t", "instruction": "Do it", "traj": traj, **changes}


def lines(path: Path, *rows: Any) -> Path:
    write(path, "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path.parent


def test_the_real_episode(tmp_path: Path) -> None:
    text = real("agentnet", "raw_example.jsonl").read_text()
    root = lines(tmp_path / "raw" / "agentnet_ubuntu_5k.jsonl", text.strip())
    write(root / "ubuntu_images" / "0.png", png(96, 54))
    run = unify(tmp_path / "home", "agentnet", root)
    assert run.actions == [  # x, y are 0..1: times 1000, rounded half up
        "Click(box=(972,970))",  # 0.9722, 0.9701
        # step 1 is a rightClick: no counterpart
        "Click(box=(928,529))",  # 0.9283, 0.5286
        "Drag(start=(455,268), end=(411,277))",  # 0.4546, 0.2682 → 0.4107, 0.2773
        "Click(box=(264,333))",  # 0.2635 → 263.5 → 264; 0.3333
        "Scroll(direction='down')",  # scroll(-3) after moveTo(0.396, 0.7839)
        "Click(box=(411,361))",
        "Click(box=(398,412))",  # 0.4114, 0.3607; 0.3982, 0.4115 → 411.5 → 412
        "Click(box=(536,733))",
        "Click(box=(469,229))",  # 0.5359, 0.7331; 0.4685 → 468.5 → 469, 0.2292
        "Click(box=(761,724))",
        "Click(box=(160,828))",  # 0.7606, 0.724; 0.1596, 0.8281
        "Click(box=(553,398))",
        "Click(box=(510,885))",  # 0.5534, 0.3984; 0.5102, 0.8854
        "Finished(content='')",
    ]
    assert run.items == (15, 14, 1) and run.reasons == {"no_counterpart": 1}
    assert json.loads(run.quarantine[0]["native"])["native"]["value"]["code"].startswith("pyautogui.rightClick")
    assert run.provenance(1)["gap_at"] == 1
    assert run.provenance(4)["lossy"] and "pointer_at 396,784" in run.provenance(4)["rules"]
    assert run.steps[0]["width_px"] == 96 and len(run.screens) == 1
    assert run.provenance(1)["image_missing"] == "image_missing"
    assert {row["episode_outcome"] for row in run.steps} == {"success"}
    assert run.steps[0]["platform"] == "desktop" and run.steps[0]["split"] == "train"


def test_the_evaluation_set_is_refused(tmp_path: Path) -> None:
    bench = real("agentnet", "agentnetbench_s_df0fd37049f470c2.json")
    root = lines(tmp_path / "raw" / "agentnet_ubuntu_5k.jsonl", line("pyautogui.click(0.1, 0.1)"))
    write(root / "bench.json", bench.read_bytes())
    run = unify(tmp_path / "home", "agentnet", root)
    steps = len(json.loads(bench.read_bytes())["steps"])
    assert run.items == (1 + steps, 1, steps)
    assert [row["reason"] for row in run.quarantine] == ["unknown_schema"] and len(run.steps) == 1


def test_texts_flags_and_outcomes(tmp_path: Path) -> None:
    value = {
        "code": "pyautogui.write('a\\nb')\npyautogui.press(keys=['enter'])",
        "thought": "T",
        "action": "Type a",
        "observation": "O",
        "reflection": "R",
        "last_step_correct": False,
        "last_step_redundant": True,
    }
    root = lines(
        tmp_path / "raw" / "agentnet_win_mac_18k.jsonl",
        line(value, "computer.terminate(status='failure')", task_id="a", alignment_score=8),
        line("computer.wait(3)", task_id="b", task_completed=False),
        line("computer.terminate(status='failure')", task_id="c", task_completed=True),
        line("computer.wait(3)", task_id="d", task_completed=None),
    )
    write(root / "meta_data_merged.jsonl", json.dumps({"task_id": "a", "system": "Ubuntu", "resolution": [1920, 1080]}))
    run = unify(tmp_path / "home", "agentnet", root)
    assert run.actions[:5] == [
        "Type(content='a')",
        "PressEnter()",
        "Type(content='b')",
        "PressEnter()",
        "Finished(content='')",
    ]
    assert [row["thought"] for row in run.steps[:2]] == ["T", None]
    assert run.steps[0]["step_instruction"] == "Type a"
    rules = run.provenance(0)["rules"]
    assert {"last_step_correct=false", "last_step_redundant=true", "alignment_score=8"} <= set(rules)
    assert (run.steps[0]["width_px"], run.steps[0]["height_px"]) == (1920, 1080)
    outcomes = {row["episode_id"]: row["episode_outcome"] for row in run.steps}
    assert outcomes == {"a": "failure", "b": "failure", "c": "success", "d": None}
    assert run.items == (5, 5, 0)
    assert run.manifest.counts["losses"]["several gestures"] == {"kept": 1}


def test_faults_are_named_and_counted(tmp_path: Path) -> None:
    root = lines(
        tmp_path / "raw" / "agentnet_ubuntu_5k.jsonl",
        line(
            "pyautogui.click(0.5, 0.5)",
            "pyautogui.click(0.5, 1.5)",
            "pyautogui.fly()",
            {"thought": "no code"},
            "computer.tripleClick(x=0.1, y=0.1)",
            "pyautogui.click(0.5, 0.5)\npyautogui.rightClick(0.5, 0.5)",
            colour=1,
        ),
        '{"task_id": "x", "traj": [{"value": {"code": "a"}}, {"value": {"co',
        line("pyautogui.press('a')", task_id="y", instruction=" "),
        {"task_id": "z", "instruction": "No steps here"},
        [1],
    )
    write(root / "ubuntu_images" / "0.png", b"not a picture")
    run = unify(tmp_path / "home", "agentnet", root)
    # 6 + 1 "code" in the broken line + 1 of the empty instruction + 1 record without traj + 1 that is a list
    assert run.items == (10, 2, 8)
    assert run.reasons == {
        "off_screen": 1,
        "unknown_action:pyautogui.fly": 1,
        "missing_field": 3,
        "no_counterpart": 1,
        "unknown_field:colour": 1,
        "bad_json": 1,
        "empty_text": 1,
        "image_unreadable": 1,
    }
    assert run.provenance(0)["image_missing"] == "image_unreadable"


def test_an_image_name_never_leads_out(tmp_path: Path) -> None:
    row = line("pyautogui.press('a')", "pyautogui.press('b')", "pyautogui.press('c')")
    row["traj"][0]["image"], row["traj"][1]["image"] = "../../secret.png", "/etc/passwd"
    write(tmp_path / "secret.png", png(10, 10))
    run = unify(tmp_path / "home", "agentnet", lines(tmp_path / "raw" / "a.jsonl", row))
    assert run.items == (3, 1, 2) and run.reasons == {"unsafe_path": 2} and run.screens == []


def test_a_repeated_task_id_keeps_both_episodes(tmp_path: Path) -> None:
    rows = [line("pyautogui.press('a')"), line("pyautogui.press('b')"), line("pyautogui.press('a')")]
    run = unify(tmp_path / "home", "agentnet", lines(tmp_path / "raw" / "a.jsonl", *rows))
    assert sorted(row["action_text"] for row in run.steps) == ["Hotkey(keys=['a'])", "Hotkey(keys=['b'])"]
    assert len({row["episode_id"] for row in run.steps}) == 2
    assert run.items == (3, 2, 1) and run.reasons == {"duplicate": 1}
