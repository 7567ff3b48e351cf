"""What a stage of the trainer is: a checkpoint made from named inputs, as plain data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipelines.store.manifest import CheckSpec
from schemas.settings import Settings


@dataclass(frozen=True)
class TrainerStage:
    """`make` is the function `(context, folder) -> StageResult` (`trainer.stages.context`), or where one stands as
    module:function, so that the graph is read without torch. The asset is `checkpoints/<name>`."""

    name: str
    title: str
    """In tables, such as the demo's report."""
    description: str
    """What people read on the asset."""
    make: str | Callable[[Any, Any], Any]
    start: str = ""
    """The stage whose checkpoint it starts from; "": from none."""
    reads: tuple[str, ...] = ()
    """Assets that it reads besides."""
    settings: tuple[str, ...] = ()
    """Settings of the first level that it depends on: they enter the version of what it makes."""
    own_settings: type[Settings] | None = None
    """Settings of this stage alone, which stand under its name in the trainer's; it depends on them, too."""
    section: str = ""
    """The settings that specialists share (`offline` or `online`), in which its own stand under its name and win."""
    domain: str = ""
    """What a specialist is of, a name of `trainer.settings.domains.DOMAINS`; "" for what is none."""
    merges: bool = False
    """Whether it reads the specialists that `merge.specialists` names."""
    distils: bool = False
    """Whether it reads the teachers that `distilled.teachers` names."""
    shared: bool = False
    """Whether all ranks do its training under torchrun."""
    needs: tuple[str, ...] = ()
    """What has to be here beside a trainer before it starts (`dagster_project.preflight`)."""
    checks: tuple[CheckSpec, ...] = ()
    """What `make` checks, each a check in the UI; none declared: one check stands for them all."""
    compared: tuple[str, ...] | None = None
    """Stages whose figures the report sets beside its own, paired; None: the one that it starts from."""

    @property
    def beside(self) -> tuple[str, ...]:
        """The stages that it is compared with."""
        # None and empty differ: compared with nothing, or with where it starts.
        if self.compared is not None:
            return self.compared
        return (self.start,) if self.start else ()
