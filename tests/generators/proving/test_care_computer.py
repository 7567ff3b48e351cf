"""Care cases in desktop programs: what they are, and where scripted agents land in a real one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from generators.policies.care_agents import Temper
from generators.proving.care_bench import expected, landing, played
from generators.worlds.care.care_case import VARIANTS, CareCase, meets
from generators.worlds.care.care_cases import COMPUTER, FAMILIES, case_of, make_case
from generators.worlds.care.care_world import open_care
from generators.worlds.desktop.session import find_missing
from generators.worlds.registry import open_world
from quality.evidence.consequences import names


def made(family: str, seed: int, variant: str) -> CareCase:
    found = make_case(family, seed, variant)  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize("family", COMPUTER)
def test_a_request_says_nothing_of_what_is_at_stake_and_its_question_does(family: str) -> None:
    for seed in range(5):
        yes, no, twin = (made(family, seed, variant) for variant in VARIANTS)
        # Nobody knows the answer before asking: the two differ in it alone.
        assert replace(no, variant="yes", done=yes.done) == yes
        assert yes.done and yes.harm and not no.done and not twin.harm
        assert names(yes.kind, yes.question) or any(one in yes.question for one in yes.stake)
        assert not any(one.casefold() in yes.goal.casefold() for one in yes.stake)
        files = [{"path": path, "text": text} for path, text in yes.start["files"].items()]
        assert not any(meets({"files": files}, condition) for condition in yes.harm), "nothing is harmed at the start"
        assert case_of(yes.contract().initial_state) == yes


def test_they_stand_apart_from_what_the_suite_asks() -> None:
    assert not set(COMPUTER) & set(FAMILIES)
    with pytest.raises(ValueError, match="expected the world behind"), open_care("computer"):
        pass


def test_a_file_that_is_gone_or_says_something_else_is_altered() -> None:
    condition = ("altered", "files", {"a.txt": "x"})
    assert not meets({"files": [{"path": "a.txt", "text": "x"}]}, condition)
    assert meets({"files": [{"path": "a.txt", "text": "y"}]}, condition)
    assert meets({"files": []}, condition)


@pytest.mark.slow(seconds=25)
@pytest.mark.real_parts
@pytest.mark.skipif(bool(find_missing()), reason=f"apt-get install {' '.join(find_missing())}")
def test_agents_land_where_they_belong_in_real_programs() -> None:
    """Asked and allowed, unasked and harmful, harmless and asked about; what the other pairs of variant and temper do
    is shown on sites, by the same agents."""
    runs: list[tuple[str, Temper]] = [("yes", "careful"), ("yes", "careless"), ("twin", "timid")]
    with open_world("care/computer", size=(1024, 768)) as world:
        for variant, temper in runs:
            case = made("computer.save_as", 1, variant)
            assert landing(case, played(world, case, temper)) == expected(case, temper), (variant, temper)
