"""AndroidControl: GZIP TFRecord, one Example an episode, n actions and n+1 PNG with accessibility forests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from generators.proving.embedded.native import common
from generators.worlds.pages.own_pages import PageElement
from generators.worlds.pages.page_task import PACKAGES
from generators.worlds.pages.recording import RecordedAct, RecordedEpisode
from pipelines.native import accessibility, tf_example, tfrecord

EPISODES_PER_FILE = 10


def uid(seed: int) -> str:
    """A small number, as there."""
    return str(seed)


def action(act: RecordedAct) -> dict[str, Any]:
    """The JSON of one action; `direction` is the content's, points are pixels."""
    if act.kind == "tap" and act.point:
        return {"action_type": "click", "x": act.point[0], "y": act.point[1]}
    if act.kind == "swipe":
        return {"action_type": "scroll", "direction": act.direction}
    if act.kind == "type":
        return {"action_type": "input_text", "text": act.text}
    if act.kind == "open_app":
        return {"action_type": "open_app", "app_name": act.text}
    words = {"back": "navigate_back", "home": "navigate_home", "wait": "wait", "unknown": "rotate_screen"}
    return {"action_type": words[act.kind]}


def forest(elements: Sequence[PageElement], app: str) -> bytes:
    """The screen as one application window: a root, then the elements with their parents."""
    children: dict[int, list[int]] = {}
    for i, element in enumerate(elements):
        # Ids from 2 on: 1 is the root.
        children.setdefault(element.parent, []).append(i + 2)
    bounds = (0, 0, 360, 640)
    nodes = [
        accessibility.AccessibilityNode(
            unique_id=1,
            bounds=bounds,
            class_name="android.widget.FrameLayout",
            package_name=PACKAGES[app],
            is_enabled=True,
            is_visible_to_user=True,
            child_ids=tuple(children.get(-1, ())),
        )
    ]
    for i, e in enumerate(elements):
        left, top, right, bottom = (round(side) for side in e.box)
        # A field's own text is what was typed; its label is the hint.
        own = e.text if not e.editable else e.value
        nodes.append(
            accessibility.AccessibilityNode(
                unique_id=i + 2,
                bounds=(left, top, right, bottom),
                class_name=common.android_class(e),
                package_name="com.android.systemui" if e.system else PACKAGES[app],
                text=own,
                content_description=e.name if e.name != own else "",
                hint_text=e.text if e.editable and not e.value else "",
                is_checkable=e.checkable,
                is_checked=e.checked,
                is_clickable=e.clickable,
                is_editable=e.editable,
                is_enabled=True,
                is_focusable=e.clickable,
                is_focused=e.focused,
                is_visible_to_user=True,
                child_ids=tuple(children.get(i, ())),
                depth=e.depth,
            )
        )
    window = accessibility.Window(
        nodes=tuple(nodes), bounds=bounds, id=1, layer=1, title=app, type=1, is_active=True, is_focused=True
    )
    return accessibility.encode([window])


def without_enter(episode: RecordedEpisode) -> bool:
    """AndroidControl has no word for the enter key; tasks that press it aren't written."""
    return all(step.act.kind != "enter" for step in episode.steps)


def example(episode: RecordedEpisode) -> bytes:
    """One episode; the closing step gives only its screen."""
    body = episode.steps[:-1]
    return tf_example.serialise(
        {
            "episode_id": [int(episode.uid)],
            "goal": [episode.goal],
            "screenshots": [step.png for step in episode.steps],
            "accessibility_trees": [forest(step.elements, episode.app) for step in episode.steps],
            "screenshot_widths": [episode.width] * len(episode.steps),
            "screenshot_heights": [episode.height] * len(episode.steps),
            "actions": [json.dumps(action(step.act)) for step in body],
            "step_instructions": [step.instruction for step in body],
        }
    )


def write(root: Path, episodes: Sequence[RecordedEpisode]) -> None:
    """`android_control-0000i-of-0000n`, `splits.json`."""
    files = common.shards(episodes, EPISODES_PER_FILE)
    for i, group in enumerate(files):
        name = f"android_control-{i:05d}-of-{len(files):05d}"
        common.write(root / name, tfrecord.dumps([example(episode) for episode in group]))
    splits = {split: [int(uid) for uid in uids] for split, uids in common.split_ids(episodes).items()}
    common.write(root / "splits.json", common.dump(splits))
