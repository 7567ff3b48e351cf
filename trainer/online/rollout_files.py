"""Finished rollouts of an asynchronous run, a file each, from their end until an update that used them is saved."""

import json
from pathlib import Path

from pipelines.whole_files import whole_file
from trainer.online.rollouts import Rollout

SUFFIX = ".rollout.json"


class RolloutFiles:
    """`keep` may be called from any thread; what it has kept survives a `kill -9`. Without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def keep(self, rollout: Rollout) -> None:
        """On the disk when this returns."""
        if self._folder is None:
            return
        path = self._folder / f"{rollout.key}{SUFFIX}"
        with whole_file(path, lasting=True, alone=True) as part, part.open("w", encoding="ascii") as stream:
            json.dump(rollout.to_plain(), stream)

    def all(self) -> dict[str, Rollout]:
        """By key. A file that is no rollout raises `ValueError` naming it."""
        found = {}
        for path in sorted(self._folder.glob(f"*{SUFFIX}")) if self._folder else ():
            try:
                rollout = Rollout.from_plain(json.loads(path.read_text(encoding="ascii")))
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path.name}: expected a rollout, found {error!r:.80}; remove the file") from error
            found[rollout.key] = rollout
        return found

    def forget(self, keys: set[str]) -> None:
        """Remove those of these keys."""
        for key in keys if self._folder else ():
            assert self._folder is not None
            (self._folder / f"{key}{SUFFIX}").unlink(missing_ok=True)
