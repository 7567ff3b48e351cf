"""One file per dataset; the registry finds them by scanning this folder (and folders named in `VESPER_SOURCES`)."""

import copy
import functools
import importlib
import importlib.util
import os
import pkgutil
import sys
from pathlib import Path

from pipelines.mapping.adapter import Adapter
from schemas.action_types import ACTION_SPACE, ActionSpace
from schemas.settings import nearest


@functools.cache
def registry() -> dict[str, Adapter]:
    """All adapters by id, sorted.

    A file defines exactly one `Adapter` whose descriptor's id equals the file's name; anything else raises
    `ValueError`. `VESPER_SOURCES` names further folders, separated as in PATH.
    """
    found: dict[str, Adapter] = {}
    for module_info in pkgutil.iter_modules(__path__):
        _register(found, importlib.import_module(f"{__name__}.{module_info.name}"), module_info.name)
    for folder in filter(None, os.environ.get("VESPER_SOURCES", "").split(os.pathsep)):
        for path in sorted(Path(folder).glob("*.py")):
            spec = importlib.util.spec_from_file_location(f"vesper_sources_{path.stem}", path)
            if spec is None or spec.loader is None:
                raise ValueError(f"{path}: not a Python module")
            module = importlib.util.module_from_spec(spec)
            # Registered before it runs, as dataclasses look their module up by name.
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            _register(found, module, path.stem)
    return dict(sorted(found.items()))


def _register(found: dict[str, Adapter], module: object, stem: str) -> None:
    classes = [
        value
        for value in vars(module).values()
        # Imported helpers are classes of the module's namespace, too; only its own count.
        if isinstance(value, type) and issubclass(value, Adapter) and value.__module__ == module.__name__  # type: ignore[attr-defined]
    ]
    concrete = [cls for cls in classes if not getattr(cls, "__abstractmethods__", None)]
    if len(concrete) != 1:
        raise ValueError(f"source {stem}: expected one Adapter in the file, found {len(concrete)}")
    adapter = concrete[0]()
    if adapter.descriptor.id != stem:
        raise ValueError(
            f"source {stem}: the descriptor's id is {adapter.descriptor.id!r}; it must equal the file name"
        )
    # An own adapter may not stand in for a shipped one: rows of both would mix under one id.
    if stem in found:
        raise ValueError(f"source {stem}: defined twice")
    found[stem] = adapter


def get(source: str, space: ActionSpace = ACTION_SPACE) -> Adapter:
    """An adapter by id, which maps to an action space. Raises `ValueError` that lists the known ones."""
    adapters = registry()
    if source not in adapters:
        raise ValueError(f"unknown source {source[:60]!r}; {nearest(source, adapters)}")
    found = adapters[source]
    if space != found.space:
        # The registry's own stays as it is for others.
        found = copy.copy(found)
        found.space = space
    return found
