"""The judge of docs/write-a-judge.md, as it stands there: registered, the contract of all judges runs over it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REGISTER = """
import importlib.util
import sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("quality.judges.landing", Path(__file__).parent / "landing.py")
module = importlib.util.module_from_spec(spec)
sys.modules["quality.judges.landing"] = module
spec.loader.exec_module(module)
from quality.judges import registry
from quality.judges.registry import Judge, JudgeConfig

{entry}
registry.JUDGES["landing"] = _landing
registry.OFFLINE = registry.OFFLINE | {{"landing"}}
"""


def test_the_page_s_judge_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs/write-a-judge.md").read_text(encoding="utf-8")
    judge, entry = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "landing.py").write_text(judge, encoding="utf-8")
    (tmp_path / "register_landing.py").write_text(REGISTER.format(entry=entry), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for name in [word for word in environment if word.startswith("PYTEST_")]:  # a run of its own, not a worker's
        del environment[name]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "register_landing", "-p", "no:cacheprovider", "-p", "no:xdist",
         "-k", "landing", "tests/quality/judges/test_judge_contract.py"],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-2000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed and int(passed[1]) >= 7, ran.stdout  # every law that holds for judges that ask nobody
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), str(tmp_path / "landing.py")],
        capture_output=True, text=True,
    )
    assert checked.returncode == 0, checked.stdout
