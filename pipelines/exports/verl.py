"""verl: rows of its `RLHFDataset`, for offline RL on samples whose answers a rule can reward, and beside them a reward
and a run for its launcher."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipelines.exports.form import IMAGES, ExportForm, Rows, datasets_schema, images
from pipelines.exports.recipes import recipe
from pipelines.exports.records import Picture, Sample, marked_turns
from pipelines.training_data.chat_turns import Turn
from schemas.ids import canonical_json


def schema(extra: Sequence[tuple[str, pa.DataType]]) -> pa.Schema:
    """The columns that verl names, with the fields of `extra_info`."""
    return datasets_schema(
        [
            ("data_source", pa.string()),
            ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
            ("images", IMAGES),
            ("ability", pa.string()),
            ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
            ("extra_info", pa.struct([*extra])),
        ]
    )


def row(
    source: str,
    turns: Sequence[Turn],
    pictures: Sequence[Picture],
    ability: str,
    truth: str,
    extra: Mapping[str, object],
) -> dict[str, object]:
    """A row of `schema`: `turns` without an answer, `truth` what the reward's rule is given."""
    return {
        "data_source": f"vesper/{source}",
        "prompt": marked_turns(turns),
        "images": images(pictures),
        "ability": ability,
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": dict(extra),
    }


SCHEMA = schema(
    [
        ("index", pa.int64()),
        ("split", pa.string()),
        ("sample_id", pa.string()),
        ("platform", pa.string()),
        ("licence", pa.string()),
        ("target_boxes", pa.string()),
    ]
)

TRAIN = (
    "python -m verl.trainer.main_ppo \\\n"
    "  data.train_files=\"[$(ls 'THIS FOLDER'/data/train-*.parquet | paste -sd, -)]\""
)
"""The line that trains on all of an export's files, for cards."""


def _row(sample: Sample) -> dict[str, object]:
    extra = {**sample.about, "index": sample.index, "split": sample.group.split}
    extra["target_boxes"] = canonical_json(sample.boxes)
    ability = f"gui/{sample.group.objective}"
    return row(sample.group.source, sample.turns[:-1], sample.pictures, ability, sample.answer, extra)


def _run(_: Rows) -> Mapping[str, str]:
    return {"reward.py": recipe("verl_reward.py"), "run.sh": recipe("verl_corpus.sh")}


FORM = ExportForm(
    name="verl",
    loader="verl (`RLHFDataset`)",
    files="data/{split}-{part}.parquet",
    row=_row,
    schema=SCHEMA,
    loading=f"{TRAIN} \\\n  data.image_key=images data.prompt_key=prompt data.return_raw_chat=True",
    language="bash",
    notes="`reward_model.ground_truth` is the answer as it trains; `extra_info.target_boxes` are the boxes that a "
    "point may lie in, as JSON, left, top, right, bottom in 0..1000. `MODEL=… bash run.sh` is a whole run, whose "
    "rewards are those of `reward.py`: Vesper's own.",
    objectives=("grounding", "navigation"),
    beside=_run,
    version="2",
)
