"""The judge bench's truth: what was planted where, its right band, and how the label was confirmed.

A bench is a folder as `vesper unify` writes it (`steps*.parquet`, `samples*.parquet`, `screens*.parquet`, `screens/`)
with a `truth.parquet` beside it; judges are given everything but that file. Items are the bench's units: a `step:…`, a
`sample:…` or an `episode:…`. A defect of a whole trace (a skipped step, another task) labels its episode alone, a
defect of one step labels that step alone; nothing is said about the other items of a damaged episode.
"""

import pyarrow as pa

from schemas.tables import Column, Table

LABELS = ("clean", "hard", "planted", "natural")
"""clean: sound. hard: sound but looks odd (a wait, a repeated +1). planted: a defect put in. natural: a failure of a
policy, labelled by the world's state. `clean` and `hard` are the negatives, the others the positives."""
BANDS = ("keep", "rewrite", "reconstruct", "discard")
STEP_DEFECTS = ("off_by_one", "shifted_box", "flipped_scroll", "wrong_element", "wrong_text", "contradictory_thought")
SCREEN_DEFECTS = ("shifted_box", "shifted_screen")
"""Defects of native grounding samples: one box, or all boxes of a screenshot."""
EPISODE_DEFECTS = (
    "skipped_step",
    "shuffled_steps",
    "noop_loop",
    "premature_finish",
    "finish_without_goal",
    "other_task",
    "near_miss",
)
DEFECTS = tuple(dict.fromkeys((*STEP_DEFECTS, *SCREEN_DEFECTS, *EPISODE_DEFECTS)))
INTENT = frozenset(("near_miss", "contradictory_thought"))
"""Defects that only a reader of intent can see; reported without a target."""
_BANDS = {
    "rewrite": "near_miss other_task",
    "reconstruct": "shifted_box shifted_screen off_by_one premature_finish skipped_step finish_without_goal "
    "flipped_scroll noop_loop",
    "discard": "wrong_element wrong_text shuffled_steps contradictory_thought",
}
BAND_OF = {kind: band for band, kinds in _BANDS.items() for kind in kinds.split()}
"""Where an item with this defect belongs; `clean` and `hard` belong to keep, `natural` to reconstruct."""


class Truth(Table, version=1):
    """One labelled item. An item that isn't here has no label and is left out of every figure."""

    item_id = Column(pa.string(), "the item")
    label = Column(pa.string(), "one of LABELS")
    kind = Column(pa.string(), "the defect, the kind of hard negative, or of natural error; empty for clean")
    band = Column(pa.string(), "one of BANDS")
    magnitude = Column(pa.float32(), "of a shift: in sizes of the element; of others as the operator says", null=True)
    family = Column(pa.string(), "page family, e.g. miniwob/<task> or own/<task family>")
    world = Column(pa.string(), "own, odd, miniwob or web_pages")
    held_out = Column(pa.bool_(), "whether its family, operator or magnitude is one that training never sees")
    held_out_by = Column(pa.string(), "family, operator, magnitude, or empty (seen)")
    confirmed_by = Column(pa.string(), "replay, hit_test, pixels, state, or exact (text differs by construction)")
    original = Column(pa.string(), "what stood there before, for measuring repairs; JSON")
