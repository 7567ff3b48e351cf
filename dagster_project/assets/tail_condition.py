"""When the training tail starts by itself: an input's data has changed."""

import dagster as dg

from dagster_project.assets.keys import asset_key
from trainer.stages.assets import CHECKPOINTS

_CHANGED = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())
_ASKED_FOR = dg.AutomationCondition.newly_requested() | dg.AutomationCondition.initial_evaluation()
_MAY_BE_MISSING = dg.AssetSelection.groups("suites") | dg.AssetSelection.assets(
    *(asset_key(f"evaluations/{name}") for name in CHECKPOINTS)
)
TAIL = (
    _CHANGED.since(_ASKED_FOR & ~_CHANGED)
    & dg.AutomationCondition.all_deps_blocking_checks_passed().ignore(_MAY_BE_MISSING)
    & ~dg.AutomationCondition.in_progress()
).with_label("an input's data changed and its checks passed")
"""`eager()` would fire on every re-materialisation, even of the same data. Suites, and evaluations of
what stands beside the agent, may never have been run, and the standings take only what passed: nothing waits for them.

A change is settled by a request, and not by the asset's being made, as `since_last_handled()` has it: the end of a run
that read the older input would forget a change that came while it was at work. A change seen by the look right after a
request came after that look, so it stays. What a run by hand has read already costs a run that finds nothing to do. A
run that failed isn't asked for again: its request has settled the change."""
