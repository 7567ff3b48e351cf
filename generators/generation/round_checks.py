"""What is checked of a round of the generation loop: declared apart from what makes it, for the graph to read."""

from __future__ import annotations

from generators.tasks.task_pool import HAS_TASKS
from pipelines.store.manifest import CheckSpec

HAS_FUNCTIONS = CheckSpec("there are functions", "The catalogue knows nothing that a target can do")
COVERAGE_HELD = CheckSpec("coverage doesn't fall", "This round knows less than the last, though it learns from it")
NO_TWO_ALIKE = CheckSpec("no two tasks of the bank are alike", "A task is as similar to another as the limit")
STRATA_FILLED = CheckSpec("every stratum has its share", "Too few easy, medium or hard tasks found", blocking=False)
ALL_EXECUTED = CheckSpec("every task was executed", "There are tasks without a trajectory")
INFRASTRUCTURE_HELD = CheckSpec("infrastructure held", "Over half of the trajectories lost to devices or servers")
EACH_ONCE = CheckSpec("every trajectory once", "A trajectory occurs twice")
FEW_UNTRUE = CheckSpec("the world's truth contradicts few", "Too many of the verified are untrue", blocking=False)
CATALOGUE_CHECKS = (HAS_FUNCTIONS, COVERAGE_HELD)
BANK_CHECKS = (NO_TWO_ALIKE, HAS_TASKS, STRATA_FILLED)
TRAJECTORY_CHECKS = (ALL_EXECUTED, INFRASTRUCTURE_HELD)
VERIFIED_CHECKS = (EACH_ONCE, FEW_UNTRUE)
