"""WebDataset: tar files of `KEY.json` and `KEY.0.png`, in the order in which they are read."""

from pipelines.exports.form import ExportForm
from pipelines.exports.records import Sample
from schemas.ids import canonical_json


def _members(sample: Sample) -> dict[str, bytes]:
    said = {
        **sample.about,
        "split": sample.group.split,
        "messages": sample.turns,
        "answer": sample.answer,
        "target_boxes": sample.boxes,
    }
    members = {f"{sample.key}.json": canonical_json(said).encode()}
    return members | {f"{sample.key}.{n}.{picture.ext}": picture.data for n, picture in enumerate(sample.pictures)}


FORM = ExportForm(
    name="webdataset",
    loader="WebDataset",
    files="data/{split}-{part}.tar",
    row=_members,
    loading="import glob, webdataset\n"
    'rows = webdataset.WebDataset(sorted(glob.glob("THIS FOLDER/data/train-*.tar")), shardshuffle=False).decode("pil")',
    notes="A row has its `json`, and its pictures as `0.png`, `1.png` and so on, in the order of `image_index`.",
)
