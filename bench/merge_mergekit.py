"""Merges by mergekit; runs in the peers' environment (`bench/trainer_peers.py` starts it).

    merge_mergekit.py CASES.json    a list of {"out": folder, "config": mergekit's own configuration}

Prints a JSON list of {"seconds", "mib"} of each merge, see `bench.timing.measured_memory`.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from mergekit.config import MergeConfiguration
from mergekit.merge import run_merge
from mergekit.options import MergeOptions

from bench.timing import measured_memory


def main(path: str) -> None:
    """All merges, one after another."""
    torch.set_num_threads(1)
    found: list[dict[str, Any]] = []
    for case in json.loads(Path(path).read_text()):
        config = MergeConfiguration.model_validate(case["config"])
        # lazily and without its model card: the least memory and time that it offers
        options = MergeOptions(copy_tokenizer=False, lazy_unpickle=True, write_model_card=False, quiet=True)
        found.append(measured_memory(lambda c=config, o=options, out=case["out"]: run_merge(c, out, o)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
