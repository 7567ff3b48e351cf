"""Mind2Web (text release): demonstrations on real sites, as candidates of the DOM with boxes in the full page.

Licence: CC-BY-4.0 (its authors ask not to redistribute the test split in clear text).

A raw row (element of the JSON array `data/train/train_0.json`; html and most candidates left out):

    {"annotation_id": "725d96cd-...", "website": "thumbtack", "domain": "Service", "subdomain": "Home",
     "confirmed_task": "View the profile of a Wedding Photographer near 10203 ...", "action_reprs": [...],
     "actions": [{"action_uid": "c69cbea4-...", "raw_html": "...", "cleaned_html": "...",
       "operation": {"op": "CLICK", "original_op": "CLICK", "value": ""},
       "pos_candidates": [{"tag": "button", "is_original_target": true, "is_top_level_target": true, "attributes":
          "{\\"bounding_box_rect\\": \\"587,596.59375,93,54\\", ...}", "backend_node_id": "8635"}],
       "neg_candidates": [{"tag": "html", "attributes": "{\\"bounding_box_rect\\": \\"0,0,1280,7411.7\\", ...}"}]}]}

| native (`original_op`, else `op`) | unified |
|---|---|
| CLICK | `Click(centre of the target's box)` |
| TYPE | `Click`, `Type(value)` on one screen |
| SELECT | `Click`, `Type(value)`, lossy: where the option stands isn't known. Under v2 `SelectOption` |
| HOVER | `Hover(centre)` (its `op` says CLICK) |
| ENTER | `PressEnter` (its `op` says CLICK) |
| end of the list | nothing; with `synthesise_finish = True` a `Finished` by the rule `finish_synthesised` |

The frame is the *full page* of that step: the box of its html (else body) candidate. The target is the candidate with
`is_original_target`, else with `is_top_level_target`; without one the action is rejected (`no_target`).
The release has no pictures. Full-page ones may lie in `screenshots/<annotation_id>-<action_uid>.jpg|png`; one whose
sides don't have the page's ratio (a viewport crop) is refused (`image_misfit`), for its coordinates would be others.
Splits follow the path: `test_task`, `test_website`, `test_domain` → test, else train.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import fitting_screen
from pipelines.mapping.items import ItemError, list_of, notices, refusing, text_of, unknown_fields
from pipelines.native.mind2web_actions import actions_of, elements_of, is_lossy, operation_of, page_size, target_of
from pipelines.native.record_readers import count_of, field_id, json_list
from schemas.action_types import ActionSpace
from schemas.actions import Finished

_KNOWN = frozenset({"annotation_id", "website", "domain", "subdomain", "confirmed_task", "action_reprs", "actions"})
_KNOWN_ACTION = frozenset({"action_uid", "raw_html", "cleaned_html", "operation", "pos_candidates", "neg_candidates"})
_ID = re.compile(r"[\w-]{1,100}", re.ASCII)

DESCRIPTOR = Descriptor(
    id="mind2web",
    title="Mind2Web",
    licence="CC-BY-4.0",
    platforms=("web",),
    size="2,350 tasks on 137 sites; train 1,009 tasks",
    citation="Deng et al., Mind2Web: Towards a Generalist Agent for the Web, arXiv 2306.06070",
    frame="CSS pixels of the full page (mostly 1280 wide), x, y, width, height, origin top left of the page",
    record_unit="episode",
    known_problems=(
        "236 of 1,009 train episodes have a step without a positive candidate",
        "several positives per step (nested elements)",
        "no pictures; redistributed screenshots are viewport crops with other coordinates",
        "the start URL is not stored, only the site's name",
    ),
    loss=(
        Loss("CLICK", "Click", "kept", "centre of the target's box"),
        Loss("TYPE", "Click, Type", "kept", "empty text is quarantined"),
        Loss("SELECT", "Click, Type", "lossy", "the option's place is unknown; its text is typed. v2: SelectOption"),
        Loss("HOVER", "Hover", "kept", "from original_op; op says CLICK"),
        Loss("ENTER", "PressEnter", "kept", "from original_op; op says CLICK; needs no target"),
        Loss("other operations", "-", "dropped", "unknown_action:<op>, or no operation at all"),
        Loss(
            "raw_html, cleaned_html, neg_candidates",
            "screens.elements",
            "lossy",
            "boxes and names only, and only with a picture; the rest stays in the raw file",
        ),
        Loss("action_reprs", "-", "lossy", "kept in native_action: a notation, no sentence"),
    ),
    download=Download("osunlp/Mind2Web", files=("data/train/*.json",)),
)


class Mind2webAdapter(Adapter):
    """One record per episode."""

    descriptor = DESCRIPTOR
    items_at = ("actions",)
    patterns = ("**/*.json",)
    synthesise_finish: ClassVar[bool] = False
    """Whether an episode whose last action is mapped gets a `Finished`: the source says nothing of the end."""

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One episode at a time, off the stream."""
        for file in files:
            yield from json_list(
                raw, file, of_id=field_id("annotation_id"), count=count_of('"action_uid"'), unit="episode"
            )

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: missing_field, bad_value, empty_text."""
        episode = record.payload
        if not isinstance(episode, dict):
            raise RecordError("bad_value", f"expected an object, found {type(episode).__name__}")
        actions = list_of(episode, "actions")
        with refusing(len(actions)):
            name, goal = (text_of(episode, field, "?") for field in ("annotation_id", "confirmed_task"))
        site = episode.get("website")
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=name,
            instruction=goal,
            # Test files are published apart, and name themselves.
            split="test" if "test" in record.file.lower() else "train",
            app=site if isinstance(site, str) and site else None,
        )
        found = unknown_fields(episode, _KNOWN)
        reprs = episode.get("action_reprs")
        complete = False
        for place, action in enumerate(actions):
            # The representation of an action stands beside it, by its place.
            said = reprs[place] if isinstance(reprs, list) and place < len(reprs) else None
            complete = _map_action(builder, action, place, said, name, raw, self.space)
            found += unknown_fields(action, _KNOWN_ACTION) if isinstance(action, dict) else []
        # Only after a last step that was understood, and of as many as are told: else it would end something unknown.
        complete &= not isinstance(reprs, list) or len(reprs) <= len(actions)
        if self.synthesise_finish and complete:
            builder.terminal(Finished(""), None, ["finish_synthesised"])
        return notices(builder.finish(), found)


def _map_action(
    builder: EpisodeBuilder, action: Any, place: int, said: Any, episode: str, raw: Raw, space: ActionSpace
) -> bool:
    """Add or reject one action; whether it was mapped."""
    word = "other operations"
    native = (
        {"action_repr": said}
        if not isinstance(action, dict)
        else {
            "action_uid": action.get("action_uid"),
            "operation": action.get("operation"),
            "pos_candidates": action.get("pos_candidates"),
            "action_repr": said,
        }
    )
    try:
        word = operation_of(action)
        frame = page_size(action, word)
        # Enter goes to what has the focus, so it has no element.
        target = target_of(action, word) if word != "ENTER" else None
        actions, box = actions_of(word, action["operation"].get("value"), target, frame, space)
        screen = _screen(raw, action, frame, episode)
    except (ItemError, RecordError) as error:
        builder.reject(error.reason, native=native, native_index=place, word=word, detail=error.detail)
        return False
    mapped = MappedAction(
        actions, word, is_lossy(word, space), ["centre_of_target", "full_page_frame"] if box else [], box
    )
    builder.take(mapped, native, place, screen)
    return True


def _screen(raw: Raw, action: dict[str, Any], frame: tuple[float, float] | None, episode: str) -> RecordScreen | None:
    """The page, with its picture and (if there is one) its elements. Raises `RecordError("unsafe_path")`."""
    if frame is None:
        return None
    uid = action.get("action_uid")
    # Ids become part of a path.
    if not isinstance(uid, str) or not _ID.fullmatch(uid) or not _ID.fullmatch(episode):
        raise RecordError("unsafe_path", f"annotation_id, action_uid: {episode[:60]!r}, {str(uid)[:60]!r}")
    data = raw.first(f"screenshots/{episode}-{uid}.{ext}" for ext in ("jpg", "png"))
    # Pages are drawn in whole pixels.
    size = (max(1, round(frame[0])), max(1, round(frame[1])))
    return fitting_screen(data, size, elements_of(action, frame) if data is not None else ())
