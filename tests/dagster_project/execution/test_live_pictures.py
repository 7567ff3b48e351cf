"""What a stage shows reaches its asset while the process runs: small, seldom, and with no effect downstream."""

from __future__ import annotations

import base64
import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from dagster_project.assets.tail_condition import TAIL
from dagster_project.execution import run_stage
from dagster_project.execution.live_pictures import LiveReader, show_on
from dagster_project.execution.run_stage import Reporter

ROOT = Path(__file__).parents[3]
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
CHILD = """
import sys, time
from pathlib import Path
from dagster_pipes import open_dagster_pipes
from dagster_project.execution.run_stage import Reporter
with open_dagster_pipes() as pipes:
    report = Reporter(pipes.log.info, pipes.report_custom_message)
    report({"kind": "picture", "update": 11, "rollout": "`r`", "picture": Path(sys.argv[1], "strip.png").read_bytes()})
    report({"kind": "look", "update": 12, "reward": 0.5, "step_success": 0.75, "trace_success": None})
    for _ in range(400):
        if Path(sys.argv[1], "seen").exists():
            break
        time.sleep(0.05)
    else:
        sys.exit(3)
    pipes.report_custom_message({"version": "v"})
"""


def _png(width: int = 2400, height: int = 240, noisy: bool = False) -> bytes:
    from PIL import Image

    image = (
        Image.frombytes("RGB", (width, height), os.urandom(3 * width * height))
        if noisy
        else (Image.new("RGB", (width, height), "red"))
    )
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def test_pictures_are_few_and_small(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    lines: list[str] = []
    shown: list[dict[str, Any]] = []
    report = Reporter(lines.append, shown.append)
    for update in (1, 11, 21):
        report({"kind": "picture", "update": update, "picture": _png()})
    assert lines == [f"picture: update {update}" for update in (1, 11, 21)], "no bytes in the log"
    [one] = shown
    small = base64.b64decode(one["picture"])
    assert one["caption"] == "picture: update 1" and len(small) < run_stage.PICTURE_BYTES
    with Image.open(io.BytesIO(small)) as image:
        assert image.width <= run_stage.PICTURE_PX[0] and image.height <= run_stage.PICTURE_PX[1]
    monkeypatch.setattr(run_stage, "PICTURE_EVERY_S", 0.0)
    monkeypatch.setattr(run_stage, "PICTURE_BYTES", 10_000)
    report({"kind": "picture", "update": 31, "picture": _png(noisy=True)})
    assert len(shown) == 1, "too large even so"
    report({"kind": "picture", "update": 41, "picture": _png()})
    assert len(shown) == 2


def test_figures_are_few_and_each_is_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(run_stage, "time", SimpleNamespace(monotonic=lambda: now[0]))
    lines: list[str] = []
    shown: list[dict[str, Any]] = []
    report = Reporter(lines.append, shown.append)
    step = {"kind": "step", "steps": 40, "tokens": 9, "tokens_per_s": 250.0, "fill": 0.5}
    for number in range(1, 31):  # a step in twenty seconds, ten minutes in all
        report({**step, "step": number, "loss": 4.0 - number / 8})
        if number in (10, 11):
            report({"kind": "validation", "step": number, "loss": {"all": number / 4, "vqa": 1.0}})
        now[0] += 20.0
    report({**step, "step": 31, "loss": float("nan"), "tokens_per_s": float("inf")})
    first, second = ({"step": n, "train/loss": 4.0 - n / 8, "train/tokens_per_second": 250.0} for n in (1, 16))
    assert shown == [{"figures": first}, {"figures": {**second, "eval/all_loss": 2.75}}], "the newest, once"
    assert len(lines) == 33, "no figure more, no figure less in the log"
    report({"kind": "update", "update": 3, "loss": 0.5, "reward": 0.25, "success": 0.125, "kl": 0.1})
    told = {"step": 3.0, "train/loss": 0.5, "train/reward": 0.25, "train/success": 0.125}
    assert shown[2] == {"figures": {"train/tokens_per_second": 250.0, **told}}


def test_a_picture_and_figures_are_on_the_asset_while_its_process_runs(tmp_path: Path) -> None:
    """The child ends only once both have been seen."""
    (tmp_path / "strip.png").write_bytes(_png())
    instance = dg.DagsterInstance.ephemeral()
    messages: list[Any] = []

    @dg.asset
    def made(context):  # type: ignore[no-untyped-def]
        show = show_on(context)

        def seen(message: Any) -> None:
            show(message)
            if len(instance.fetch_observations(dg.AssetKey("made"), limit=5).records) == 2:
                (tmp_path / "seen").touch()

        done = dg.PipesSubprocessClient(message_reader=LiveReader(seen)).run(
            command=[sys.executable, "-c", CHILD, str(tmp_path)],
            context=context,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        messages.extend(done.get_custom_messages())
        return done.get_materialize_result()

    assert dg.materialize([made], instance=instance, run_config=QUIET).success
    assert messages == [{"version": "v"}], "the others are as they were"
    figures, picture = (
        found.asset_observation.metadata  # the last one first
        for found in instance.fetch_observations(dg.AssetKey("made"), limit=5).records
        if found.asset_observation is not None
    )
    assert figures == {
        "step": dg.FloatMetadataValue(12.0),
        "eval/reward": dg.FloatMetadataValue(0.5),
        "eval/step_success": dg.FloatMetadataValue(0.75),
    }
    text = picture["picture"].value
    assert isinstance(text, str)
    assert text.startswith("![screens](data:image/png;base64,") and text.endswith("`picture: update 11, rollout 'r'`")


def test_a_picture_starts_nothing_downstream() -> None:
    @dg.asset
    def first() -> None: ...

    @dg.asset(deps=[first], automation_condition=TAIL)
    def second() -> None: ...

    loaded = dg.Definitions(assets=[first, second])
    instance = dg.DagsterInstance.ephemeral()

    def asked(cursor: Any) -> Any:
        return dg.evaluate_automation_conditions(loaded, instance, cursor=cursor)

    before = asked(None)
    picture = dg.AssetObservation("first", metadata={"picture": dg.MetadataValue.md("x")})
    instance.report_runless_asset_event(picture)
    while_made = asked(before.cursor)
    assert while_made.total_requested == 0, "of an asset that was never made"
    instance.report_runless_asset_event(dg.AssetMaterialization("first", tags={"dagster/data_version": "a"}))
    after = asked(while_made.cursor)
    assert after.total_requested == 1
    instance.report_runless_asset_event(picture)
    assert asked(after.cursor).total_requested == 0
