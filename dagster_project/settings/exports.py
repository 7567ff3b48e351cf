"""What `exports` of a deployment says of one asset: what is exported, in which form, and how much of it."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, model_validator

from pipelines.exports.filters import Filters
from schemas.settings import setting


def _word(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", text):
        raise ValueError(f"expected a-z, 0-9, _ and -, found {text[:80]!r}")
    return text


class ExportSettings(Filters):
    """An export as an asset; what it takes, as `vesper export --help` says. A name alone is a form of the corpus."""

    kind: Literal["corpus", "pool", "checkpoint"] = setting("corpus", "What is exported.")
    form: str = setting(
        ..., "trl, ms-swift, llama-factory, verl, webdataset or hub; of a pool trl, verl or hub; of a checkpoint hub."
    )
    checkpoint: str = setting("unified", "Which checkpoint it is, where one is exported.")
    name: Annotated[str, AfterValidator(_word)] | None = setting(
        None, "Its asset is exports/<name>; null: the form, pool_<form>, or checkpoint_<which>."
    )

    @model_validator(mode="before")
    @classmethod
    def _alone(cls, said: object) -> object:
        return {"form": said} if isinstance(said, str) else said

    @property
    def asset_name(self) -> str:
        """What stands behind `exports/`."""
        usual = {"pool": f"pool_{self.form}", "checkpoint": f"checkpoint_{self.checkpoint}"}
        return self.name or usual.get(self.kind, self.form)

    @property
    def filters(self) -> Filters:
        """What it takes, without the rest."""
        return Filters(**{name: value for name, value in self.given().items() if name in Filters.model_fields})
