"""LLaMA-Factory: sharegpt JSON lines with roles and contents, `<image>` in the texts, and its `dataset_info.json`."""

import json
from collections.abc import Mapping

from pipelines.exports.form import ExportForm, Rows
from pipelines.exports.records import Sample, marked_turns

INFO = "dataset_info.json"
_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}


def _line(sample: Sample) -> dict[str, object]:
    turns = marked_turns(sample.turns)
    return {"messages": turns, "images": [picture.path for picture in sample.pictures], **sample.about}


def _info(rows: Rows) -> Mapping[str, str]:
    """An entry a split, `vesper_train` and so on."""
    entries = {
        f"vesper_{split}": {
            "file_name": f"data/{split}",
            "formatting": "sharegpt",
            "columns": {"messages": "messages", "images": "images"},
            "tags": _TAGS,
        }
        for split in rows
    }
    return {INFO: json.dumps(entries, indent=2) + "\n"}


FORM = ExportForm(
    name="llama-factory",
    loader="LLaMA-Factory",
    files="data/{split}/{part}.jsonl",
    row=_line,
    loading="llamafactory-cli train CONFIG.yaml dataset_dir='THIS FOLDER' media_dir='THIS FOLDER' dataset=vesper_train",
    language="bash",
    loose_pictures=True,
    beside=_info,
    version="2",
)
