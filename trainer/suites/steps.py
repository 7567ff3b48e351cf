"""Steps of recorded episodes: type, grounding and step success, as AndroidControl is reported, at two levels.

At the *high* level the model gets the episode's goal, at the *low* level the instruction of the single step (for
sources that have them). The history is the recorded one. Measures, each 0 or 1 a step:

* `type`: the predicted action is of the true one's type;
* `grounding`: over steps whose true action points (click, long press, …): type right, and the point in the target's box
  or within 14 % of the screen of the true point (Euclidean, in the 0..1000 frame: OS-Atlas' protocol, used since);
* `step`: type and all arguments right by that radius; `step_strict`: by this project's own radius of 7 %.

`trace` is the share of episodes all of whose steps are right. Intervals: bootstrap over episodes. Rows are those of
`unified/<source>`, so every source with a test split can be asked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pyarrow.parquet as pq

from generators.policies.agent_prompt import AgentPrompt
from generators.policies.policy import PastTurn, PolicyView
from pipelines.derivers.base import DeriveConfig, ScreenFacts
from pipelines.derivers.navigation import DERIVER, navigation
from pipelines.prompts import messages
from pipelines.store import Store, StoreError
from pipelines.store.manifest import Manifest
from schemas.action_types import AT_A_POINT, Finished
from schemas.actions import ACTION_SPACE, WIDEST, ActionSpace, parse, parse_reply
from schemas.ids import digest
from schemas.rows import StepRow
from trainer.evaluation.controls import BlindTable
from trainer.modeling.batches import row_images
from trainer.rl.rewards import ReplyTarget, r_format, step_success, type_match
from trainer.rl.unreadable import unreadable_figures
from trainer.runtime.tracking import OnEvent
from trainer.settings.rewards import RewardConfig
from trainer.statistics import difference, interval, over
from trainer.suites.answering import Answerer, SuiteAnswer

Level = Literal["high", "low"]
RADIUS = 140.0
"""14 % of the screen, in the 0..1000 frame."""
WIDE = RewardConfig(delta1=RADIUS, delta2=RADIUS)
STRICT = RewardConfig()
MEASURES = ("type", "grounding", "step", "step_strict", "format")
_COLUMNS = [
    "source",
    "episode_id",
    "step_index",
    "split",
    "platform",
    "app",
    "instruction",
    "step_instruction",
    "screenshot_sha256",
    "width_px",
    "height_px",
    "action_text",
    "target_box",
    "thought",
    "conclusion",
    "provenance",
]


@dataclass(frozen=True, slots=True)
class StepsConfig:
    """`limit`: at most so many episodes, whole, chosen by hash; `chunk`: steps with pictures in memory at once.
    `max_new_tokens`: of a reply; `trainer.suites.run` gives what the checkpoint's preset or the endpoint has."""

    limit: int | None = None
    seed: int = 0
    split: str = "test"
    chunk: int = 128
    max_new_tokens: int = 112

    def __post_init__(self) -> None:
        if self.chunk < 1 or self.max_new_tokens < 1 or (self.limit is not None and self.limit < 1):
            raise ValueError(f"steps: expected sizes of 1 or more, found {self}")


def evaluate_steps(
    store: Store,
    source: str,
    level: Level,
    answers: Answerer,
    config: StepsConfig | None = None,
    *,
    name: str = "",
    blind: BlindTable | None = None,
    on_event: OnEvent | None = None,
    progress: bool = False,
    space: ActionSpace = ACTION_SPACE,
) -> dict[str, object]:
    """Steps of `unified/<source>` → `{"suite", "summary", "read", "records", "config"}` (see `summarise`).

    `space`: which actions the replies may be, those that the model was taught.
    Raises `ValueError` where the source isn't unified, or has no step of that split and level.
    """
    from tqdm import tqdm

    config = config or StepsConfig()
    unified = store.current(f"unified/{source}")
    if unified is None:
        raise ValueError(
            f"suite of {source}: expected unified/{source} in the store, found none; run `vesper unify "
            f"{source}` or give its native files with --raw"
        )
    read: Counter[str] = Counter()
    rows = list(step_rows(unified, level, config, read))
    if not rows:
        raise ValueError(
            f"suite of {source}: unified/{source} has no step of the split {config.split!r} that can be "
            f"asked at the {level} level: {dict(read)}"
        )
    records: list[dict[str, Any]] = []
    with tqdm(desc=name or source, total=len(rows), unit="step", disable=not progress, mininterval=2) as bar:
        for start in range(0, len(rows), config.chunk):
            chunk = _with_pictures(store, rows[start : start + config.chunk], read)
            for row, reply in zip(chunk, answers(chunk, config.max_new_tokens), strict=True):
                records.append(_record(row, reply, blind, space))
            bar.update(min(config.chunk, len(rows) - start))
            if on_event:
                on_event({"kind": "suite", "suite": name or source, "done": len(records), "of": len(rows)})
    if not records:
        raise ValueError(f"suite of {source}: no step's picture is in the store: {dict(read)}")
    return {
        "suite": name or f"{source}_{level}",
        "title": f"{source}, {level} level",
        "policy": answers.name,
        "read": {"asked": len(records), "not_asked": dict(sorted(read.items()))},
        "summary": summarise(records, space),
        "records": records,
        "config": {**asdict(config), "level": level, "source": source},
        "inputs": {unified.asset: unified.version},
    }


def step_rows(unified: Manifest, level: Level, config: StepsConfig, read: Counter[str]) -> Iterator[dict[str, object]]:
    """Steps as rows like those of the shards, pictures still named by their sha256; `read` counts what isn't asked."""
    episodes: dict[str, list[StepRow]] = defaultdict(list)
    for path in unified.paths("steps"):
        for row in pq.read_table(path, columns=_COLUMNS, filters=[("split", "==", config.split)]).to_pylist():
            episodes[row["episode_id"]].append(row)
    names = sorted(episodes, key=lambda name: digest([config.seed, name]))
    chosen = sorted(names[: config.limit])
    read["episodes_beyond_limit"] += len(names) - len(chosen)
    for episode in chosen:
        rows = sorted(episodes[episode], key=lambda row: int(row["step_index"]))
        if level == "low":
            # the deriver reads one instruction a step: the step's own takes the goal's place
            rows = [{**row, "instruction": row["step_instruction"] or ""} for row in rows]
        known = {
            row["screenshot_sha256"]: (row["width_px"] or 1, row["height_px"] or 1)
            for row in rows
            if row["screenshot_sha256"]
        }
        actions = [row["action_text"] for row in rows]
        for row in rows:
            read["no_action"] += row["action_text"] is None
            read["no_picture"] += row["action_text"] is not None and not row["screenshot_sha256"]
            read["no_instruction"] += bool(
                row["action_text"] and row["screenshot_sha256"] and not (row["instruction"] or "").strip()
            )
        for made in navigation(rows, ScreenFacts(known, {}, DeriveConfig())):
            if made.deriver != DERIVER:
                continue
            place = next(i for i, row in enumerate(rows) if row["step_index"] == made.step_index)
            yield {
                "sample_id": made.parents[0],
                "source": made.source,
                "platform": made.platform,
                "objective": "navigation",
                "messages": messages("navigation", made.text),
                "images": list(made.images),
                "answer": made.answer,
                "target_boxes": [list(box) for box in made.target_boxes],
                "goal": rows[place]["instruction"],
                "past": actions[:place],
                "past_words": [(row["thought"] or "", row["conclusion"] or "") for row in rows[:place]],
                "episode": f"{made.source}/{episode}",
                "steps": sum(action is not None and not isinstance(parse(action), Finished) for action in actions),
                "app": rows[place]["app"],
            }


def _with_pictures(store: Store, rows: Sequence[dict[str, Any]], read: Counter[str]) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        try:
            found.append({**row, "images": [store.screen_bytes(sha) for sha in row["images"]]})
        except StoreError:
            read["picture_missing"] += 1
    return found


def told_messages(row: Mapping[str, Any], *, thinking: bool = False) -> list[dict[str, object]]:
    """The messages for a model that needs the list of actions (`generators.policies.agent_prompt`); `thinking`: and to
    think first."""
    past = tuple(PastTurn(parse(action) if action else None) for action in row["past"])
    return AgentPrompt(thinking=thinking).messages(
        PolicyView(row["goal"], row_images(row)[0], (1, 1), row["platform"], past)
    )


def score(text: str, row: Mapping[str, object], space: ActionSpace = ACTION_SPACE) -> dict[str, float | None]:
    """The measures of one reply of a model that speaks `space`; `grounding` is None where the true action doesn't
    point."""
    # truth by the model's space, prediction likewise: an action it was never taught can't be asked for
    truth = ReplyTarget.of_sample(row, space)
    assert truth.action is not None
    found = parse_reply(text, space).action
    boxes: Sequence[Any] = truth.boxes or (None,)
    wide = any(step_success(found, truth.action, box, WIDE) for box in boxes)
    strict = any(step_success(found, truth.action, box, STRICT) for box in boxes)
    return {
        "type": float(type_match(found, truth.action)),
        "step": float(wide),
        "step_strict": float(strict),
        "grounding": float(wide) if isinstance(truth.action, AT_A_POINT) else None,
        "format": r_format(text, truth),
    }


def _record(row: Mapping[str, Any], reply: SuiteAnswer, blind: BlindTable | None, space: ActionSpace) -> dict[str, Any]:
    action = parse_reply(row["answer"], WIDEST).action
    record: dict[str, Any] = {
        "id": row["sample_id"],
        "episode": row["episode"],
        "steps": row["steps"],
        "platform": row["platform"],
        "app": row["app"],
        "true_type": type(action).__name__,
        "reply": reply.raw,
        **({"read_as": reply.text} if reply.profiled else {}),
        "why": reply.why,
        "answer": row["answer"],
        **(dict.fromkeys(MEASURES) if reply.why else score(reply.text, row, space)),
    }
    if blind is not None:
        guess = score(blind.reply(row), row, WIDEST)
        record |= {"blind": guess["step"], "blind_type": guess["type"]}
    return record


def summarise(records: Sequence[Mapping[str, Any]], space: ActionSpace = ACTION_SPACE) -> dict[str, object]:
    """Intervals over the steps that were answered: the measures, `step` without the closing Finished (sources differ in
    whether they have one), by true type and platform, `trace`, and the controls: the blind table's step and type, and
    always saying the commonest type."""
    answered = [record for record in records if not record["why"]]
    acting = [record for record in answered if record["true_type"] != Finished.__name__]
    types = Counter(record["true_type"] for record in answered)
    usual = min(types, key=lambda name: (-types[name], name)) if types else ""
    guessed = [{**record, "guess": float(record["true_type"] == usual)} for record in answered]
    groups = {name: sorted({str(record[name]) for record in answered}) for name in ("true_type", "platform")}
    return {
        "headline": over(answered, "step", "episode"),
        "headline_of": "step",
        **{name: over(answered, name, "episode") for name in MEASURES},
        "step_without_finished": over(acting, "step", "episode"),
        "trace": _traces(answered),
        **{
            f"by_{name}": {
                value: over([r for r in answered if str(r[name]) == value], "step", "episode") for value in values
            }
            for name, values in groups.items()
        },
        "controls": {
            "blind": over(answered, "blind", "episode"),
            "blind_type": over(answered, "blind_type", "episode"),
            "commonest_type": over(guessed, "guess", "episode"),
        },
        "minus_controls": {
            "blind": difference(answered, "step", "blind", "episode"),
            "blind_type": difference(answered, "type", "blind_type", "episode"),
        },
        **unreadable_figures(
            [(r["reply"], parse_reply(r.get("read_as", r["reply"]), space).action is None) for r in answered], "steps"
        ),
        "commonest_type": usual,
        "types": dict(sorted(types.items())),
        "episodes": len({record["episode"] for record in answered}),
        "not_answered": len(records) - len(answered),
    }


def _traces(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Episodes all of whose actions were asked (a closing Finished may lack): whether every one asked is right."""
    episodes: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        episodes[record["episode"]].append(record)
    whole = {
        name: rows
        for name, rows in episodes.items()
        # Finished isn't counted on either side, since sources differ in whether they record it
        if sum(row["true_type"] != Finished.__name__ for row in rows) == rows[0]["steps"]
    }
    return interval([float(all(r["step"] for r in rows)) for rows in whole.values()], list(whole)).plain()
