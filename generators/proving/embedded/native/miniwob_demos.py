"""MiniWoB++ demonstrations: `.json.gz` event states, written by the page's own recorder during real runs."""

import gzip
import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from generators.devices.browser import MINIWOB
from generators.proving.embedded.defects import DefectRates, PlantedDefect, shift_point
from generators.proving.embedded.native import common
from generators.worlds.miniwob.goals import quoted
from generators.worlds.miniwob.html import OracleMiss
from generators.worlds.miniwob.oracles import ORACLES, perform
from generators.worlds.miniwob.recorded import open_miniwob

BATCH = "2017-11-05_fourth-turk"
FIRST_SEED = 4_000_000


@dataclass(frozen=True)
class Demo:
    """One run: the recorder's data, and the acts in order (clicks and typed texts) for planting defects."""

    name: str
    task: str
    data: dict[str, Any]
    acts: tuple[dict[str, Any], ...]
    reward: float


def record(count: int) -> tuple[list[Demo], int]:
    """`count` successful runs, the tasks in turn; and how many runs failed."""
    tasks = sorted(ORACLES)
    demos: list[Demo] = []
    failed, seed = 0, FIRST_SEED
    with open_miniwob() as world:
        while len(demos) < count:
            task = tasks[seed % len(tasks)]
            try:
                data, acts, reward = perform(world, task, seed)
            except OracleMiss:
                reward = 0.0
            seed += 1
            # Full marks only: partial rewards are recordings of slips.
            if reward != 1:
                failed += 1
                # More failures than demonstrations: the oracles or the pages are broken.
                if failed > count:
                    raise RuntimeError(f"miniwob_demos: {failed} of {len(demos) + failed} runs failed, last {task}")
                continue
            worker = Random(seed).choice("ABCDEFGHJK") + f"{seed * 7919:x}".upper()
            demos.append(Demo(f"{task}_{worker}_d1", task, data, tuple(acts), reward))
    return demos, failed


def demo_json(demo: Demo) -> dict[str, object]:
    """The stored object; `reward` is discounted by the ten seconds a person had."""
    took = demo.data["states"][-1]["time"]
    return {
        "taskName": demo.task,
        "utterance": demo.data["utterance"],
        "states": demo.data["states"],
        # Discounted by time, as the source discounts its rewards.
        "reward": max(0.0, round(demo.reward * (1 - took / 100_000), 4)),
        "rawReward": int(demo.reward),
    }


def _act_states(demo: Demo, which: int) -> list[int]:
    """Indices of the states of the `which`-th act, both phases: a click's mousedown, mouseup and click, or the keys of
    a run of letters."""
    starts: list[list[int]] = []
    typing = False
    for i, state in enumerate(demo.data["states"]):
        action = state["action"]
        if action is None:
            continue
        if action["type"] in ("mousedown", "mouseup", "click"):
            if action["type"] == "mousedown" and action["timing"] == 1:
                starts.append([])
            typing = False
        elif not typing:
            starts.append([])
            typing = True
        starts[-1].append(i)
    return starts[which]


def _damage(kind: str, demo: Demo, which: int, rng: Random) -> Demo | None:
    act = demo.acts[which]
    data = deepcopy(demo.data)
    if kind in ("shifted_point", "wrong_element"):
        if act["kind"] != "click":
            return None
        if kind == "shifted_point":
            point = shift_point((act["point"][0], act["point"][1]), act["box"], (MINIWOB.width, MINIWOB.height), rng)
        else:
            others = [a for a in demo.acts if a["kind"] == "click" and a["box"] != act["box"]]
            point = tuple(rng.choice(others)["point"]) if others else None
        if point is None:
            return None
        for i in _act_states(demo, which):
            data["states"][i]["action"] |= {"x": point[0], "y": point[1]}
    elif kind == "wrong_text":
        if act["kind"] != "type":
            return None
        for action in (data["states"][i]["action"] for i in _act_states(demo, which)):
            if action["type"] == "keypress":
                # Another letter, whichever was typed.
                code = ord("q") if action["charCode"] != ord("q") else ord("z")
                action |= {"keyCode": code, "charCode": code}
    elif kind == "near_miss_instruction":
        words = [w for w in quoted(data["utterance"]) if len(w) > 1]
        if not words:
            return None
        data["utterance"] = data["utterance"].replace(
            # Reversed, or with an s where that changes nothing.
            words[-1],
            words[-1][::-1] if words[-1][::-1] != words[-1] else words[-1] + "s",
        )
    elif kind == "premature_finish":
        if len(demo.acts) < 2:
            return None
        data["states"] = data["states"][: _last_act_start(demo)]
    elif kind == "off_screen":
        if act["kind"] != "click":
            return None
        for i in _act_states(demo, which):
            data["states"][i]["action"] |= {"x": 900}
    else:
        return None
    return replace(demo, data=data)


def _last_act_start(demo: Demo) -> int:
    downs = [i for i, s in enumerate(demo.data["states"]) if s["action"] and s["action"]["type"] == "mousedown"]
    # The last click sends the task; the one before begins the last act.
    return downs[-2]


def plant(demos: Sequence[Demo], rates: DefectRates, seed: int) -> tuple[list[Demo], list[PlantedDefect]]:
    """One defect a damaged demo; `item` counts acts (a click, a run of letters)."""
    rng = Random(f"miniwob_demos/{seed}")
    out, truths = list(demos), []
    order = rng.sample(range(len(demos)), len(demos))
    near, early = round(rates.near_miss * len(demos)), round(rates.premature * len(demos))
    total = sum(len(d.acts) + 1 for d in demos)
    # At least one unreadable, or a small demo would have none.
    low, bad = round(rates.low * total), max(1, round(rates.unreadable * total)) if rates.unreadable else 0
    for i in order:
        demo = demos[i]
        which = rng.randrange(len(demo.acts))
        if near:
            kinds = ["near_miss_instruction"]
        elif early:
            kinds = ["premature_finish"]
        elif low > 0:
            kinds = rng.sample(["shifted_point", "wrong_element", "wrong_text"], 3)
        elif bad > 0:
            kinds = ["off_screen"]
        else:
            break
        for kind in kinds:
            new = _damage(kind, demo, which, rng)
            if new is None:
                continue
            out[i] = new
            whole = kind in ("near_miss_instruction", "premature_finish")
            original: dict[str, Any] = {"text": "", **demo.acts[which], "utterance": demo.data["utterance"]}
            if whole:
                original = {"goal": demo.data["utterance"], "acts": len(demo.acts)}
            truths.append(PlantedDefect(demo.name, None if whole else which, kind, original))
            near -= kind == "near_miss_instruction"
            early -= kind == "premature_finish"
            low -= len(demo.acts) + 1 if whole else int(kind != "off_screen")
            bad -= kind == "off_screen"
            break
    return out, truths


def write(root: Path, demos: Sequence[Demo]) -> None:
    """`<batch>/<task>/<task>_<worker>_d1.json.gz`, without a time stamp in the gzip header."""
    for demo in demos:
        data = json.dumps(demo_json(demo), separators=(",", ":")).encode()
        common.write(root / BATCH / demo.task / f"{demo.name}.json.gz", gzip.compress(data, compresslevel=6, mtime=0))
