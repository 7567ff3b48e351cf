"""Android in the Wild: GZIP TFRecord, one Example a step, raw pixels, y before x, finger gestures."""

from collections.abc import Sequence
from pathlib import Path

from generators.proving.embedded.native import common
from generators.worlds.pages.page_task import PACKAGES
from generators.worlds.pages.recording import RecordedAct, RecordedEpisode, RecordedStep
from pipelines.native import tf_example, tfrecord

EPISODES_PER_FILE = 8
CODES = {"type": 3, "tap": 4, "swipe": 4, "back": 5, "home": 6, "enter": 7, "done": 10, "impossible": 11, "unknown": 12}
NO_POINT = [-1.0, -1.0]


def uid(seed: int) -> str:
    """A decimal string like AITW's 64-bit ids."""
    return str(10_000_000_000_000_000_000 + seed * 7_919_000_003)


def gesture(act: RecordedAct, width: int, height: int) -> tuple[list[float], list[float]]:
    """(touch, lift) as (y, x) in 0..1; a tap lifts 1 px beside where it touched; (-1, -1) twice for no gesture."""
    if act.point is None or act.kind not in ("tap", "swipe"):
        return NO_POINT, NO_POINT
    x, y = act.point
    # One pixel beside: AITW tells taps from swipes by the distance.
    end = act.end if act.kind == "swipe" and act.end else (x, y + 1)
    return [y / height, x / width], [end[1] / height, end[0] / width]


def example(episode: RecordedEpisode, index: int) -> bytes:
    """One step as a serialised tf.Example. A step that waits has no code in AITW, so writers leave it out before."""
    step = episode.steps[index]
    touch, lift = gesture(step.act, episode.width, episode.height)
    picture = common.pixels(step.png)
    # Damaged: too few bytes for the size stated, which ingestion has to notice.
    raw = picture.tobytes() if picture is not None else step.png  # a damaged picture: too few bytes
    seen = common.ocr(step.elements)
    positions: list[float] = []
    for element, _, _ in seen:
        left, top, right, bottom = element.box
        positions += [
            top / episode.height,
            left / episode.width,
            (bottom - top) / episode.height,
            (right - left) / episode.width,
        ]
    home = index == 0 and episode.task.entry
    return tf_example.serialise(
        {
            "episode_id": [episode.uid],
            "step_id": [index],
            "episode_length": [len(episode.steps)],
            "goal_info": [episode.goal],
            "android_api_level": [31],
            "current_activity": ["org.vesper.launcher/.Home" if home else f"{PACKAGES[episode.app]}/.Main"],
            "device_type": ["PIXEL_3"],
            "image/encoded": [raw],
            "image/height": [episode.height],
            "image/width": [episode.width],
            "image/channels": [3],
            "image/ui_annotations_positions": positions,
            "image/ui_annotations_text": [text for _, text, _ in seen],
            "image/ui_annotations_ui_types": [kind for _, _, kind in seen],
            "results/action_type": [CODES[step.act.kind]],
            "results/type_action": [step.act.text if step.act.kind == "type" else ""],
            "results/yx_touch": touch,
            "results/yx_lift": lift,
        }
    )


def without_waits(episode: RecordedEpisode) -> RecordedEpisode:
    """AITW has no word for waiting: such steps are not in it."""
    from dataclasses import replace

    steps: tuple[RecordedStep, ...] = tuple(step for step in episode.steps if step.act.kind != "wait")
    return replace(episode, steps=steps)


def write(root: Path, episodes: Sequence[RecordedEpisode]) -> None:
    """`general/general-0000i-of-0000n` and `splits/standard.json`."""
    files = common.shards(episodes, EPISODES_PER_FILE)
    for i, group in enumerate(files):
        records = [example(episode, step) for episode in group for step in range(len(episode.steps))]
        common.write(root / "general" / f"general-{i:05d}-of-{len(files):05d}", tfrecord.dumps(records))
    common.write(root / "splits" / "standard.json", common.dump(common.split_ids(episodes)))
