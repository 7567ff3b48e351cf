"""raw → unified: a source's files through its adapter, part by part."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.unify.unify import unify_source

__all__ = ["unify_source"]


def __getattr__(name: str) -> object:
    if name == "unify_source":  # with all sources, which most of this package does without
        from pipelines.unify.unify import unify_source

        return unify_source
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
