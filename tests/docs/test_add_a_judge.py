"""The judge of docs/add-a-judge.md, as it stands there: found by its path, the contract of all judges runs over it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REGISTER = """
from pathlib import Path

from pipelines.extensions import find_part
from quality.judges import registry
from quality.judges.registry import JudgeConfig, asks_a_model, build_judge

PATH = f"{Path(__file__).parent / 'landing.py'}:landing"
assert build_judge(JudgeConfig(PATH)).name == "landing"
assert not asks_a_model(JudgeConfig(PATH))
registry.JUDGES["landing"] = find_part("judge", PATH, registry.JUDGES)
registry.OFFLINE = registry.OFFLINE | {"landing"}
"""


def test_the_page_s_judge_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs/add-a-judge.md").read_text(encoding="utf-8")
    (judge,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "landing.py").write_text(judge, encoding="utf-8")
    (tmp_path / "register_landing.py").write_text(REGISTER, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for name in [word for word in environment if word.startswith("PYTEST_")]:  # a run of its own, not a worker's
        del environment[name]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "register_landing",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-k",
            "landing",
            "tests/quality/judges/test_judge_contract.py",
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-2000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed and int(passed[1]) >= 7, ran.stdout  # every law that holds for judges that ask nobody
