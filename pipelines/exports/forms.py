"""The forms in which the corpus is exported, by name."""

from pipelines.exports import hub, llama_factory, ms_swift, trl, verl, webdataset
from pipelines.exports.form import ExportForm
from pipelines.exports.records import Sample

CORPUS: dict[str, ExportForm[Sample]] = {
    "trl": trl.FORM,
    "ms-swift": ms_swift.FORM,
    "llama-factory": llama_factory.FORM,
    "verl": verl.FORM,
    "webdataset": webdataset.FORM,
    "hub": hub.FORM,
}
