"""`feedback/verified`: the rounds that later rounds learn from, as a frozen manifest and never as an edge."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from generators.generation.round_names import BANK, CATALOGUE, VERIFIED, round_name, round_number
from pipelines.store import Store
from pipelines.store.files import StoreError
from pipelines.store.frozen import freeze, read_frozen
from pipelines.store.manifest import Manifest
from schemas.ids import digest

FEEDBACK = "feedback/verified"


def promoted(store: Store) -> dict[str, Any]:
    """The promoted manifest: {"digest", "rounds": {round: version of generation/verified}}; empty before the first."""
    return read_frozen(store.home, FEEDBACK) or {"digest": "", "rounds": {}}


def promote(store: Store) -> dict[str, object]:
    # two rounds of equal data are one promotion
    """Make every round whose verdicts passed their checks known to later rounds; returns the manifest. Promoting the
    same rounds again writes nothing."""
    rounds = verified_rounds(store)
    data = {name: manifest.data_version for name, manifest in rounds.items()}
    versions = {name: found.version for name, found in rounds.items()}
    return freeze(store.home, FEEDBACK, {"digest": _digest(data), "rounds": versions, "data": data})


def verified_mark(store: Store) -> str:
    """Digest that `promote` would promote; "" while no round is verified."""
    rounds = verified_rounds(store)
    return _digest({name: manifest.data_version for name, manifest in rounds.items()}) if rounds else ""


def _digest(data: dict[str, str]) -> str:
    return digest(data)[:16]


def rounds_of(store: Store, asset: str) -> list[str]:
    """Rounds of an asset that have a folder, in order."""
    return sorted(path.name for path in store.root(asset).glob("round_*") if path.is_dir())


def rounds_to_make(store: Store) -> Iterator[int]:
    """Numbers of rounds without verdicts, in order and without end, each looked up when it is needed. A round that
    was killed, or whose blocking checks failed, is among them: what it has made already is there, and its tasks are
    what later rounds are held against."""
    return (number for number in count(1) if store.current(f"{VERIFIED}/{round_name(number)}") is None)


def verified_rounds(store: Store) -> dict[str, Manifest]:
    """Every round whose verdicts passed their checks, by name."""
    return {name: found for name in rounds_of(store, VERIFIED) if (found := store.current(f"{VERIFIED}/{name}"))}


def require_verified(store: Store, asset: str) -> dict[str, Manifest]:
    """The same for an asset made of them. Raises `StoreError` naming it if there is none."""
    rounds = verified_rounds(store)
    if not rounds:
        raise StoreError(f"{asset}: no round has been verified yet; run `vesper generate` or the job generate_round")
    return rounds


def known_before(store: Store, number: int, *, feedback: bool = True) -> dict[str, Manifest]:
    """Rounds that a round learns from, by name: the `generation/verified` of those before it, in the version promoted
    when it began. A round whose tasks are made keeps them: others may have been promoted since, and none of it is to be
    executed again for that. `feedback` False: its catalogue learned from none, and so recorded none; these are those
    promoted now."""
    name = round_name(number)
    # begun: its tasks are made, so what it knew then is what it knows
    begun = store.current(f"{CATALOGUE}/{name}") if store.current(f"{BANK}/{name}") is not None else None
    if begun is not None and feedback:
        versions = {asset.rpartition("/")[2]: version for asset, version in begun.inputs.items()}
    else:
        versions = {name: version for name, version in promoted(store)["rounds"].items() if round_number(name) < number}
    return {name: store.version(f"{VERIFIED}/{name}", version) for name, version in sorted(versions.items())}
