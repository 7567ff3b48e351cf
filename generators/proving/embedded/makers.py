"""What renders the embedded data of each source, damages it at known rates and writes it in its native form."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from generators.proving.embedded import defects
from generators.proving.embedded.defects import DefectRates, PlantedDefect
from generators.proving.embedded.sizes import CODE_VERSION, COUNTS, Size
from generators.worlds.pages.own_pages import open_pages
from generators.worlds.pages.recording import OracleTally, RecordedEpisode, RecordingPlan, record, with_splits

# Families by source: what its action words can say. AITW and AITZ have no waiting, AndroidControl no enter key.
_FAMILIES = json.loads(Path(__file__).with_name("families.json").read_text("utf-8"))
PHONE, WEB = tuple(_FAMILIES["phone"]), tuple(_FAMILIES["web"])


@dataclass(frozen=True)
class RawConfig:
    """Everything that decides the bytes of a source's embedded data."""

    source: str
    size: Size
    seed: int
    rates: DefectRates
    code_version: str = CODE_VERSION


@dataclass(frozen=True)
class WrittenSource:
    """What a maker wrote: the truth about its defects, and figures for the manifest."""

    truths: Sequence[PlantedDefect]
    counts: dict[str, Any]


# --- recorded episodes ------------------------------------------------------------------------------------------------
def _episodes(
    source: str,
    platform: str,
    families: tuple[str, ...],
    config: RawConfig,
    first_seed: int,
    keep: Callable[[RecordedEpisode], RecordedEpisode | None],
    uid: Callable[[int], str],
    by_name: bool = False,
    **planting: Any,
) -> tuple[list[RecordedEpisode], WrittenSource]:
    """Record, name, split and damage the episodes of a navigation source."""
    count, tally = COUNTS[config.size][source], OracleTally()
    chosen: list[RecordedEpisode] = []
    # Ten thousand apart: two seeds' recordings never meet.
    seed = first_seed + config.seed * 10_000
    with open_pages(platform) as world:
        # Recordings that a source can't write are skipped, so seeds and not indices are counted.
        while len(chosen) < count:
            for episode in record(world, RecordingPlan(platform, families, 1, seed, by_name=by_name), tally):
                seed = episode.seed + 1
                usable = keep(episode)
                if usable is not None:
                    chosen.append(replace(usable, uid=uid(usable.seed)))
    sound = with_splits(chosen)
    damaged, truths = defects.plant(sound, config.rates, config.seed, uid_of=uid, **planting)
    steps = sum(len(e.steps) for e in damaged)
    counts = {
        "episodes": len(damaged),
        "steps": steps,
        "oracle_runs": tally.tried,
        "oracle_success": round(tally.success_rate, 4),
        "defects": len(truths),
    }
    return damaged, WrittenSource(truths, counts)


def _aitw(root: Path, config: RawConfig) -> WrittenSource:
    from generators.proving.embedded.native import aitw

    episodes, made = _episodes("aitw", "phone", PHONE, config, 1_000_000, aitw.without_waits, aitw.uid)
    aitw.write(root, episodes)
    return made


def _android_control(root: Path, config: RawConfig) -> WrittenSource:
    from generators.proving.embedded.native import android_control as native

    def keep(episode: RecordedEpisode) -> RecordedEpisode | None:
        return episode if native.without_enter(episode) else None

    episodes, made = _episodes(
        "android_control", "phone", PHONE, config, 2_000_000, keep, native.uid, by_name=True, done_is_item=False
    )
    native.write(root, episodes)
    return made


def _aitz(root: Path, config: RawConfig) -> WrittenSource:
    from generators.proving.embedded.native import aitw, aitz

    episodes, made = _episodes("aitz", "phone", PHONE, config, 3_000_000, aitw.without_waits, aitz.uid)
    aitz.write(root, episodes)
    return made


def _mind2web(root: Path, config: RawConfig) -> WrittenSource:
    from generators.proving.embedded.native import mind2web

    def keep(episode: RecordedEpisode) -> RecordedEpisode | None:
        steps = tuple(step for step in episode.steps if step.act.kind != "wait")  # Mind2Web has no waiting
        return replace(episode, steps=steps) if len(steps) >= 3 else None

    kinds = tuple(k for k in defects.LOW_ITEM if k != "flipped_scroll")
    episodes, made = _episodes(
        "mind2web", "web", WEB, config, 5_000_000, keep, mind2web.uid, kinds=kinds, done_is_item=False
    )
    mind2web.write(root, episodes)
    return made


def _agentnet(root: Path, config: RawConfig) -> WrittenSource:
    from generators.proving.embedded.native import agentnet

    episodes, made = _episodes("agentnet", "desktop", PHONE, config, 6_000_000, lambda e: e, agentnet.uid)
    agentnet.write(root, episodes)
    return made


def _miniwob(root: Path, config: RawConfig) -> WrittenSource:
    from generators.proving.embedded.native import miniwob_demos as native

    demos, failed = native.record(COUNTS[config.size]["miniwob_demos"])
    damaged, truths = native.plant(demos, config.rates, config.seed)
    native.write(root, damaged)
    runs = len(demos) + failed
    states = sum(len(d.data["states"]) for d in damaged)
    return WrittenSource(
        truths,
        {
            "episodes": len(demos),
            "states": states,
            "oracle_runs": runs,
            "oracle_success": round(len(demos) / runs, 4),
            "defects": len(truths),
        },
    )


# --- still screens ----------------------------------------------------------------------------------------------------
def _omniact(root: Path, config: RawConfig) -> WrittenSource:
    from generators.proving.embedded.native import omniact

    count = COUNTS[config.size]["omniact"]
    # Three rows a screen, and two screens to spare for those without a usable element.
    screens = omniact.render_all(-(-count // 3) + 2)
    rows, truths = omniact.plant(omniact.rows(screens, count, Random(config.seed)), config.rates, config.seed)
    omniact.write(root, rows)
    return WrittenSource(truths, {"rows": len(rows), "screens": len(screens), "defects": len(truths)})


def _rico(root: Path, config: RawConfig) -> WrittenSource:
    from generators.proving.embedded import screens
    from generators.proving.embedded.native import rico

    shown = screens.render_all(COUNTS[config.size]["rico"], pictures=True)
    rico.write(root, shown)
    return WrittenSource([], {"screens": len(shown)})


def _still(config: RawConfig) -> Any:
    """Rico's screens again, by the same numbers, without pictures."""
    from generators.proving.embedded import screens

    return screens.render_all(COUNTS[config.size]["rico"], pictures=False)


def _ui_refexp(root: Path, config: RawConfig) -> WrittenSource:
    from generators.proving.embedded.native import ui_refexp as native

    found = native.rows(_still(config), COUNTS[config.size]["ui_refexp"], Random(config.seed))
    rows, truths = native.plant(found, config.rates, config.seed)
    native.write(root, rows)
    return WrittenSource(truths, {"rows": len(rows), "defects": len(truths)})


def _screen_annotation(root: Path, config: RawConfig) -> WrittenSource:
    from generators.proving.embedded.native import screen_annotation as native

    found, truths = native.plant([native.annotate(s) for s in _still(config)], config.rates, config.seed)
    native.write(root, found)
    parts = sum(len(a.parts) for a in found)
    return WrittenSource(truths, {"rows": len(found), "elements": parts, "defects": len(truths)})


def _screenqa(root: Path, config: RawConfig) -> WrittenSource:
    from generators.proving.embedded.native import screenqa as native

    found = native.rows(_still(config), COUNTS[config.size]["screenqa"], Random(config.seed))
    rows, truths = native.plant(found, config.rates, config.seed)
    native.write(root, rows)
    return WrittenSource(truths, {"rows": len(rows), "defects": len(truths)})


MAKERS: dict[str, Callable[[Path, RawConfig], WrittenSource]] = {
    "aitw": _aitw,
    "android_control": _android_control,
    "aitz": _aitz,
    "mind2web": _mind2web,
    "agentnet": _agentnet,
    "miniwob_demos": _miniwob,
    "omniact": _omniact,
    "rico": _rico,
    "ui_refexp": _ui_refexp,
    "screen_annotation": _screen_annotation,
    "screenqa": _screenqa,
}
