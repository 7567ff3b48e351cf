"""AgentNet (OpenCUA): a JSON line an episode with pyautogui code, points in 0..1, and a folder of pictures."""

import uuid
from collections.abc import Sequence
from pathlib import Path

from generators.proving.embedded.native import common
from generators.worlds.pages.recording import RecordedAct, RecordedEpisode


def uid(seed: int) -> str:
    """`task_id`: a uuid."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"vesper/agentnet/{seed}"))


def code(act: RecordedAct, width: int, height: int) -> str:
    """pyautogui lines; a wheel is a moveTo and a scroll, a drag a moveTo and a dragTo."""

    def at(point: tuple[int, int] | None) -> str:
        x, y = point or (width // 2, height // 2)
        return f"x={round(x / width, 4)}, y={round(y / height, 4)}"

    if act.kind == "tap":
        return f"pyautogui.click({at(act.point)})"
    if act.kind == "drag":
        return f"pyautogui.moveTo({at(act.point)})\npyautogui.dragTo({at(act.end)}, button='left')"
    if act.kind == "wheel":
        # pyautogui counts wheel notches upwards.
        notches = act.amount if act.direction == "up" else -act.amount
        return f"pyautogui.moveTo({at(act.point)})\npyautogui.scroll({notches})"
    if act.kind == "type":
        return f"pyautogui.write(message={act.text!r})"
    if act.kind == "hotkey":
        return f"pyautogui.hotkey(keys={list(act.keys)!r})"
    words = {
        "enter": "pyautogui.press(keys=['enter'])",
        "wait": "computer.wait(1)",
        "unknown": "computer.rotate()",
        "done": "computer.terminate(status='success')",
        "impossible": "computer.terminate(status='failure')",
    }
    return words[act.kind]


def image_name(episode: RecordedEpisode, index: int) -> str:
    return f"{episode.uid}_{index}.png"


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def line(episode: RecordedEpisode) -> dict[str, object]:
    """One episode, with the judgements of the release (the annotator's word, not the truth)."""
    traj = []
    for i, step in enumerate(episode.steps):
        value = {
            "code": code(step.act, episode.width, episode.height),
            "thought": f"To {_lower(episode.goal)}, the next thing is: {_lower(step.instruction)}.",
            "action": step.instruction,
            "observation": f"A desktop with the {episode.app} window open.",
            "reflection": None,
            "last_step_correct": True,
            "last_step_redundant": False,
        }
        traj.append({"index": i, "image": image_name(episode, i), "value": value})
    return {
        "task_id": episode.uid,
        "instruction": episode.goal,
        "traj": traj,
        "domain": "vesper",
        "task_completed": True,
        "alignment_score": 8,
        "efficiency_score": 8,
        "task_difficulty": min(10, len(episode.steps)),
        "natural_language_task": episode.goal,
        "actual_task": episode.goal,
        "reason": "The recording ends with the task reported as done.",
    }


def write(root: Path, episodes: Sequence[RecordedEpisode]) -> None:
    """`agentnet_ubuntu_5k.jsonl`, `meta_data_merged.jsonl`, `ubuntu_images/`."""
    common.write(root / "agentnet_ubuntu_5k.jsonl", "".join(common.dump(line(e)) + "\n" for e in episodes))
    meta = [
        {"task_id": e.uid, "system": "Ubuntu", "screen_width": e.width, "screen_height": e.height} for e in episodes
    ]
    common.write(root / "meta_data_merged.jsonl", "".join(common.dump(m) + "\n" for m in meta))
    for episode in episodes:
        for i, step in enumerate(episode.steps):
            common.write(root / "ubuntu_images" / image_name(episode, i), step.png)
