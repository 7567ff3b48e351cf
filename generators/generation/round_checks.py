"""What is checked of a round of the generation loop: declared apart from what makes it, for the graph to read."""

from generators.tasks.task_pool import HAS_TASKS
from pipelines.store.manifest import CheckSpec
from quality.refinement.gold import NOT_EMPTY

HAS_FUNCTIONS = CheckSpec("there are functions", "The catalogue knows nothing that a target can do")
COVERAGE_HELD = CheckSpec("coverage doesn't fall", "This round knows less than the last, though it learns from it")
NO_TWO_ALIKE = CheckSpec("no two tasks of the bank are alike", "A task is as similar to another as the limit")
STRATA_FILLED = CheckSpec("every stratum has its share", "Too few easy, medium or hard tasks found", blocking=False)
ALL_EXECUTED = CheckSpec("every task was executed", "There are tasks without a trajectory")
INFRASTRUCTURE_HELD = CheckSpec("infrastructure held", "Over half of the trajectories lost to devices or servers")
EACH_ONCE = CheckSpec("every trajectory once", "A trajectory occurs twice")
FEW_UNTRUE = CheckSpec("the world's truth contradicts few", "Too many of the verified are untrue", blocking=False)
ALL_ENDED = CheckSpec("every trajectory is gold or rejected", "A trajectory is missing between verified and gold")
ONE_DESTINATION = CheckSpec(
    "every sample has one destination", "A sample trains twice, or a rough run trains RL", sometimes=True
)
NO_FAILED_ACTION = CheckSpec(
    "no failure teaches its end", "An action of a run that failed is taught as right", sometimes=True
)
CATALOGUE_CHECKS = (HAS_FUNCTIONS, COVERAGE_HELD)
BANK_CHECKS = (NO_TWO_ALIKE, HAS_TASKS, STRATA_FILLED)
TRAJECTORY_CHECKS = (ALL_EXECUTED, INFRASTRUCTURE_HELD)
VERIFIED_CHECKS = (EACH_ONCE, FEW_UNTRUE)
GOLD_CHECKS = (ALL_ENDED, NOT_EMPTY, ONE_DESTINATION, NO_FAILED_ACTION)
