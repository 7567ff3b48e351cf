"""Unified steps and screens → supervised samples of the four objectives.

A pure function on tables: the same rows, licence and config give the same samples in the same order. Which
candidates are taken is decided by a hash of (sample id, seed), so new screens don't reshuffle old choices.
A deriver is one entry in `DERIVERS`; one that stands outside this tree is named in the config.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import pyarrow as pa

from pipelines.derivers import base, grounding, navigation, page, perception, transitions, vqa
from pipelines.extensions import find_part
from pipelines.prompts import PROMPT_VERSION, messages
from pipelines.prompts.tokens import prompt_tokens
from schemas.ids import canonical_json, item_step
from schemas.rows import ElementRow, SampleRow
from schemas.tables import Samples, Screens, Steps

DERIVE_VERSION = 3
"""Version of the whole set of derivers: part of the code version of the stage that calls it."""

Deriver = base.StepDeriver | base.ScreenDeriver

DERIVERS: dict[str, Deriver] = {
    "navigation": base.StepDeriver(navigation.navigation),
    "grounding_step": base.StepDeriver(grounding.from_steps),
    "inverse_dynamics": base.StepDeriver(transitions.inverse_dynamics),
    "plan": base.StepDeriver(transitions.plan),
    "app": base.StepDeriver(page.app),
    "grounding": base.ScreenDeriver(grounding.from_elements),
    "perception": base.ScreenDeriver(lambda screen, _pool, config: perception.perception(screen, config)),
    "regions": base.ScreenDeriver(lambda screen, _pool, config: page.regions(screen, config)),
    "vqa": base.ScreenDeriver(vqa.vqa),
}
OPTIONAL: dict[str, Deriver] = {
    "page_function": base.ScreenDeriver(lambda screen, _pool, config: page.page_function(screen, config))
}
"""Those that run only where a setting names them."""

_STRICTNESS = {"train": 0, "validation": 1, "test": 2}


def derive_samples(
    steps: pa.Table,
    screens: pa.Table,
    *,
    licence: str,
    synthetic: bool = False,
    samples: pa.Table | None = None,
    config: base.DeriveConfig | None = None,
) -> pa.Table:
    """Steps and screens of one source or part (and its native samples, if any) → a `Samples` table.

    `samples` is read for one thing: which split and platform a screen belongs to when no step shows it. A screen
    that neither steps nor samples mention is skipped, since nobody can say whether it may train; one that is shown
    in several splits takes the strictest (test before validation before train), so a test picture never trains.
    Pass only rows that survived judging: nothing is derived from what isn't here.

    Rows are ordered by (objective, sample_id). Raises `ValueError` if a table isn't of its schema, an action text isn't
    canonical, or the config names no deriver.
    """
    Steps.check(steps)
    Screens.check(screens)
    config = config or base.DeriveConfig()
    keyed = _candidates(steps, screens, samples, config)
    return Samples.table(sample_row(c, identifier, licence, synthetic, config) for _, identifier, c in keyed)


def _candidates(
    steps: pa.Table, screens: pa.Table, samples: pa.Table | None, config: base.DeriveConfig
) -> list[tuple[str, str, base.DerivedSample]]:
    """(objective, sample id, sample), in order. What they were derived from takes much memory and is left here."""
    # In a fixed order, so that samples don't depend on how parts were cut.
    steps = steps.sort_by([("source", "ascending"), ("episode_id", "ascending"), ("step_index", "ascending")])
    rows = steps.drop_columns(["native_action", "language", "episode_outcome"]).to_pylist()
    views = list(_views(screens, rows, samples))
    # Names of all screens of the source, of which those that are absent here make refusals.
    pool = base.NamePool()
    for view in views:
        for element in view.uniquely_named(config):
            pool.add(element.name)
    facts = screen_facts(rows, screens, config)
    episodes = [list(group) for _, group in groupby(rows, key=lambda row: (row["source"], row["episode_id"]))]
    found: list[base.DerivedSample] = []
    for deriver in [*DERIVERS.values(), *map(find_deriver, config.derivers)]:
        if isinstance(deriver, base.StepDeriver):
            found += (sample for episode in episodes for sample in deriver.derive(episode, facts))
        else:
            found += (sample for view in views for sample in deriver.derive(view, pool, config))
    # The sample itself is never compared: ids differ.
    return sorted(((c.objective, c.id, c) for c in found), key=lambda item: item[:2])


def find_deriver(name: str) -> Deriver:
    """A deriver by its name, or by an import path or file. Raises `ValueError` for what isn't one."""
    found: object = find_part("deriver", name, {**DERIVERS, **OPTIONAL})
    if not isinstance(found, base.StepDeriver | base.ScreenDeriver):
        kind = type(found).__name__
        raise ValueError(f"deriver {name!r}: expected a StepDeriver or a ScreenDeriver, found a {kind}")
    return found


def sample_row(
    candidate: base.DerivedSample,
    identifier: str,
    licence: str,
    synthetic: bool,
    config: base.DeriveConfig,
    more: Mapping[str, object] | None = None,
) -> SampleRow:
    """A row of `Samples` of a candidate; `more` is said of it in its provenance, too."""
    provenance = {
        "deriver": candidate.deriver,
        "version": candidate.version,
        "k": candidate.k,
        # The other objectives' prompts have the same words in every version.
        "prompt": config.history.prompt if candidate.objective == "navigation" else PROMPT_VERSION,
        "seed": config.seed,
        "episode": candidate.episode_id,
        "step": candidate.step_index,
        "rules": list(candidate.rules),
        **(more or {}),
    }
    chat = messages(candidate.objective, candidate.text, images=len(candidate.images))
    return {
        "sample_id": identifier,
        "source": candidate.source,
        "split": candidate.split,
        "platform": candidate.platform,
        "objective": candidate.objective,
        "images": list(candidate.images),
        "messages": chat,
        "answer": candidate.answer,
        "target_boxes": [list(box) for box in candidate.target_boxes],
        "tokens": prompt_tokens(candidate.text, candidate.answer, candidate.sizes_px),
        "licence": licence,
        "parents": list(candidate.parents),
        "synthetic": synthetic,
        "provenance": canonical_json(provenance),
    }


def screen_facts(rows: base.Episode, screens: pa.Table, config: base.DeriveConfig) -> base.ScreenFacts:
    """What derivers of steps know of the pictures of a `Screens` table, and of those that only rows name."""
    return base.ScreenFacts(_sizes(rows, screens), _phashes(screens), config)


def _sizes(rows: base.Episode, screens: pa.Table) -> dict[str, tuple[int, int]]:
    """sha256 → pixels of the picture; a step's own frame stands in where its picture has no screens row."""
    sizes: dict[str, tuple[int, int]] = {
        row["screenshot_sha256"]: (row["width_px"], row["height_px"])
        for row in rows
        if row["screenshot_sha256"] and row["width_px"] and row["height_px"]
    }
    columns = (screens.column(name).to_pylist() for name in ("screenshot_sha256", "width_px", "height_px"))
    # The picture's own size wins over the frame that a step states.
    sizes.update({sha: (width, height) for sha, width, height in zip(*columns, strict=True)})
    return sizes


def _phashes(screens: pa.Table) -> dict[str, int]:
    columns = (screens.column(name).to_pylist() for name in ("screenshot_sha256", "phash"))
    return dict(zip(*columns, strict=True))


def _views(screens: pa.Table, rows: base.Episode, samples: pa.Table | None) -> Iterator[base.ScreenView]:
    """Screens with at least one usable element, once per picture, in order of sha256."""
    seen: dict[str, tuple[str, str, str, tuple[str, int]]] = {}  # sha256 → (split, platform, parent, key)

    def show(sha: str, split: str, platform: str, parent: str, key: tuple[str, int]) -> None:
        before = seen.get(sha)
        if before is None:
            seen[sha] = (split, platform, parent, key)
        elif _STRICTNESS[split] > _STRICTNESS[before[0]]:
            # Only the split: the picture stays that of its first step.
            seen[sha] = (split, *before[1:])

    # Steps before samples: a screen that a step shows is named by the step.
    for row in rows:
        if row["screenshot_sha256"]:
            step = item_step(row["source"], row["episode_id"], row["step_index"])
            show(row["screenshot_sha256"], row["split"], row["platform"], step, (row["episode_id"], row["step_index"]))
    if samples is not None:
        ordered = samples.select(["sample_id", "images", "split", "platform"]).sort_by("sample_id").to_pylist()
        for row in ordered:
            for sha in row["images"]:
                native = row["sample_id"]
                show(
                    sha,
                    row["split"],
                    row["platform"],
                    f"sample:{native}",
                    (f"sample/{native}", row["images"].index(sha)),
                )
    done: set[str] = set()
    for screen in screens.sort_by([("screenshot_sha256", "ascending"), ("source", "ascending")]).to_pylist():
        sha = screen["screenshot_sha256"]
        # Shown nowhere: nobody knows its split.
        if sha not in seen or sha in done:
            continue
        done.add(sha)
        split, platform, parent, key = seen[sha]
        elements = tuple(usable_elements(screen["elements"]))
        if elements:
            yield base.ScreenView(
                sha,
                screen["width_px"],
                screen["height_px"],
                screen["source"],
                split,
                platform,
                key,
                (parent,),
                elements,
            )


def usable_elements(listed: Sequence[ElementRow]) -> Iterator[base.IndexedElement]:
    """The elements of a row of `screens` that have a box with an inside, as derivers see them."""
    for index, element in enumerate(listed):
        box = element["box"]
        # What has no inside can't be pointed at.
        if box is None or not (box[0] < box[2] and box[1] < box[3]):
            continue
        name, text = base.squash(element["name"]), base.squash(element["text"])
        yield base.IndexedElement(
            index,
            (box[0], box[1], box[2], box[3]),
            base.role_word(element["role"]),
            name or text,
            text or name,
            bool(text),
        )
