"""`vesper serve`: a checkpoint behind the OpenAI protocol, on this machine; `vesper serve rollouts`: behind vLLM's
rollout protocol, for a learner."""

import argparse
import os
import secrets
from collections.abc import Callable
from typing import Any

from dagster_project.commands.checkpoint_option import TEXT, add_reading, checkpoint, name_of
from pipelines.http_guard import LOOPBACK

EXAMPLES = {
    "serve": """example: vesper serve out/unified --port 8000
then, from anywhere on this machine:
  vesper eval --suite screenspot_v2 --raw PATH --base-url http://127.0.0.1:8000/v1 --model unified --words trained""",
    "serve rollouts": "example: vesper serve rollouts out/unified --weights-root /mnt/shared/weights --weight-transfer",
}


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    rollouts = command == "serve rollouts"
    parser.epilog = EXAMPLES[command]
    add = parser.add_argument
    add("checkpoint", metavar="CKPT", type=checkpoint, help=TEXT)
    add("--port", type=int, default=8000, help="0 is a free one (8000)")
    add("--host", default="127.0.0.1", help="where to listen; anything but the loopback needs $VESPER_SERVE_API_KEY")
    add("--device", default="cpu", help="where the model runs (cpu)")
    threads = 1 if rollouts else 2
    add("--threads", type=int, default=threads, help=f"CPU threads ({threads})")
    if rollouts:
        add("--weights-root", metavar="DIR", help="reload weights from folders below this one")
        add("--weight-transfer", action="store_true", help="take weights from a learner's Gloo group")
        parser.set_defaults(run=serve_rollouts)
    else:
        add("--name", default="", help="the model's name (that of the asset or folder)")
        cut = "of a text that is too long the model reads head and tail, as in training; the answer says so (error 400)"
        add("--cut-texts", action="store_true", help=cut)
        add_reading(parser)
        parser.set_defaults(run=serve)


def serve(options: argparse.Namespace) -> int:
    """Answer chats until Ctrl+C."""
    from trainer.serving.serve import ChatServer  # with the web server's packages, which `--help` does without

    name = options.name or name_of(options.checkpoint)
    from trainer.reading.read import looking  # with torch

    loaded, access = looking(_loaded(options), options.reading), server_access(options)
    server = ChatServer(loaded, name=name, cut_texts=options.cut_texts, **access)
    return until_stopped(server, options, lambda url: f"{name} at {url}")


def serve_rollouts(options: argparse.Namespace) -> int:
    """Make the replies of a learner's rollouts until Ctrl+C. Without a key of the user's there is one for this start:
    else any program of this machine could change the weights."""
    from trainer.serving.rollout_server import RolloutServer  # as above
    from trainer.serving.serve import KEY_VARIABLE

    access, key_text = server_access(options), ""
    if not access["key"]:
        access["key"] = secrets.token_urlsafe(24)
        key_text = f", its key is {access['key']} (for the learner: VLLM_API_KEY; to say one: {KEY_VARIABLE})"
    server = RolloutServer(
        _loaded(options), weights_root=options.weights_root, weight_transfer=options.weight_transfer, **access
    )
    return until_stopped(server, options, lambda url: f"{server.name} at {url.removesuffix('/v1')}{key_text}")


def _loaded(options: argparse.Namespace) -> Any:
    if not (options.checkpoint / "config.json").is_file():
        raise ValueError(f"{options.checkpoint}: expected a checkpoint folder with config.json, found none")
    # Before torch is imported, which takes seconds.
    if options.threads < 1 or not 0 <= options.port < 65536:
        raise ValueError(f"expected 1 or more threads and a port below 65536, found {options.threads}, {options.port}")
    import torch

    from trainer.modeling.checkpoint import load_checkpoint

    torch.set_num_threads(options.threads)
    return load_checkpoint(options.checkpoint, device=options.device)


def server_access(options: argparse.Namespace) -> dict[str, Any]:
    """Who may ask the server: with which key, and by which names of this machine."""
    from trainer.serving.serve import KEY_VARIABLE  # as above

    return {"key": os.environ.get(KEY_VARIABLE, ""), "hosts": LOOPBACK if options.host in LOOPBACK else ()}


def until_stopped(server: Any, options: argparse.Namespace, stated: Callable[[str], str]) -> int:
    """Serve on `--host` and `--port`; `stated` says of the address what is there."""
    from trainer.serving.serve import serving  # as above

    with serving(server, options.host, options.port) as (url, thread):
        print(f"{stated(url)} (Ctrl+C ends it)", flush=True)
        thread.join()
    return 0
