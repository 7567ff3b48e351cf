"""All tasks of the odd apps, by app and kind of oddness."""

from generators.proving.judge_bench.recorders.odd_tasks import INBOX, SHOP, Maker
from generators.proving.judge_bench.recorders.odd_tasks_forms import ACCOUNT, PLANNER
from generators.proving.judge_bench.recorders.odd_tasks_lists import NOTES, ORDERS

SCENARIOS: dict[str, dict[str, Maker]] = {
    "shop": SHOP,
    "inbox": INBOX,
    "account": ACCOUNT,
    "planner": PLANNER,
    "notes": NOTES,
    "orders": ORDERS,
}
"""app → kind of oddness → maker of a task."""
KINDS = tuple(sorted({kind for kinds in SCENARIOS.values() for kind in kinds}))
