"""Evaluation on held-out samples: grounding (point in box, refusal) and navigation (step, type, format).

Every figure stands beside its controls (`trainer.evaluation.controls`) and carries a 95 % interval
(`trainer.statistics`, bootstrap over screens for grounding, over episodes for navigation). The same samples,
chosen by hash, are put to every checkpoint, so two reports compare sample by sample (`compare`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.actions import ACTION_SPACE, WIDEST, ActionSpace
from schemas.ids import digest
from trainer.data.clusters import cluster, picture_key
from trainer.evaluation.controls import BlindTable, random_element, swap_screens
from trainer.modeling.batches import BadSample, Row
from trainer.modeling.checkpoint import Checkpoint
from trainer.modeling.generation import reply_limit
from trainer.modeling.sampler import Sampler
from trainer.reading.read import answers, looking
from trainer.rl.rewards import DEFAULT, ReplyTarget, predicted, r_format, r_point, reward, step_success, type_match
from trainer.rl.unreadable import unreadable_share
from trainer.runtime.tracking import OnEvent
from trainer.settings.measuring import EvalConfig
from trainer.settings.rewards import RewardConfig
from trainer.statistics import difference, over, paired
from trainer.vllm.sampler import sampler_of

Elements = Mapping[str, Sequence[Sequence[float]]]
"""sha256 of a screenshot → boxes of its elements, 0..1000."""

MEASURES = {"grounding": ("hit", "format", "reward"), "navigation": ("step", "type", "format", "reward")}


def domain(row: Mapping[str, object]) -> str:
    """`grounding`, or `navigation/<platform>`."""
    return "grounding" if row["objective"] == "grounding" else f"navigation/{row['platform']}"


def choose(rows: Sequence[Row], config: EvalConfig) -> list[Row]:
    """The samples to evaluate: of each domain those of the smallest hash, so that a new sample moves at most one."""
    by_domain: dict[str, list[tuple[str, Row]]] = {}
    for row in rows:
        if row["objective"] in MEASURES and _checkable(row):
            # by a hash, so that a new sample moves at most one out
            by_domain.setdefault(domain(row), []).append((digest([config.seed, row["sample_id"]]), row))
    chosen: list[Row] = []
    for name, listed in sorted(by_domain.items()):
        limit = config.grounding if name == "grounding" else config.navigation
        chosen += [row for _, row in sorted(listed, key=lambda pair: pair[0])[:limit]]
    return chosen


def _checkable(row: Row) -> bool:
    try:
        ReplyTarget.of_sample(row)
    except ValueError:
        return False
    return True


def judge(row: Row, text: str, rewards: RewardConfig = DEFAULT, space: ActionSpace = ACTION_SPACE) -> dict[str, float]:
    """The measures of one reply of a model that speaks `space`, each 0 or 1 but `reward`."""
    truth = ReplyTarget.of_sample(row, space)
    common = {"format": r_format(text, truth, rewards), "reward": reward(text, truth, rewards)}
    if truth.objective == "grounding":
        return {"hit": r_point(text, truth, rewards), **common}
    found, expected = predicted(text, truth, rewards), truth.action
    if expected is None:
        raise ValueError(f"sample {row.get('sample_id')}: a navigation sample needs a true action")
    # without boxes the distance alone decides
    success = any(step_success(found, expected, box) for box in (truth.boxes or (None,)))
    return {"step": float(success), "type": float(type_match(found, expected)), **common}


def evaluate(
    checkpoint: Checkpoint,
    heldout: Sequence[Row],
    config: EvalConfig | None = None,
    *,
    blind: BlindTable | None = None,
    elements: Elements | None = None,
    on_event: OnEvent | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Greedy replies to the chosen samples → `{"summary": …, "records": [one dict per sample], "config": …}`.

    `summary[domain]` has an interval per measure, the controls, paired differences to them, `by_platform` and
    `unreadable_share`; a warning says if that is large.
    `heldout` may be all held-out samples; `choose` is applied here.
    """

    config = config or EvalConfig()
    checkpoint = looking(checkpoint, config.reading)
    most = config.max_new_tokens or checkpoint.processor.preset.max_answer_tokens
    config = config.changed(max_new_tokens=most)
    space = checkpoint.processor.preset.action_space
    rows, unreadable = _readable(checkpoint, choose(heldout, config))
    with sampler_of(checkpoint, config, lambda: [str(checkpoint.folder), config.run_part()]) as sampler:
        records = _records(sampler, rows, config, most, blind, elements, on_event, progress)
    domains = sorted({record["domain"] for record in records})
    summary = {name: summarise([r for r in records if r["domain"] == name]) for name in domains}
    every = [r for r in records if r["objective"] == "navigation"]
    if every:
        summary["navigation"] = summarise(every)
    rewards = RewardConfig(reply_profile=config.reply_profile)
    truths = [ReplyTarget.of_sample(row, space) for row in rows]
    for name, found in summary.items():
        replies = [(r["reply"], truth) for r, truth in zip(records, truths, strict=True) if _within(r, name)]
        found["unreadable_share"] = unreadable_share(replies, rewards, f"evaluation, {name}")
    return {"summary": summary, "records": records, "config": config.run_part(), "unreadable": unreadable}


def _within(record: Mapping[str, Any], name: str) -> bool:
    """Whether a record is of a domain, or of one below it."""
    return record["domain"] == name or str(record["domain"]).startswith(f"{name}/")


def _readable(checkpoint: Checkpoint, rows: Sequence[Row]) -> tuple[list[Row], int]:
    good = []
    for row in rows:
        try:
            checkpoint.processor.prompt(row)
        except BadSample:
            continue
        good.append(row)
    return good, len(rows) - len(good)


def _records(
    sampler: Sampler,
    rows: Sequence[Row],
    config: EvalConfig,
    most: int,
    blind: BlindTable | None,
    elements: Elements | None,
    on_event: OnEvent | None,
    progress: bool,
) -> list[dict[str, Any]]:
    from tqdm import tqdm

    others = swap_screens([r for r in rows if r["objective"] == "grounding"]) if config.swapped else []
    swapped = [row for row in others if row is not None]
    asked = [*rows, *swapped]
    with tqdm(total=len(asked), desc="evaluation", unit="sample", disable=not progress, mininterval=2) as bar:

        def seen(count: int) -> None:
            bar.update(count)
            if on_event:
                on_event({"kind": "evaluation", "done": bar.n, "of": len(asked)})

        replies = [""] * len(asked)
        # objective by objective, since their replies have different lengths
        for objective in MEASURES:
            places = [place for place, row in enumerate(asked) if row["objective"] == objective]
            found = answers(
                sampler,
                [asked[place] for place in places],
                max_new_tokens=reply_limit(most, objective, free_form=config.reply_profile != "vesper"),
                batch_size=config.batch_size,
                on_batch=seen,
            )
            for place, reply in zip(places, found, strict=True):
                replies[place] = reply.text
    # replies to swapped screens stand behind those to the rows
    wrong = {row["sample_id"]: reply for row, reply in zip(swapped, replies[len(rows) :], strict=True)}
    rewards, space = RewardConfig(reply_profile=config.reply_profile), sampler.processor.preset.action_space
    return [
        _record(row, reply, rewards, wrong, blind, elements, space) for row, reply in zip(rows, replies, strict=False)
    ]


def _record(
    row: Row,
    text: str,
    rewards: RewardConfig,
    wrong: Mapping[str, str],
    blind: BlindTable | None,
    elements: Elements | None,
    space: ActionSpace,
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "sample_id": row["sample_id"],
        "source": row["source"],
        "platform": row["platform"],
        "objective": row["objective"],
        "domain": domain(row),
        "cluster": cluster(row),
        "reply": text,
        "answer": row["answer"],
        **judge(row, text, rewards, space),
    }
    key = "hit" if row["objective"] == "grounding" else "step"
    if blind is not None:
        # training answers may be of a wider space than this model's
        guess = judge(row, blind.reply(row), space=WIDEST)
        record |= {"blind": guess[key]} | ({"blind_type": guess["type"]} if "type" in guess else {})
    if key == "hit":
        truth = ReplyTarget.of_sample(row)
        known = (elements or {}).get(picture_key(row), ())
        record |= {
            "refusal": float(truth.refusal),
            "random_element": random_element(truth.boxes, known),
            "elements_known": float(bool(known)),
        }
        if row["sample_id"] in wrong:
            record["swapped"] = judge(row, wrong[row["sample_id"]], rewards)["hit"]
    return record


def summarise(records: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Intervals of a set of records of one objective; see `evaluate`."""
    objective = records[0]["objective"]
    main = MEASURES[objective][0]
    found: dict[str, Any] = {name: over(records, name, "cluster") for name in MEASURES[objective]}
    controls = ("blind", "blind_type") if objective == "navigation" else ("blind", "random_element", "swapped")
    if objective == "grounding":
        # controls point, and never refuse: held against elements that are there alone
        there = [r for r in records if not r["refusal"]]
        found["present"] = over(there, "hit", "cluster")
        found["absent"] = over([r for r in records if r["refusal"]], "hit", "cluster")
        found["elements_known"] = sum(r["elements_known"] for r in records) / len(records)
        found["controls"] = {name: over(there, name, "cluster") for name in controls}
        found["minus_controls"] = {name: difference(there, main, name, "cluster") for name in controls}
        found["blind_with_absent"] = over(records, "blind", "cluster")
    else:
        found["controls"] = {name: over(records, name, "cluster") for name in controls}
        found["minus_controls"] = {
            "blind": difference(records, "step", "blind", "cluster"),
            "blind_type": difference(records, "type", "blind_type", "cluster"),
        }
    platforms = sorted({r["platform"] for r in records})
    found["by_platform"] = {p: over([r for r in records if r["platform"] == p], main, "cluster") for p in platforms}
    return found


def compare(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]], measure: str, name: str | None = None
) -> dict[str, object]:
    """Paired difference first − second of a measure over the samples that both reports hold.

    `name` limits it to a domain (`grounding`, `navigation/web`, or `navigation` for all platforms). The difference is
    outside chance if `low` > 0 or `high` < 0.
    """

    def wanted(record: Mapping[str, Any]) -> bool:
        return (name is None or _within(record, name)) and record.get(measure) is not None

    # only what both reports hold: a figure over different samples isn't paired
    other = {r["sample_id"]: r for r in second if wanted(r)}
    both = [(r, other[r["sample_id"]]) for r in first if wanted(r) and r["sample_id"] in other]
    return paired([a[measure] for a, _ in both], [b[measure] for _, b in both], [a["cluster"] for a, _ in both]).plain()
