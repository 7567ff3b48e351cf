"""Android in the Zoo: a folder an episode with one JSON list (JSON strings inside it) and its pictures."""

import json
from collections.abc import Sequence
from pathlib import Path

from generators.proving.embedded.native import aitw, common
from generators.worlds.pages.recording import RecordedAct, RecordedEpisode

SUBSETS = ("general", "google_apps", "install", "web_shopping")


def uid(seed: int) -> str:
    """Digits, as there."""
    return str(5_000_000_000_000_000_000 + seed * 6_700_417_003)


def describe(act: RecordedAct) -> str:
    """`coat_action_desc`: scroll words name the finger, as CoAT does."""
    if act.kind == "swipe":
        return "scroll " + {"down": "up", "up": "down"}[act.direction]
    if act.kind == "tap":
        return f"click on the {act.name}"
    if act.kind == "type":
        return f'type "{act.text}"'
    words = {
        "back": "press the back button",
        "home": "press the home button",
        "enter": "press the enter button",
        "done": "stop and set the query as completed",
        "impossible": "stop and set the query as impossible",
    }
    return words.get(act.kind, "rotate the screen")


def thought(episode: RecordedEpisode, index: int) -> str:
    """`coat_action_think`: what the screen shows of the goal, and what comes next."""
    step = episode.steps[index]
    shown = [e.text for e in step.elements if e.role in ("heading", "text") and len(e.text) > 3][:3]
    seen = ", ".join(shown) or "no text"
    goal, then = (text[0].lower() + text[1:] for text in (episode.goal, step.instruction))
    return f"The screen shows {seen}. The task is to {goal}. Next: {then}."


def step_json(episode: RecordedEpisode, index: int, folder: str, subset: str) -> dict[str, object]:
    """One step, all its fields in the order of the source."""
    step = episode.steps[index]
    seen = common.ocr(step.elements)
    boxes = [
        [round(e.box[1]), round(e.box[0]), round(e.box[3] - e.box[1]), round(e.box[2] - e.box[0])] for e, _, _ in seen
    ]
    touch, lift = aitw.gesture(step.act, episode.width, episode.height)
    # In the order of the source, whose paths carry the subset twice.
    image = f"{subset}/{folder}/{folder}_{index}.png"
    split = "test" if episode.split == "test" else "train"
    after = episode.steps[index + 1].instruction if index + 1 < len(episode.steps) else "the task ends"
    return {
        "episode_id": episode.uid,
        "episode_length": len(episode.steps),
        "step_id": index,
        "instruction": episode.goal,
        "ui_positions": json.dumps(boxes),
        "ui_text": json.dumps([text for _, text, _ in seen]),
        "ui_types": json.dumps([kind for _, _, kind in seen]),
        "result_action_type": aitw.CODES[step.act.kind],
        "result_action_text": step.act.text if step.act.kind == "type" else "",
        "result_touch_yx": json.dumps(touch),
        "result_lift_yx": json.dumps(lift),
        "image_path": image,
        "image_full_path": f"android-in-the-wild/aitw_with_gpt/{split}/{image}",
        "coat_screen_desc": f"This is a screen of the {episode.app} app with {len(step.elements)} elements.",
        "coat_action_think": thought(episode, index),
        "coat_action_desc": describe(step.act),
        "coat_action_result": f"By doing so, the next step is possible: {after.lower()}.",
    }


def write(root: Path, episodes: Sequence[RecordedEpisode]) -> None:
    """`train|test/<subset>/<SUBSET-id>/<SUBSET-id>.json` and `_<n>.png`. An exact copy stands in another subset."""
    seen: set[str] = set()
    for episode in episodes:
        own = SUBSETS[episode.seed % len(SUBSETS)]
        # A copy in the same folder would overwrite the original.
        subset = own if episode.uid not in seen else SUBSETS[(SUBSETS.index(own) + 1) % len(SUBSETS)]
        seen.add(episode.uid)
        folder = f"{subset.upper()}-{episode.uid}"
        place = root / ("test" if episode.split == "test" else "train") / subset / folder
        steps = [step_json(episode, index, folder, subset) for index in range(len(episode.steps))]
        common.write(place / f"{folder}.json", json.dumps(steps, indent=4))
        for index, step in enumerate(episode.steps):
            common.write(place / f"{folder}_{index}.png", step.png)
