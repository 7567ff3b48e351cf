"""VeriGUI: tasks on the open web that people split into chains of sub-tasks; what they did isn't published with them.

A raw element of `data/version-0716.json` (made up, shortened):

    {"folder": "V1_12", "instruct": "Compare the five largest …", "result": ["…"], "sub_tasks": [
      {"instruct": "Find the five largest …", "result": ["…"], "original_instruct": "…", "flag_instruct": true,
       "flag_result": false}], "stats": {"total_actions": 91, "action_counts": {"scroll": 35}}}

| native | unified |
|---|---|
| task | "…Which steps lead there?" → the numbered sub-tasks, if there are two and all have words (uncounted) |
| sub-task | "Goal … Done … Which subgoal is next?" → its instruction, as `planning` asks (lossy: no results) |
| row of `veriGUI.json` (`global`, `causal`) | quarantined, `no_counterpart`: the same tasks with answers off the web |

Nothing is said of a screen, so samples have no picture. No action is made up of `stats`; events of recordings come by
`recordings`.
"""

from functools import partial

from pipelines.derivers.planning import LEAST, next_subgoal_text, numbered
from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, notices, refusing, text_of, unknown_fields
from pipelines.native.record_readers import count_of, field_id, json_list
from pipelines.prompts import plan_text

WORD = "sub-task"
_TASK = frozenset({"folder", "instruct", "result", "sub_tasks", "stats"})
_SUBTASK = frozenset({"instruct", "result", "flag_instruct", "flag_result", "original_instruct"})

DESCRIPTOR = Descriptor(
    id="verigui",
    title="VeriGUI",
    licence="Apache-2.0",
    platforms=("web",),
    objectives=("vqa",),
    size="130 tasks of 597 sub-tasks",
    citation="VeriGUI: Verifiable Long-Chain GUI Dataset, arXiv 2508.04026",
    frame="none: tasks without actions",
    record_unit="task",
    item_unit="sub-task",
    known_problems=(
        "answers age: they are facts of 2023 and 2024",
        "sub-tasks name what the ones before them found",
        "the form of the recorded events isn't confirmed: they aren't read",
    ),
    loss=(
        Loss(WORD, "vqa: the next subgoal", "lossy", "its results aren't said: they stand on pages that nobody stored"),
        Loss("question", "-", "dropped", "no_counterpart: rows of veriGUI.json repeat the tasks, with answers alone"),
    ),
    download=Download("2077AIDataFoundation/VeriGUI", files=("*.json",)),
)


class VeriguiAdapter(Adapter):
    """One record per task."""

    descriptor = DESCRIPTOR
    items_at = ("sub_tasks",)
    patterns = ("**/*.json",)
    reader = partial(json_list, of_id=field_id("folder"), count=count_of('"original_instruct"'))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One task → the plan, and a sample a sub-task. Raises `RecordError`: missing_field."""
        row, items = record.payload, self.count_items(record)
        builder = SampleBuilder(self.descriptor, record, record_id=record.native_id or record.locator)
        if isinstance(row, dict) and "type" in row and "answer" in row:
            builder.reject(
                "no_counterpart", native=row, native_index=0, word="question", detail="an answer off the web"
            )
            return builder.finish()
        listed = row.get("sub_tasks") if isinstance(row, dict) else None
        if not isinstance(listed, list) or record.native_id is None:
            raise RecordError("missing_field", "expected folder, instruct and a list of sub_tasks", items)
        with refusing(items):
            goal = text_of(row, "instruct", WORD).strip()
        screen, done = RecordScreen.load(None, normalised=True), list[str]()
        found = unknown_fields(row, _TASK)
        for place, task in enumerate(listed):
            try:
                words = text_of(task, "instruct", WORD).strip().lstrip(".").strip()
            except ItemError as error:
                builder.reject(error.reason, native=task, native_index=place, word=WORD, detail=error.detail)
                continue
            # After one that can't be read, what was done before isn't known.
            known = len(done) == place
            done.append(words)
            found += unknown_fields(task, _SUBTASK)
            builder.sample(
                "vqa",
                next_subgoal_text(goal, done[:-1]),
                words,
                screen,
                place,
                WORD,
                lossy=True,
                rules=[] if known else ["subtasks_missing"],
            )
        if LEAST <= len(done) == len(listed):
            builder.sample("vqa", plan_text(goal), numbered(done), screen, 0, WORD, k=1, count=False)
        return notices(builder.finish(), found)
