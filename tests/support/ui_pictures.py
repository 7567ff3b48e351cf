"""Pictures of the real UI for the documentation.

    PYTHONPATH=. python tests/support/ui_pictures.py --home .vesper --report report.html --out docs/img

Works on a copy of what `make demo` left, at which Dagster's web server and a Chromium look: at assets as the demo made
them, then, in a history of its own, at a source that gets more native files on each of some nights, so that its assets
have plots to show. Of the demo's report.html, given by --report, the part is taken that begins with the agent at play.
Look at the pictures before they are kept.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from dagster_dev import page_of, running  # noqa: E402
from PIL import Image  # noqa: E402

from dagster_project.settings import dagster_home  # noqa: E402

SOURCE = "aitz"
SHARES = (0.4, 0.6, 0.8, 1.0)
"""Of the source's episodes, night by night."""
NIGHTLY = tuple(f"{stage}/{SOURCE}" for stage in ("raw", "unified", "verdicts", "gold"))

Page = tuple[str, int, int, str]
"""Asset, width and height of the window, what of the metadata: all, `Plots`, or the row of a name."""
OF_THE_DEMO: dict[str, Page] = {"ui_checkpoint": ("checkpoints/unified", 1500, 900, "inputs")}
OF_NIGHTS: dict[str, Page] = {
    "ui_source": (f"unified/{SOURCE}", 1500, 1050, ""),
    "ui_judge": (f"verdicts/{SOURCE}", 1500, 1500, "Plots"),
}
DRAWN = {
    "source_step": ("unified/android_control", "step"),
    "verdict_scores": ("verdicts/screen_annotation", "scores"),
    "judge_recall": ("evaluations/judge_rules", "recall"),
    "checkpoint_loss": ("checkpoints/mid_trained", "loss"),
    "evaluation": ("evaluations/unified", "figures"),
}
"""Asset, and the row of its metadata that a dialog draws."""
BUTTONS_PX = 80
"""Of a dialog, at its end."""


def nights(home: Path) -> None:
    """Materialise the source's assets once for each share of its episodes, in a new history. Raises
    `CalledProcessError` if one fails."""
    shutil.rmtree(home / "dagster")
    dagster_home.prepare(home)
    native, incoming = home / "raw" / SOURCE, home / "incoming" / SOURCE
    episodes = sorted(path.relative_to(native) for path in native.rglob("*.json"))
    if not episodes:
        raise FileNotFoundError(f"{native}: expected JSON files of episodes; run make demo first")
    environment = {**os.environ, "VESPER_HOME": str(home), "DAGSTER_HOME": str(home / "dagster")}
    keys = " or ".join(f'key:"{key}"' for key in NIGHTLY)
    for share in SHARES:
        left_out = episodes[max(1, round(share * len(episodes))) :]
        shutil.rmtree(incoming, ignore_errors=True)
        shutil.copytree(native, incoming)
        for path in left_out:
            (incoming / path).unlink()
        subprocess.run(
            [
                sys.executable,
                "-m",
                "dagster",
                "asset",
                "materialize",
                "-m",
                "dagster_project.definitions",
                "--select",
                keys,
            ],
            cwd=ROOT,
            env=environment,
            check=True,
        )


def take(home: Path, pages: dict[str, Page], out: Path, whole: bool = False) -> None:
    """A picture of each page, of a web server over `home`; `whole`: of the graph and of what dialogs draw, too."""
    with running(home, {"VESPER_NIGHTLY_CRON": ""}) as url:  # the schedule that people see
        for picture, (asset, width, height, shown) in pages.items():
            with page_of(url, width, height) as page:
                plots = _opened(page, f"{url}/assets/{asset}")
                if shown == "Plots":
                    page.get_by_text("Columns", exact=True).first.click()  # folded, so that there is room
                    plots.click()
                    page.get_by_text("Loading plots").wait_for(state="hidden", timeout=60_000)
                elif shown:
                    page.get_by_placeholder("Filter metadata keys").fill(shown)
                page.wait_for_timeout(3000)
                page.screenshot(path=out / f"{picture}.png")
        if whole:
            with page_of(url, 1500, 1200) as page:  # as high as the highest dialog
                for picture, (asset, shown) in DRAWN.items():
                    _opened(page, f"{url}/assets/{asset}")
                    page.get_by_placeholder("Filter metadata keys").fill(shown)
                    page.get_by_text("Show Markdown").first.click()
                    page.wait_for_timeout(1500)  # it fades in
                    box = page.get_by_role("dialog").bounding_box()
                    box["height"] -= BUTTONS_PX
                    page.screenshot(path=out / f"{picture}.png", clip=box)
            with page_of(url) as page:
                page.goto(f"{url}/asset-groups")
                page.get_by_text("leaderboard", exact=True).last.wait_for(timeout=60_000)
                page.wait_for_timeout(3000)
                page.screenshot(path=out / "lineage.png")


def _opened(page: Any, address: str) -> Any:
    """An asset's page, once its metadata are there → what switches to their plots."""
    page.goto(address)
    plots = page.get_by_text("Plots", exact=True).first
    plots.wait_for(timeout=60_000)
    return plots


def take_report(report: Path, out: Path) -> None:
    """The part of the demo's report that begins with the agent at play, as high as a screen."""
    with page_of(report.resolve().as_uri(), 900, 1380) as page:
        page.goto(report.resolve().as_uri())
        page.get_by_role("heading", name="An agent at play").evaluate("heading => heading.scrollIntoView()")
        page.wait_for_timeout(500)  # the first action of the episodes, which go on by themselves
        page.screenshot(path=out / "report.png")
    with Image.open(out / "report.png") as picture:  # photographs on it make it large: 256 colours are enough
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(out / "report.png", optimize=True)


def main() -> int:
    """Write all pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--home", type=Path, required=True, help="$VESPER_HOME of a demo; it stays as it is")
    parser.add_argument("--out", type=Path, required=True, help="folder of the pictures")
    parser.add_argument("--report", type=Path, help="report.html of the demo")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.report:
        take_report(options.report, options.out)
    with tempfile.TemporaryDirectory(prefix="vesper-pictures-") as name:
        home = Path(name) / "home"
        shutil.copytree(options.home, home, symlinks=True)
        take(home, OF_THE_DEMO, options.out, whole=True)
        nights(home)
        take(home, OF_NIGHTS, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
