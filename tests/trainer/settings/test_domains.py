"""The table of domains is the one place that knows them: stages, settings and teachers follow, and rows go to one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from schemas.tables import PLATFORMS
from trainer.settings.distill import Teachers
from trainer.settings.domains import DOMAINS, USUAL, carries, platforms_of
from trainer.settings.stages import ONLINE, SPECIALISTS, STAGES

ROOT = Path(__file__).parents[3]


def test_every_platform_trains_one_specialist_of_steps_whichever_domains_are_trained() -> None:
    for trained in (USUAL, tuple(DOMAINS)):
        steps = [name for name in trained if DOMAINS[name].objective == "navigation"]
        taken = [platform for name in steps for platform in platforms_of(name, trained)]
        assert sorted(taken) == sorted(PLATFORMS), trained
    assert platforms_of("web") == ("web", "desktop") and platforms_of("web", DOMAINS) == ("web",)
    assert platforms_of("computer") == platforms_of("computer", DOMAINS) == ("desktop",)
    assert [name for name in DOMAINS if carries(name)] == ["web"]
    with pytest.raises(ValueError, match="expected a domain of grounding, mobile, web, computer, found 'desktop'"):
        platforms_of("desktop")


def test_a_domain_has_its_stages_and_its_teacher() -> None:
    assert tuple(one.offline for one in DOMAINS.values()) == SPECIALISTS
    assert tuple(one.last for one in DOMAINS.values() if one.acts) == ONLINE
    assert {stage.domain for stage in STAGES.values()} == {"", *DOMAINS}
    assert all(STAGES[one.last].start in (one.offline, "mid_trained") for one in DOMAINS.values())
    assert set(Teachers.model_fields) == set(DOMAINS)
    assert Teachers().of_domains == {name: DOMAINS[name].last for name in USUAL}


def test_the_names_of_their_stages_stand_in_three_files_of_ours_at_most() -> None:
    names = re.compile(rf"\b(?:offline|online)_(?:{'|'.join(DOMAINS)})\b")
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    ours = [ROOT / name for name in listed.stdout.split() if not name.startswith("tests/")]
    holding = sorted(str(path.relative_to(ROOT)) for path in ours if names.search(path.read_text(encoding="utf-8")))
    assert len(holding) <= 3, holding
