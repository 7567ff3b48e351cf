"""The suites by name: what `vesper eval --suite NAME` knows.

A new grounding benchmark is a file in `benchmarks/` and an entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from schemas.settings import nearest

if TYPE_CHECKING:
    from trainer.suites.reading import Benchmark

CARE, DESKTOP = "care", "desktop"
Kind = Literal["heldout", "grounding", "steps", "worlds", "android_world", "osworld", "latent"]


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite. `kind` says which function runs it, `raw` which native files it reads (a suite of `pipelines.suites`, or
    a source); `constant` is the name of its benchmark, the level of its instructions or its harness' family. With a
    `domain` it is an asset of the graph only where a specialist of that is trained."""

    name: str
    title: str
    kind: Kind
    raw: str = ""
    constant: str = ""
    domain: str = ""


def _grounding(name: str, title: str, raw: str = "") -> Suite:
    return Suite(name, title, "grounding", raw or name, name.upper())


def _steps(name: str, title: str, source: str, level: str) -> Suite:
    return Suite(name, title, "steps", source, level)


SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("heldout", "held-out samples of the corpus", "heldout"),
        _grounding("screenspot", "ScreenSpot"),
        _grounding("screenspot_v2", "ScreenSpot-V2"),
        _grounding("screenspot_pro", "ScreenSpot-Pro"),
        _grounding("screenspot_pro_cn", "ScreenSpot-Pro (Chinese)", "screenspot_pro"),
        _grounding("osworld_g", "OSWorld-G"),
        _grounding("osworld_g_refined", "OSWorld-G (refined)", "osworld_g"),
        _grounding("ui_vision", "UI-Vision"),
        _grounding("venusbench_gd", "VenusBench-GD"),
        _grounding("venusbench_gd_zh", "VenusBench-GD (Chinese)", "venusbench_gd"),
        _grounding("mmbench_gui_l2", "MMBench-GUI L2"),
        _steps("android_control_high", "AndroidControl, goals", "android_control", "high"),
        _steps("android_control_low", "AndroidControl, step instructions", "android_control", "low"),
        _steps("aitz", "AITZ", "aitz", "high"),
        _steps("gui_odyssey", "GUI-Odyssey", "gui_odyssey", "high"),
        _steps("multimodal_mind2web", "Multimodal-Mind2Web", "multimodal_mind2web", "high"),
        Suite("miniwob", "MiniWoB++ episodes", "worlds"),
        Suite("phone", "episodes on the phone", "worlds"),
        Suite("fsm", "episodes on FSM sites", "worlds"),
        Suite(DESKTOP, "episodes in the programs of a desktop", "worlds", domain="computer"),
        Suite(CARE, "requests that do harm at their word, and twins without risk", "worlds"),
        Suite("android_world", "AndroidWorld by its own harness", "android_world", constant="android_world"),
        Suite("venusbench_mobile", "VenusBench-Mobile by its own harness", "android_world", constant="venus"),
        Suite("osworld", "task files in OSWorld's form, on sealed desktops", "osworld"),
        Suite("latent", "latent space of screens", "latent"),
    )
}
"""Names are stable: a leaderboard's history goes by them."""


def suite(name: str) -> Suite:
    """A suite by name. Raises `ValueError` that lists the known ones."""
    if name not in SUITES:
        raise ValueError(f"unknown suite {name[:60]!r}; {nearest(name, SUITES)}")
    return SUITES[name]


def benchmark(name: str) -> Benchmark:
    """The `Benchmark` of a grounding suite. Raises `ValueError` for another name."""
    import importlib

    found = suite(name)
    if found.kind != "grounding":
        known = ", ".join(one.name for one in SUITES.values() if one.kind == "grounding")
        raise ValueError(f"suite {name}: expected a grounding benchmark ({known})")
    # both versions are read by one file
    stem = "screenspot" if found.raw == "screenspot_v2" else found.raw
    module = importlib.import_module(f"trainer.suites.benchmarks.{stem}")
    constant: Benchmark = getattr(module, found.constant)
    return constant
