"""Mind2Web: JSON arrays of episodes with HTML and candidates; whole-page pictures lie beside them."""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from generators.proving.embedded.native import common
from generators.worlds.pages.page_task import SITES
from generators.worlds.pages.recording import DomNode, RecordedAct, RecordedEpisode, RecordedStep

EPISODES_PER_FILE = 10
DOMAINS = {"shop": ("Shopping", "Store"), "news": ("Info", "News"), "mail": ("Service", "Mail")}
OPS = {"tap": "CLICK", "type": "TYPE", "select": "SELECT", "enter": "CLICK", "unknown": "SWIPE"}


def uid(seed: int) -> str:
    """`annotation_id`: a uuid."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"vesper/mind2web/{seed}"))


def action_uid(episode: RecordedEpisode, index: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{episode.uid}/{index}"))


def candidate(node: DomNode, *, target: bool = False, rect: Sequence[float] | None = None) -> dict[str, object]:
    """One candidate; `attributes` is a string that holds JSON, numbers are strings."""
    attributes = {"backend_node_id": str(node.uid), "bounding_box_rect": ",".join(f"{v:g}" for v in rect or node.rect)}
    attributes |= node.attributes
    if node.clickable:
        attributes["is_clickable"] = "true"
    attributes["data_pw_testid_buckeye_candidate"] = "1"
    found: dict[str, Any] = {"attributes": json.dumps(attributes), "backend_node_id": str(node.uid), "tag": node.tag}
    if target:
        found = {**found, "is_original_target": True, "is_top_level_target": True}
    return found


def target_node(step: RecordedStep) -> DomNode | None:
    """The node that was acted on; for the enter key the field that has the focus."""
    assert step.web is not None
    key = step.act.key or next((e.key for e in step.elements if e.focused), "")
    return next((node for node in step.web.nodes if node.key == key and key), None)


def rect_of(act: RecordedAct, node: DomNode) -> tuple[float, float, float, float]:
    """The target's rect as recorded: the node's, or where a defect has moved it."""
    if act.box is None or act.point is None:
        return node.rect
    x, y, width, height = node.rect
    # Inside of the node: the point was not moved, so the rect isn't either.
    if x <= act.point[0] <= x + width and y <= act.point[1] <= y + height:
        return node.rect
    return act.point[0] - width / 2, act.point[1] - height / 2, width, height


def repr_of(act: RecordedAct, node: DomNode | None) -> str:
    role = node.attributes.get("role", node.tag) if node else "html"
    value = f": {act.text}" if act.kind in ("type", "select") else ""
    return f"[{role}]  {act.name or (node.text[:40] if node else '')} -> {OPS[act.kind]}{value}"


def action_json(episode: RecordedEpisode, index: int) -> dict[str, object]:
    """One action with its HTML and candidates; positives first come as the true target only."""
    step = episode.steps[index]
    web, node = step.web, target_node(step)
    assert web is not None
    original = {"enter": "ENTER", "unknown": "SWIPE"}.get(step.act.kind, OPS[step.act.kind])
    mark = f'backend_node_id="{node.uid}"' if node else ""
    uid_ = action_uid(episode, index)
    # The target is marked in the HTML, as the source's recorder does.
    raw_html = web.raw_html.replace(mark, f'{mark} data_pw_testid_buckeye="{uid_}"', 1) if mark else web.raw_html
    return {
        "action_uid": uid_,
        "raw_html": raw_html,
        "cleaned_html": web.cleaned_html,
        "operation": {
            "op": OPS[step.act.kind],
            "original_op": original,
            "value": step.act.text if step.act.kind in ("type", "select") else "",
        },
        "pos_candidates": [candidate(node, target=True, rect=rect_of(step.act, node))] if node else [],
        "neg_candidates": [candidate(other) for other in web.nodes if other is not node],
    }


def episode_json(episode: RecordedEpisode) -> dict[str, object]:
    body = range(len(episode.steps) - 1)
    domain, subdomain = DOMAINS.get(episode.app, ("Service", "Tools"))
    return {
        "annotation_id": episode.uid,
        "website": SITES[episode.app],
        "domain": domain,
        "subdomain": subdomain,
        "confirmed_task": episode.goal,
        "action_reprs": [repr_of(episode.steps[i].act, target_node(episode.steps[i])) for i in body],
        "actions": [action_json(episode, i) for i in body],
    }


def write(root: Path, episodes: Sequence[RecordedEpisode]) -> None:
    """`data/train/train_<n>.json`, `data/test_task/test_task_<n>.json`, `screenshots/<annotation>-<action>.png`."""
    for split, folder in (("train", "train"), ("test", "test_task")):
        # Validation rows stand in train, as the source has no such split.
        chosen = [e for e in episodes if (e.split == "test") == (split == "test")]
        for i, group in enumerate(common.shards(chosen, EPISODES_PER_FILE)):
            common.write(root / "data" / folder / f"{folder}_{i}.json", json.dumps([episode_json(e) for e in group]))
    for episode in episodes:
        for i, step in enumerate(episode.steps[:-1]):
            common.write(root / "screenshots" / f"{episode.uid}-{action_uid(episode, i)}.png", step.png)
