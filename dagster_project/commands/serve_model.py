"""`vesper serve`: a checkpoint behind the OpenAI protocol, on this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pipelines.http_guard import LOOPBACK
from trainer.serving.serve import KEY_VARIABLE, ChatServer, serving

EXAMPLE = """example: vesper serve out/unified --port 8000
then, from anywhere on this machine:
  vesper eval --suite screenspot_v2 --raw PATH --base-url http://127.0.0.1:8000/v1 --model unified --words trained"""


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLE
    add = parser.add_argument
    add("checkpoint", metavar="CKPT", type=Path, help="a checkpoint folder")
    add("--port", type=int, default=8000, help="0 is a free one (8000)")
    add("--host", default="127.0.0.1", help="where to listen; anything but the loopback needs $VESPER_SERVE_API_KEY")
    add("--name", default="", help="the model's name (that of the folder)")
    add("--device", default="cpu", help="where the model runs (cpu)")
    add("--threads", type=int, default=2, help="CPU threads (2)")
    parser.set_defaults(run=serve)


def serve(options: argparse.Namespace) -> int:
    """Serve until Ctrl+C."""
    if not (options.checkpoint / "config.json").is_file():
        raise ValueError(f"{options.checkpoint}: expected a checkpoint folder with config.json, found none")
    if options.threads < 1 or not 0 <= options.port < 65536:
        raise ValueError(f"expected 1 or more threads and a port below 65536, found {options.threads}, {options.port}")
    import torch

    from trainer.modeling.checkpoint import load_checkpoint

    torch.set_num_threads(options.threads)
    loaded = load_checkpoint(options.checkpoint, device=options.device)
    name = options.name or options.checkpoint.resolve().name
    hosts = LOOPBACK if options.host in LOOPBACK else ()
    server = ChatServer(loaded, name=name, key=os.environ.get(KEY_VARIABLE, ""), hosts=hosts)
    with serving(server, options.host, options.port) as (url, thread):
        print(f"{name} at {url} (Ctrl+C ends it)", flush=True)
        thread.join()
    return 0
