"""Two processes under torchrun (gloo, a thread each)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def torchrun(*arguments: str | Path, paths: tuple[Path, ...] = ()) -> str:
    """What two ranks print who run a script, or a module with "-m"; `paths` are where else they import from."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
         "--rdzv-endpoint", "127.0.0.1:0", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *paths))), "OMP_NUM_THREADS": "1"}, cwd=ROOT,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def on_two_ranks(test_file: str, folder: Path, *arguments: Path) -> Path:
    """Each rank calls the test file's `on_a_rank(folder, *arguments)`; → the folder."""
    there, script = Path(test_file), folder / "script.py"
    script.write_text(f"import sys\nfrom pathlib import Path\nfrom {there.stem} import on_a_rank\n"
                      "on_a_rank(*map(Path, sys.argv[1:]))\n")  # fmt: skip
    torchrun(script, folder, *arguments, paths=(ROOT / "tests/support", there.parent))
    return folder
