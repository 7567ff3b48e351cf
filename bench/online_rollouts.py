"""Online RL with one slow device of eight: how much of the devices' time goes into rollouts that an update used.

Eight devices show screens after a pause (0.4 s; the slow one 2 s), a tiny policy acts in them, a learner learns. The
share is that of all seconds in which a device was held open, from the first to the last: waiting for work, dropped
rollouts and those that the end cut off count against it. The peer is the same run in mode "sync", where all wait for
the slowest: its rollouts a minute.

    python bench/online_rollouts.py [SMALL]      SMALL > 1 divides the updates
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from bench.timing import result  # noqa: E402

DEVICES, PAUSE_S, SLOW_S = 8, 0.4, 2.0
UPDATES, STALENESS = 24, 4


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    """Share of used device-seconds, and rollouts a minute beside "sync"."""
    import torch

    was = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield from _measured(Path(folder), max(UPDATES // small, 3))
    finally:
        torch.set_num_threads(was)


def _measured(folder: Path, updates: int) -> Iterator[dict[str, Any]]:
    start = _start(folder / "start")
    found = {
        mode: _run(start, folder / mode, mode, updates if mode == "async" else max(2, updates // 4))
        for mode in ("async", "sync")
    }
    share, metrics = found["async"].timing["used_share"], found["async"].metrics
    pace = {mode: 60 * one.metrics["rollouts"] / one.timing["seconds"] for mode, one in found.items()}
    stale = [row["staleness_max"] for row in metrics["curve"]]
    print(
        f"# {metrics['rollouts']} rollouts, {metrics['stale_dropped']} dropped, staleness up to {max(stale)}",
        file=sys.stderr,
    )
    yield result(
        "online RL, one slow device in eight: device-seconds used by updates", 100 * share, "%", "the goal", 90.0
    )
    yield result("online RL, one slow device in eight: rollouts", pace["async"], "1/min", "mode sync", pace["sync"])


def _start(folder: Path) -> Path:
    from choice_world import taught
    from drawn import make_rows

    from pipelines.prompts import prompt_text
    from trainer.modeling.model import build_model
    from trainer.modeling.processor import Processor
    from trainer.modeling.tokenizer import train_tokenizer
    from trainer.presets import Preset, image_processor
    from trainer.settings.model_shape import Shape

    shape = Shape(
        vocab_size=1400,
        hidden=32,
        layers=2,
        heads=1,
        kv_heads=1,
        intermediate=64,
        vision_hidden=32,
        vision_depth=1,
        vision_heads=1,
        vision_intermediate=32,
        deepstack=(0,),
        pixels=64 * 64,
    )
    preset = Preset("small", shape=shape, max_pixels=64 * 64)
    drawn = make_rows(16)
    texts = [prompt_text(row["messages"]) for row in drawn] + [row["answer"] for row in drawn]
    processor = Processor(train_tokenizer(texts, 1400), image_processor(preset), preset)
    return taught(folder, processor, build_model(preset, processor.tokenizer, seed=1), preset)


def _run(start: Path, out: Path, mode: str, updates: int) -> Any:
    from choice_world import Slow, task

    from trainer.online.train import train_online
    from trainer.settings.online import OnlineConfig

    config = OnlineConfig.parsed(
        {
            "mode": mode,
            "updates": updates,
            "tasks_per_update": 4,
            "num_generations": 4,
            "workers": DEVICES,
            "max_staleness": STALENESS,
            "learning_rate": 1e-3,
            "edges": [1, 2],
            "eval_steps": 0,
            "grpo": {"max_completion_length": 24},
            "limits": {"step_factor": 1, "step_extra": 0},
        }
    )
    tasks = [task(1 + number % 2, number) for number in range(16)]
    return train_online(start, tasks, out, config, pool=Slow(DEVICES, PAUSE_S, SLOW_S))


if __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        print(json.dumps(row))
