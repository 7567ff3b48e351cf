"""What a GPU does at best: a large product in bf16 and a large copy within its memory, as JSON on stdout.

A share of the data sheet's peak (MFU) says little where the card itself stays below it. Random numbers: on zeros a
product runs faster than on any data.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence

REPEATS = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="(cuda)")
    options = parser.parse_args(arguments)
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        print("gpu_ceilings: expected a CUDA device, found none; say --device cpu", file=sys.stderr)
        return 2
    on_gpu = options.device == "cuda"
    size, numbers = (8192, 1 << 30) if on_gpu else (512, 1 << 22)
    left, right = (torch.randn(size, size, device=options.device, dtype=torch.bfloat16) for _ in range(2))
    source = torch.randn(numbers, device=options.device)
    target = torch.empty_like(source)

    def seconds(work: Callable[[], object]) -> float:
        took = []
        for _ in range(REPEATS + 2):
            if on_gpu:
                torch.cuda.synchronize()
            began = time.perf_counter()
            work()
            if on_gpu:
                torch.cuda.synchronize()
            took.append(time.perf_counter() - began)
        return sorted(took[2:])[REPEATS // 2]

    product, copy = seconds(lambda: left @ right), seconds(lambda: target.copy_(source))
    found = {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "torch": torch.__version__,
        "memory_gib": round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1) if on_gpu else None,
        "product_tflops": round(2 * size**3 / product / 1e12, 2),
        "copy_gb_per_s": round(2 * source.nbytes / copy / 1e9, 1),
    }
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
