"""The assets of a round, and the names of rounds: what the graph knows of the generation loop before anything runs."""

CATALOGUE, BANK, TRAJECTORIES, VERIFIED = (
    f"generation/{name}" for name in ("catalogue", "task_bank", "trajectories", "verified")
)


def round_name(number: int) -> str:
    """ "round_001": the partition of a round, counted from 1."""
    if number < 1:
        raise ValueError(f"round: expected a number from 1 on, found {number}")
    return f"round_{number:03d}"


def round_number(name: str) -> int:
    """The inverse of `round_name`. Raises `ValueError`."""
    word, _, digits = name.partition("_")
    # Round-tripped, so that "round_01" or "round_0001" aren't second names of the same partition.
    if word != "round" or not digits.isdigit() or round_name(int(digits)) != name:
        raise ValueError(f"round: expected a name such as round_001, found {name!r:.40}")
    return int(digits)


GOLD = "gold/generated"
"""Verified trajectories of all rounds, as gold like that of any source."""
