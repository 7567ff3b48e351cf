"""`build_raw`: the embedded data of one source, rendered, damaged at known rates, written in its native form.

A source's bytes are a function of (size, seed, code version, the machine's Chromium and fonts). The folder is built
beside its place and moved there whole; a receipt with every file's sha256 makes a second call do nothing.

The receipt also tells the generator's files from those of others, which are never deleted. So it names every file that
stands in the folder, whatever ends the process: the old folder is moved away first, then the receipt is put, then the
new folder.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Literal

from generators.proving.embedded import defects
from generators.proving.embedded.defects import DefectRates, Truth
from generators.worlds.pages.recording import Episode, Plan, Tally, record, with_splits
from pipelines.raw.rawdata import register_raw
from pipelines.store import Store, put_text
from pipelines.store.files import file_sha256
from pipelines.store.manifest import Manifest
from pipelines.whole_files import PREFIX
from schemas.ids import digest

Size = Literal["tiny", "demo"]
CODE_VERSION = "2"
COUNTS: dict[str, dict[str, int]] = {
    "demo": {
        "aitw": 48,
        "android_control": 48,
        "aitz": 32,
        "mind2web": 32,
        "agentnet": 32,
        "omniact": 130,
        "miniwob_demos": 48,
        "rico": 210,
        "ui_refexp": 400,
        "screen_annotation": 210,
        "screenqa": 320,
    },
    "tiny": {
        "aitw": 4,
        "android_control": 4,
        "aitz": 3,
        "mind2web": 4,
        "agentnet": 4,
        "omniact": 12,
        "miniwob_demos": 6,
        "rico": 12,
        "ui_refexp": 24,
        "screen_annotation": 12,
        "screenqa": 20,
    },
}
SOURCES = tuple(sorted(COUNTS["demo"]))
# Families by source: what its action words can say. AITW and AITZ have no waiting, AndroidControl no enter key.
PHONE = (
    "mail.star",
    "todo.add",
    "settings.two",
    "shop.add",
    "contacts.call",
    "mail.delete",
    "news.two",
    "settings.slider",
    "shop.search",
    "todo.tick",
    "mail.search",
    "contacts.favourite",
    "settings.choice",
    "shop.count",
    "mail.reply",
    "todo.delete",
    "settings.switch",
    "shop.compare",
    "profile.fill",
    "news.save",
    "mail.archive",
    "todo.filter",
    "shop.checkout",
)
WEB = (
    "profile.fill",
    "shop.add",
    "mail.search",
    "profile.fill",
    "shop.search",
    "todo.add",
    "mail.reply",
    "shop.checkout",
    "news.two",
    "profile.fill",
    "shop.compare",
    "settings.choice",
    "todo.tick",
)


@dataclass(frozen=True)
class RawConfig:
    """Everything that decides the bytes of a source's embedded data."""

    source: str
    size: Size
    seed: int
    rates: DefectRates
    code_version: str = CODE_VERSION


@dataclass(frozen=True)
class Made:
    """What a maker wrote: the truth about its defects, and figures for the manifest."""

    truths: Sequence[Truth]
    counts: dict[str, Any]


# --- recorded episodes ------------------------------------------------------------------------------------------------
def _episodes(
    source: str,
    platform: str,
    families: tuple[str, ...],
    config: RawConfig,
    first_seed: int,
    keep: Callable[[Episode], Episode | None],
    uid: Callable[[int], str],
    by_name: bool = False,
    **planting: Any,
) -> tuple[list[Episode], Made]:
    """Record, name, split and damage the episodes of a navigation source."""
    from generators.worlds.pages import open_pages

    count, tally = COUNTS[config.size][source], Tally()
    chosen: list[Episode] = []
    seed = first_seed + config.seed * 10_000
    with open_pages(platform) as world:
        while len(chosen) < count:
            for episode in record(world, Plan(platform, families, 1, seed, by_name=by_name), tally):
                seed = episode.seed + 1
                kept = keep(episode)
                if kept is not None:
                    chosen.append(replace(kept, uid=uid(kept.seed)))
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
    return damaged, Made(truths, counts)


def _aitw(root: Path, config: RawConfig) -> Made:
    from generators.proving.embedded.native import aitw

    episodes, made = _episodes("aitw", "phone", PHONE, config, 1_000_000, aitw.without_waits, aitw.uid)
    aitw.write(root, episodes)
    return made


def _android_control(root: Path, config: RawConfig) -> Made:
    from generators.proving.embedded.native import android_control as native

    def keep(episode: Episode) -> Episode | None:
        return episode if native.without_enter(episode) else None

    episodes, made = _episodes(
        "android_control", "phone", PHONE, config, 2_000_000, keep, native.uid, by_name=True, done_is_item=False
    )
    native.write(root, episodes)
    return made


def _aitz(root: Path, config: RawConfig) -> Made:
    from generators.proving.embedded.native import aitw, aitz

    episodes, made = _episodes("aitz", "phone", PHONE, config, 3_000_000, aitw.without_waits, aitz.uid)
    aitz.write(root, episodes)
    return made


def _mind2web(root: Path, config: RawConfig) -> Made:
    from generators.proving.embedded.native import mind2web

    def keep(episode: Episode) -> Episode | None:
        steps = tuple(step for step in episode.steps if step.act.kind != "wait")  # Mind2Web has no waiting
        return replace(episode, steps=steps) if len(steps) >= 3 else None

    kinds = tuple(k for k in defects.LOW_ITEM if k != "flipped_scroll")
    episodes, made = _episodes(
        "mind2web", "web", WEB, config, 5_000_000, keep, mind2web.uid, kinds=kinds, done_is_item=False
    )
    mind2web.write(root, episodes)
    return made


def _agentnet(root: Path, config: RawConfig) -> Made:
    from generators.proving.embedded.native import agentnet

    episodes, made = _episodes("agentnet", "desktop", PHONE, config, 6_000_000, lambda e: e, agentnet.uid)
    agentnet.write(root, episodes)
    return made


def _miniwob(root: Path, config: RawConfig) -> Made:
    from generators.proving.embedded.native import miniwob_demos as native

    demos, failed = native.record(COUNTS[config.size]["miniwob_demos"])
    damaged, truths = native.plant(demos, config.rates, config.seed)
    native.write(root, damaged)
    runs = len(demos) + failed
    states = sum(len(d.data["states"]) for d in damaged)
    return Made(
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
def _omniact(root: Path, config: RawConfig) -> Made:
    from generators.proving.embedded.native import omniact

    count = COUNTS[config.size]["omniact"]
    screens = omniact.render_all(-(-count // 3) + 2)
    rows, truths = omniact.plant(omniact.rows(screens, count, Random(config.seed)), config.rates, config.seed)
    omniact.write(root, rows)
    return Made(truths, {"rows": len(rows), "screens": len(screens), "defects": len(truths)})


def _rico(root: Path, config: RawConfig) -> Made:
    from generators.proving.embedded import screens
    from generators.proving.embedded.native import rico

    shown = screens.render_all(COUNTS[config.size]["rico"], pictures=True)
    rico.write(root, shown)
    return Made([], {"screens": len(shown)})


def _still(config: RawConfig) -> Any:
    """Rico's screens again, by the same numbers, without pictures."""
    from generators.proving.embedded import screens

    return screens.render_all(COUNTS[config.size]["rico"], pictures=False)


def _ui_refexp(root: Path, config: RawConfig) -> Made:
    from generators.proving.embedded.native import ui_refexp as native

    found = native.rows(_still(config), COUNTS[config.size]["ui_refexp"], Random(config.seed))
    rows, truths = native.plant(found, config.rates, config.seed)
    native.write(root, rows)
    return Made(truths, {"rows": len(rows), "defects": len(truths)})


def _screen_annotation(root: Path, config: RawConfig) -> Made:
    from generators.proving.embedded.native import screen_annotation as native

    found, truths = native.plant([native.annotate(s) for s in _still(config)], config.rates, config.seed)
    native.write(root, found)
    parts = sum(len(a.parts) for a in found)
    return Made(truths, {"rows": len(found), "elements": parts, "defects": len(truths)})


def _screenqa(root: Path, config: RawConfig) -> Made:
    from generators.proving.embedded.native import screenqa as native

    found = native.rows(_still(config), COUNTS[config.size]["screenqa"], Random(config.seed))
    rows, truths = native.plant(found, config.rates, config.seed)
    native.write(root, rows)
    return Made(truths, {"rows": len(rows), "defects": len(truths)})


MAKERS: dict[str, Callable[[Path, RawConfig], Made]] = {
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


def make(root: Path, config: RawConfig) -> Made:
    """Render and write one source's files into an empty folder."""
    if config.source not in MAKERS:
        raise ValueError(f"embedded data: expected one of {', '.join(SOURCES)}, found {config.source!r}")
    return MAKERS[config.source](root, config)


def _receipt(raw_dir: Path) -> Path:
    return raw_dir.parent / "_receipts" / f"{raw_dir.name}.json"


def _read_receipt(raw_dir: Path) -> dict[str, Any] | None:
    """The receipt; None if there is none or it can't be read."""
    try:
        receipt: Any = json.loads(_receipt(raw_dir).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    whole = isinstance(receipt, dict) and all(isinstance(receipt.get(key), dict) for key in ("files", "counts"))
    return receipt if whole else None


def _names(raw_dir: Path) -> set[str]:
    """Files of the folder, but for what a process left that was killed while it put one (`whole_files`)."""
    found = (p for p in raw_dir.rglob("*") if p.is_file() and not p.name.startswith(PREFIX))
    return {p.relative_to(raw_dir).as_posix() for p in found}


def _is_there(raw_dir: Path, wanted: str) -> dict[str, Any] | None:
    """The receipt, if it was written for this config and every file still has its bytes."""
    receipt = _read_receipt(raw_dir)
    if receipt is None or receipt.get("config") != wanted:
        return None
    if _names(raw_dir) != set(receipt["files"]) or not _truth(raw_dir).is_file():
        return None
    return receipt if all(file_sha256(raw_dir / name) == sha for name, sha in receipt["files"].items()) else None


def _truth(raw_dir: Path) -> Path:
    return raw_dir.parent / "_truth" / f"{raw_dir.name}.jsonl"


def build_raw(store: Store, source: str, raw_dir: Path, *, size: Size = "demo", seed: int = 0) -> Manifest:
    """Make sure that `raw_dir` holds the embedded data of `source`, and commit `raw/<source>`.

    Files already there for this config (checked by sha256) are left alone, those of another config and damaged ones are
    made again. The truth about planted defects goes to `<raw_dir's parent>/_truth/<source>.jsonl`. Raises `ValueError`
    for an unknown source, and for a folder with files that no readable receipt names: they may be anybody's.
    """
    raw_dir = Path(raw_dir)
    if source not in MAKERS:
        raise ValueError(f"embedded data: expected one of {', '.join(SOURCES)}, found {source!r}")
    config = RawConfig(source, size, seed, DefectRates())
    wanted = digest({**asdict(config), "counts": COUNTS[size]})
    receipt = _is_there(raw_dir, wanted)
    if receipt is None:
        receipt = _build(raw_dir, config, wanted)
    return register_raw(store, source, raw_dir, extra=receipt["counts"])


def _refuse_files_of_others(source: str, raw_dir: Path) -> None:
    """Raises `ValueError` where the folder holds a file that the receipt doesn't name."""
    receipt, found = _read_receipt(raw_dir), _names(raw_dir)
    strange = sorted(found - set(receipt["files"] if receipt is not None else ()))
    if not strange:
        return
    beside = f"_receipts/{_receipt(raw_dir).name}"
    why = (
        f"that {beside} doesn't name"
        if receipt is not None
        else f"and {beside} can't be read"
        if _receipt(raw_dir).is_file()
        else f"but there is no {beside}"
    )
    raise ValueError(
        f"raw/{source}: {raw_dir.name}/ holds {len(strange)} files {why}, such as {strange[0]!r:.120}: nothing tells "
        "that the generator wrote them. If they are yours, move them elsewhere or register them as they are; if the "
        "generator made them once, delete the folder and run it again"
    )


def _build(raw_dir: Path, config: RawConfig, wanted: str) -> dict[str, Any]:
    _refuse_files_of_others(config.source, raw_dir)
    beside = raw_dir.parent / "_partial" / f"{raw_dir.name}-{os.getpid()}"
    new, old = beside / "new", beside / "old"
    shutil.rmtree(beside, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        made = make(new, config)
        files = {p.relative_to(new).as_posix(): file_sha256(p) for p in sorted(new.rglob("*")) if p.is_file()}
        receipt = {
            "config": wanted,
            "files": files,
            "counts": {"size": config.size, "seed": config.seed, **made.counts},
        }
        _refuse_files_of_others(config.source, raw_dir)  # rendering takes minutes: somebody may have put files there
        # In this order, see the module. The truth goes with the folder, so it changes while there is none either.
        if raw_dir.exists():
            raw_dir.replace(old)
        defects.write_truth(_truth(raw_dir), made.truths)
        put_text(_receipt(raw_dir), json.dumps(receipt, indent=1, sort_keys=True))
        new.replace(raw_dir)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return receipt
