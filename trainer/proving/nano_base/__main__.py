"""`python -m trainer.proving.nano_base`: build nano-base, in parts, and pass its gate."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from trainer.presets import NANO_BASE
from trainer.proving.nano_base import build
from trainer.proving.nano_base.curriculum import CURRICULUM, NanoBaseConfig


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m trainer.proving.nano_base`; exit code 1 if the gate isn't passed."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.proving.nano_base",
        description=(build.__doc__ or "").strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=NANO_BASE, help="the checkpoint's folder (the package's own)")
    parser.add_argument("--work", type=Path, required=True, help="sheets and resumable state")
    parser.add_argument("--phases", type=int, default=len(CURRICULUM), help="end after so many phases (all)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (2)")
    options = parser.parse_args(argv)
    config = NanoBaseConfig(curriculum=CURRICULUM[: options.phases], threads=options.threads)
    found = build.build_nano_base(options.out, options.work, config, texts=build.goal_texts())
    print(json.dumps({name: lesson["present"]["mean"] for name, lesson in found["lessons"].items()}))
    print(f"gate {'passed' if found['passed'] else 'NOT passed'}: {found['times_random']:.2f} times the random element")
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
