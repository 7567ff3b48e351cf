"""Parts of your own beside those that come with Vesper: by name, by import path, or by file.

Each kind of part that people add (judges, rewards, worlds, policies, proposers, derivers, assets) keeps its members in
one dict. Wherever a setting names a member, it may also say where another one stands, outside this tree:

    landing                        a member by its name
    my_team.judges:landing         attribute `landing` of a module that can be imported
    ~/judges/landing.py:landing    the same of a file
"""

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from schemas.settings import near

T = TypeVar("T")


def is_outside(name: str) -> bool:
    """Whether a name says where a part stands, rather than naming a member."""
    return ":" in name


def find_part(kind: str, name: str, members: Mapping[str, T]) -> T:
    """The member of that name, or the part that an import path or a file's path leads to.

    `kind` is what the error calls it. What a path leads to isn't checked here: the contract of its kind is the
    caller's. Raises `ValueError` for a name that no member has (with the nearest ones), a module that can't be
    imported, or an attribute that it lacks.
    """
    if not is_outside(name):
        if name in members:
            return members[name]
        expected = f"expected one of {', '.join(members)}, or module:name or path/to/file.py:name of your own"
        hint = near(name, members)
        raise ValueError(f"{kind}: {expected}, found {name[:60]!r}" + (f"; {hint}" if hint else ""))
    where, _, attribute = name.rpartition(":")
    module = _load(kind, where)
    if not hasattr(module, attribute):
        raise ValueError(f"{kind} {name!r}: expected {attribute!r} in {module.__file__}, found no such name")
    part: T = getattr(module, attribute)
    return part


def find_named_path(kind: str, name: str, paths: Mapping[str, str]) -> Any:
    """`find_part` where a member is the path to a part, so that no part is loaded before a setting names it: what the
    member's path, or the path of one's own, leads to. Raises `ValueError` as `find_part` does."""
    where = name if is_outside(name) else find_part(kind, name, paths)
    nothing: dict[str, Any] = {}
    return find_part(kind, where, nothing)


def _load(kind: str, where: str) -> ModuleType:
    """A module by its dotted name, or from a file whose path ends in .py."""
    if not where.endswith(".py"):
        try:
            return importlib.import_module(where)
        except ImportError as error:
            raise ValueError(
                f"{kind}: {where!r} can't be imported ({error}); is its folder on PYTHONPATH? A file's path works, too"
            ) from error
    path = Path(where).expanduser().resolve()
    if not path.is_file():
        raise ValueError(f"{kind}: expected a file, found none at {path}")
    # one module a file, however often it is named: its classes stay the same ones
    name = f"vesper_extension_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{kind}: expected a Python file, found {path}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]  # a file that fails is read again once it is mended
        if isinstance(error, Exception):
            raise ValueError(f"{kind}: {path} can't be loaded: {type(error).__name__}: {error}") from error
        raise
    return module
