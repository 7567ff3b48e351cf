"""uiautomator's XML, as a phone sends it, to elements on the screen."""

from collections import Counter

from generators.devices.drivers.driver_names import NAMES
from generators.tasks.world_interface import ScreenElement
from pipelines.native.android_xml import AndroidView, views
from schemas.coordinates import OffScreen, box_to_unit

ROLES: dict[str, str] = NAMES["roles"]
"""Android's classes → roles; any other class is named as it is, in lower case."""


def screen_elements_of(xml: bytes, size_px: tuple[int, int]) -> tuple[ScreenElement, ...]:
    """What a user can see or use, in document order. A bare container that reacts is named by the texts inside it only
    if it has its own. Raises `TreeError` on bytes that are no tree.

    The key is the resource id after `:id/`; the second of a name is `name#2`, as rows of a list share theirs.
    """
    seen: Counter[str] = Counter()
    elements = []
    for view in views(xml):
        box = _box(view, size_px)
        if box is None or not (view.label.strip() or view.reacts):
            continue
        kind = view.kind.rpartition(".")[2]
        key = view.resource_id.partition(":id/")[2] or view.resource_id
        seen[key] += 1
        elements.append(
            ScreenElement(
                box=box,
                role=ROLES.get(kind, kind.lower()),
                text=view.text,
                name=view.label,
                key=f"{key}#{seen[key]}" if key and seen[key] > 1 else key,
                # the first keeps its name, so that a list of one row reads as any element
                clickable=view.reacts,
            )
        )
    return tuple(elements)


def _box(view: AndroidView, size_px: tuple[int, int]) -> tuple[float, float, float, float] | None:
    """None without an area on the screen."""
    if view.bounds is None:
        return None
    try:
        left, top, right, bottom = box_to_unit(view.bounds, size_px)
    except (OffScreen, ValueError):
        return None
    return (left, top, right, bottom) if left < right and top < bottom else None
