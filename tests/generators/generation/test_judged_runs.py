"""What derivers say of scripted runs, many of which fail, against the states that the sites really were in."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.judged_sites import LEAST_TRUE, judged_sites


def test_what_is_said_of_runs_is_true_and_no_failure_teaches_an_action(tmp_path: Path) -> None:
    found = judged_sites(tmp_path, 5)
    assert 0.2 * found.runs < len(found.failed) < 0.8 * found.runs
    assert not found.made.refused and min(found.made.kinds.values()) > 20, found.made.kinds
    assert found.taught == 0
    assert all(found.right[kind] >= LEAST_TRUE * found.whole[kind] for kind in found.whole), (found.right, found.whole)
    assert found.failed & {json.loads(text)["episode"] for text in found.made.corpus["provenance"].to_pylist()}
