"""A checkpoint that a command is given: a folder, or the name of an asset of the store."""

import argparse
import re
from pathlib import Path
from typing import get_args

from generators.policies.profiles.profile import OWN, profiles
from pipelines.home import default_home
from pipelines.store import Store, StoreError, has_store
from pipelines.store.choose_version import asset_folder
from trainer.settings.reading import Mode

TEXT = (
    "a checkpoint folder, or its asset in the store: unified, checkpoints/unified@1f2e, production (an alias of the "
    "unified agent), offline_web@candidate"
)
MODES: tuple[Mode, ...] = get_args(Mode)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """The option that makes a checkpoint look at screens otherwise than it was trained to."""
    parser.add_argument(
        "--reading",
        choices=MODES,
        help="how screens are looked at: whole; windows, at scale 1, of which the surest answers; zoom, the part "
        "around a first answer once more (as the checkpoint was trained)",
    )


def add_profile(parser: argparse.ArgumentParser) -> None:
    """The option that asks a model as its authors do."""
    parser.add_argument(
        "--profile",
        default=OWN,
        metavar="NAME",
        help=f"ask and read as the authors of a published model do: {', '.join(profiles())}, or path/to/your.toml "
        f"({OWN}: our own prompts)",
    )


_IN_STORE = re.compile(r"/assets/(?:experiments/([a-z0-9_]+)/)?checkpoints/([a-z0-9_]+)/[0-9a-f]{16}(?:/[^/]+)?$")
_NAME = re.compile(r"(?:(?:experiments/[a-z0-9_]+/)?checkpoints/)?[a-z0-9_]+(?:@[A-Za-z0-9_-]+)?")


def checkpoint(said: str) -> Path:
    """The folder that a text means, for argparse: that folder if there is one, else that of the asset of this name in
    $VESPER_HOME, with all of its files. A text that can't name an asset is a folder that isn't there yet. Raises
    `argparse.ArgumentTypeError` if the store has no such checkpoint."""
    path, home = Path(said), default_home()
    if path.exists() or not _NAME.fullmatch(said) or not has_store(home):
        return path
    try:
        folder = asset_folder(Store(home), said)
    except StoreError as error:
        raise argparse.ArgumentTypeError(
            f"expected a folder or a checkpoint of {home}, found neither a folder {said!r} nor an asset: {error}"
        ) from None
    return next((found.parent for found in folder.glob("*/config.json")), folder)


def name_of(folder: Path) -> str:
    """What a checkpoint is called: in a store by its asset, elsewhere by its folder."""
    found = _IN_STORE.search(folder.resolve().as_posix())
    return "_".join(filter(None, found.groups())) if found else folder.resolve().name
