"""Strata of tasks by expected steps N: easy N <= e1, medium e1 < N <= e2, hard N > e2."""

STRATA = ("easy", "medium", "hard")
METHOD_EDGES = (10, 20)
NANO_EDGES = (2, 4)
"""The embedded worlds are short."""


def stratum(expected_steps: int, edges: tuple[int, int] = METHOD_EDGES) -> str:
    """easy, medium or hard. Raises `ValueError` for fewer than one step."""
    if expected_steps < 1:
        raise ValueError(f"task: expected at least 1 step, found {expected_steps}")
    # each edge that is passed counts one
    return STRATA[(expected_steps > edges[0]) + (expected_steps > edges[1])]
