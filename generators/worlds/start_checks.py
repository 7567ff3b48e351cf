"""Checking a start: what `World.reset` is given, a task's `initial_state`."""

from collections.abc import Collection, Mapping

from generators.tasks.world_interface import WorldError


def check_start(
    start: Mapping[str, object], world: str, needed: Collection[str], optional: Collection[str] = ()
) -> None:
    """Raises `WorldError` for a start of another world (its entry "world", where it has one), one without an entry it
    needs, and one with an entry that there isn't."""
    # Without the entry it is accepted: worlds opened by hand are reset by hand.
    if start.get("world", world) != world:
        raise WorldError(f"{world}: reset: expected a start of this world, found one of {start['world']!r:.60}")
    if missing := sorted(set(needed) - set(start)):
        raise WorldError(f"{world}: reset: expected a start with {', '.join(needed)}; it lacks {', '.join(missing)}")
    if unknown := sorted(set(start) - {"world", *needed, *optional}):
        known = ", ".join((*needed, *optional))
        raise WorldError(f"{world}: reset: unknown entries {unknown!r:.120} in the start; known are {known}")
