"""`python -m trainer STAGE… --home DIR [--config JSON|@FILE]`: run stages in a process of their own, or in several:
`torchrun --nproc-per-node N -m trainer mid_trained --home DIR`, of which only the first writes the store.

Example: `python -m trainer base mid_trained --home .vesper --config '{"midtrain": {"max_steps": 100}}'`
Events go to stdout as JSON lines with `--events`, else a progress bar shows on a terminal.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from trainer.runtime.tracking import OnEvent


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 if every stage was committed with its checks passed, 1 if not, 2 on bad input."""
    from pipelines.store import StoreError
    from trainer.stages.assets import STAGES

    parser = argparse.ArgumentParser(
        prog="python -m trainer",
        description=(__doc__ or "").strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("stage", nargs="+", metavar="STAGE", help=f"one or more of {', '.join(STAGES)}")
    parser.add_argument("--home", required=True, help="the store's folder ($VESPER_HOME)")
    parser.add_argument("--config", default="{}", help="JSON, or @FILE; see docs/reference/settings.md")
    parser.add_argument("--events", action="store_true", help="print events as JSON lines")
    options = parser.parse_args(argv)
    try:
        text = Path(options.config[1:]).read_text() if options.config.startswith("@") else options.config
        config = json.loads(text)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            return _on_ranks(options, config)
        return _run(options, config, _print if options.events else None)
    except (OSError, ValueError, StoreError) as error:
        print(f"trainer: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, config: dict[str, Any], on_event: OnEvent | None) -> int:
    from trainer.stages.run import run_stage

    passed = True
    for stage in options.stage:
        manifest = run_stage(stage, options.home, config, on_event, progress=not options.events and sys.stderr.isatty())
        passed &= manifest.checks_passed
        if not options.events:
            print(f"{manifest.asset} {manifest.version} {_line(manifest)}")
    return 0 if passed else 1


def _on_ranks(options: argparse.Namespace, config: dict[str, Any]) -> int:
    """Under torchrun: the first rank runs the stages, the others train along."""
    from trainer.runtime.parallel import launched
    from trainer.stages.launch import dismiss, follow, lead

    with launched() as group:
        if not group.first:
            follow(group, options.home, config)
            return 0
        code = _run(options, config, lead(group, _print if options.events else None))
        dismiss(group)
        return code


def _print(event: dict[str, Any]) -> None:
    plain = {key: value for key, value in event.items() if not isinstance(value, bytes)}  # pictures
    print(json.dumps(plain, default=str), flush=True)


def _line(manifest: Any) -> str:
    failed = [check.name for check in manifest.checks if not check.passed]
    figures = ", ".join(f"{k} {v:.3g}" for k, v in manifest.counts.items() if isinstance(v, int | float))
    return f"{'checks passed' if not failed else 'FAILED: ' + ', '.join(failed)}; {figures}"


if __name__ == "__main__":
    sys.exit(main())
