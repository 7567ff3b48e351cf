"""The environment of the peers that training is held against: TRL, mergekit, accelerate, LitData, MosaicML streaming.

    python bench/peers_env.py FOLDER [--exports]

makes it in FOLDER (some GB), where nothing of ours is installed; the peers are never dependencies. Everything that both
environments have comes in our versions (constraints.txt), so that a comparison is of the code and not of two torches.
The benches use the interpreter that $VESPER_PEERS_PYTHON names, or make an environment in the temporary folder.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "constraints.txt"
VARIABLE = "VESPER_PEERS_PYTHON"
PEERS = ("trl==1.16.0", "mergekit==0.1.5", "accelerate==1.15.0")
WITHOUT_PINS = ("litdata==0.2.76", "mosaicml-streaming==0.13.0")
"""Their pins contradict ours (numpy < 2.2, transformers < 5) for parts that aren't used; they get what they import."""
EXPORTS, THEIR_IMPORTS = ROOT / "bench" / "peers_exports.txt", ROOT / "bench" / "peers_imports.txt"
"""What reads exports, and what the peers import: files as pip takes them."""


def make(folder: Path, exports: bool = False) -> Path:
    """A whole environment in `folder`, made once → its interpreter. An unfinished one is completed. `exports`: with the
    peers that read exports, too."""
    python = folder / "bin" / "python"
    done = folder / "ready"
    wanted = " ".join((*PEERS, *WITHOUT_PINS, EXPORTS.read_text() if exports else ""))
    if done.is_file() and done.read_text() == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pins = folder / "pins.txt"  # without hashes: the peers have none there
    pins.write_text("".join(f"{pin}\n" for pin in re.findall(r"^[\w.-]+==[^\\\n]+", LOCK.read_text(), re.MULTILINE)))
    same = ["--constraint", str(pins)]
    subprocess.run(
        [*install, *same, *PEERS, "-r", str(THEIR_IMPORTS), "torch", "pillow"], check=True, stdout=sys.stderr
    )
    alone = (*WITHOUT_PINS, *(("-r", str(EXPORTS)) if exports else ()))
    subprocess.run([*install, "--no-deps", *alone], check=True, stdout=sys.stderr)
    done.write_text(wanted)
    return python


def python() -> Path:
    """The interpreter that $VESPER_PEERS_PYTHON names, or that of an environment in the temporary folder.

    Raises `FileNotFoundError` where the variable names none.
    """
    given = os.environ.get(VARIABLE)
    if given is None:
        return make(Path(tempfile.gettempdir()) / "vesper-bench-peers")
    if not Path(given).is_file():
        raise FileNotFoundError(
            f"${VARIABLE}: expected an interpreter, found none at {given}; python bench/peers_env.py FOLDER makes it"
        )
    return Path(given)


def run(script: Path, *arguments: str | Path, threads: int = 1) -> str:
    """Run a script with the peers' interpreter, offline, → what it printed. Raises `CalledProcessError`."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    quiet = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRL_EXPERIMENTAL_SILENCE": "1"}
    command = [str(python()), str(script), *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **limits, **quiet}, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def main() -> int:
    """Make the environment that the command line names."""
    words = argparse.ArgumentParser(
        description="An environment with the peers of bench/.", epilog="example: python bench/peers_env.py /tmp/peers"
    )
    words.add_argument("folder", type=Path, help="where it goes; made anew or completed")
    words.add_argument("--exports", action="store_true", help="with LLaMA-Factory, ms-swift, verl and WebDataset")
    options = words.parse_args()
    print(f"export {VARIABLE}={make(options.folder, options.exports)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
