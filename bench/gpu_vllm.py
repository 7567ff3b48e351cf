"""Replies of a vLLM server beside the learner's own figures, and what an update of its weights takes, as JSON.

    python bench/gpu_vllm.py --preset 2b                                   # starts `vllm serve` beside the learner
    python bench/gpu_vllm.py --endpoint http://127.0.0.1:8000 --checkpoint DIR --weights-dir DIR     # one that runs

A model of random weights (see gpu_sampling.py) is saved, a server of it is started on the same GPU, and
`trainer.vllm.engine`, as online RL uses it, gives it the learner's weights by `reload_weights` and asks for the
replies to drawn screens. vLLM is that of `make serve`, or of $VLLM; where there is none, the answer says so.
"""

import argparse
import io
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]
START_S = 240.0
IN_FLIGHT = 32
MEMORY_SHARE = 0.45
"""Of the GPU, for the server; the learner has the rest."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask the server, print the figures, or {"skipped": why}."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=("nano", "2b", "8b"), default="2b", help="(2b)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="of the learner (cuda)")
    parser.add_argument("--prompts", type=int, default=200, help="(200)")
    parser.add_argument("--tokens", type=int, default=32, help="of each reply at most (32)")
    parser.add_argument("--endpoint", help="of a server that runs already")
    parser.add_argument("--checkpoint", type=Path, help="the model that it serves")
    parser.add_argument("--weights-dir", type=Path, help="a folder that it reads weights from")
    options = parser.parse_args(arguments)
    options.picture = (224, 160) if options.preset == "nano" else (1280, 704)
    options.layers = None
    if options.endpoint and not (options.checkpoint and options.weights_dir):
        print("gpu_vllm: expected --checkpoint and --weights-dir beside --endpoint", file=sys.stderr)
        return 2
    if options.endpoint is None and (server := executable()) is None:
        why = "no vLLM: `make serve MODEL=…` installs it into .venv-serve, $VLLM names another"
        print(json.dumps({"skipped": why}))
        return 0
    with tempfile.TemporaryDirectory() as work:
        folder, weights = options.checkpoint or Path(work) / "model", options.weights_dir or Path(work) / "weights"
        model, processor = loaded(options, folder)
        if options.endpoint:
            found = measure(options, model, processor, options.endpoint, weights)
        else:
            assert server is not None
            with vllm(server, folder) as (endpoint, started):
                found = {"start_s": started, **measure(options, model, processor, endpoint, weights)}
    print(json.dumps(found, indent=1))
    return 0


def executable() -> str | None:
    """vLLM's command, if there is one."""
    for place in (os.environ.get("VLLM"), str(ROOT / ".venv-serve" / "bin" / "vllm"), shutil.which("vllm")):
        if place and Path(place).is_file():
            return place
    return None


def loaded(options: argparse.Namespace, folder: Path) -> tuple[Any, Any]:
    """(model, processor) of `--checkpoint`, or of random weights, which are saved in the folder."""
    from gpu_midtrain import Screens, model_of
    from gpu_sampling import sharpen

    from trainer.modeling.checkpoint import load_checkpoint, save_checkpoint

    if options.checkpoint:
        found = load_checkpoint(folder, device=options.device)
        return found.model, found.processor
    model, processor = model_of(options, options.device)
    sharpen(model, processor, Screens(tuple(options.picture)).row(0))
    save_checkpoint(folder, model, processor, {"stage": "bench", "weights": "random"})
    return model, processor


@contextmanager
def vllm(command: str, folder: Path) -> Iterator[tuple[str, float]]:
    """A server of the folder's model on this GPU: (its URL, seconds until it answered)."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    size = json.loads((folder / "preprocessor_config.json").read_text(encoding="utf-8"))["size"]
    words = [command, "serve", str(folder), "--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16"]
    words += ["--enable-scale-out", "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
    words += ["--limit-mm-per-prompt", '{"image": 1, "video": 0}', "--max-model-len", "10240"]
    words += ["--mm-processor-kwargs", json.dumps({"images_kwargs": {"size": size}})]
    words += ["--gpu-memory-utilization", str(MEMORY_SHARE)]
    began = time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(words, env={**os.environ, "VLLM_SERVER_DEV_MODE": "1"}, stdout=log, stderr=log)
        try:
            while not _answers(f"http://127.0.0.1:{port}/health"):
                if process.poll() is not None or time.monotonic() - began > START_S:
                    log.seek(0)
                    said = log.read().decode(errors="replace").strip().splitlines() or ["nothing"]
                    raise SystemExit(f"gpu_vllm: the server didn't start within {START_S:g} s; it said: {said[-1]}")
                time.sleep(1)
            yield f"http://127.0.0.1:{port}", round(time.monotonic() - began, 1)
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def measure(options: argparse.Namespace, model: Any, processor: Any, endpoint: str, weights: Path) -> dict[str, Any]:
    """Figures of an update and of the replies to `--prompts` screens; differences in nats a token."""
    from gpu_midtrain import Screens
    from gpu_sampling import token_gaps

    from trainer.modeling.sampler import POLICY
    from trainer.settings.grpo import VllmConfig
    from trainer.vllm.engine import VllmEngine

    rows = [encoded(Screens(tuple(options.picture)).row(place)) for place in range(options.prompts)]
    config = VllmConfig(endpoints=(endpoint,), weights_dir=str(weights), logprob_tolerance=1.0)
    engine = VllmEngine(
        {POLICY: model}, processor, config, temperature=1.0, max_new_tokens=options.tokens, run=f"bench-{os.getpid()}"
    )
    with engine:
        updates = []
        for version in (1, 2):
            began = time.perf_counter()
            engine.publish(model.state_dict(), version)
            updates.append(time.perf_counter() - began)
        began = time.perf_counter()
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            replies = list(pool.map(lambda place: ask(engine, place, rows[place]), range(len(rows))))
        seconds = time.perf_counter() - began
    gaps = [abs(gap) for gap in token_gaps(model, processor, rows, replies)]
    return {
        "preset": options.preset,
        "prompts": len(rows),
        "tokens": len(gaps),
        "tokens_per_s": round(len(gaps) / seconds, 1),
        "update_s": [round(one, 2) for one in updates],
        "difference_mean": statistics.mean(gaps),
        "difference_max": max(gaps),
    }


def ask(engine: Any, place: int, row: dict[str, Any]) -> Any:
    """A reply, as a rollout asks for one."""
    from generators.tasks.task_spec import TaskSpec
    from trainer.online.rollouts import RolloutJob

    task = TaskSpec("Click the coloured box.", "web", "drawn", {"world": "drawn"}, {"rule": "none"}, 1)
    job = RolloutJob(task, "bench", place, place)
    with engine.cond:
        engine.active.add(job.key)
    try:
        return engine.ask(job, row, place)[0]
    finally:
        with engine.cond:
            engine.active.discard(job.key)


def encoded(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its ready picture as a PNG, which goes over the wire."""
    from PIL import Image

    data = io.BytesIO()
    Image.fromarray(row["images"][0].pixels.transpose(1, 2, 0)).save(data, "PNG")
    return {**row, "images": [data.getvalue()]}


if __name__ == "__main__":
    sys.exit(main())
