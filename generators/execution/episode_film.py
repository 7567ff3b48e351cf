"""An executed episode to look at: every screen with the action that was taken on it, animated and as one sheet.

What is written beside the screens comes from models and pages: control characters are left out, and what is too long
is cut.
"""

import functools
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from PIL import Image, ImageDraw, ImageFont

from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from pipelines.store.images import open_image
from quality.items.drawing import mark_action
from schemas.actions import format

Verdict = Literal["solved", "failed", "not counted"]
SCREEN_PX = (640, 520)
"""What a screen is scaled to fit in, small ones up, so that captions can be read beside any of them."""
# pixels
LEAST_WIDTH, MARGIN, LINE = 400, 16, 20
GOAL_LINES, CAPTION_LINES = 2, 4
# milliseconds a frame is shown
STEP_MS, LAST_MS = 1100, 3500
SHEET_FRAMES, SHEET_COLUMNS, SHEET_WIDTH = 12, 4, 300
MOST_CHARACTERS = 600
FONTS = ("NotoSansCJK-Regular.ttc", "DejaVuSans.ttf")
"""The first of these that the machine has, since Pillow's own font knows little more than ASCII."""
INK, PALE, PAPER, BAND = "#17202c", "#5b6675", "#ffffff", "#e9edf2"
COLOURS: dict[Verdict, str] = {"solved": "#1a7f4b", "failed": "#b3261e", "not counted": "#6b7280"}


@dataclass(frozen=True)
class FilmedEpisode:
    """An execution with its screens (sha256 → encoded picture), what was decided of it, and why."""

    done: ExecutedTrajectory
    screens: Mapping[str, bytes]
    verdict: Verdict
    why: str

    def plain(self, *, timings: bool = True) -> dict[str, object]:
        """Task, verdict and steps as plain JSON data; seconds are wall time, and left out without `timings`."""
        done, task = self.done, self.done.contract
        return {
            "task": task.as_row(),
            "world": task.world,
            "policy": done.policy,
            "seed": done.seed,
            "verdict": self.verdict,
            "why": self.why,
            "ended": done.ended,
            "answer": done.answer,
            "steps": [_plain_step(number, turn, timings) for number, turn in enumerate(done.turns, 1)],
            **({"seconds": round(done.seconds, 3)} if timings else {}),
        }

    def animation(self) -> bytes:
        """Animated WebP: a frame a step, and the last screen with the verdict, which stands longer."""
        first, *rest = self.frames()
        buffer = io.BytesIO()
        times = [*[STEP_MS] * len(rest), LAST_MS]
        first.save(buffer, "WEBP", save_all=True, append_images=rest, duration=times, loop=0, quality=82, method=4)
        return buffer.getvalue()

    def sheet(self) -> bytes:
        """PNG of the frames side by side: of more than `SHEET_FRAMES` the first ones and the last."""
        frames = list(self.frames())
        frames = [*frames[: SHEET_FRAMES - 1], frames[-1]] if len(frames) > SHEET_FRAMES else frames
        height = round(frames[0].height * SHEET_WIDTH / frames[0].width)
        columns = min(SHEET_COLUMNS, len(frames))
        # rounds up
        rows = -(-len(frames) // columns)
        gap = MARGIN // 2
        whole = Image.new("RGB", (columns * (SHEET_WIDTH + gap) + gap, rows * (height + gap) + gap), BAND)
        for at, frame in enumerate(frames):
            row, column = divmod(at, columns)
            small = frame.resize((SHEET_WIDTH, height), Image.Resampling.LANCZOS)
            whole.paste(small, (gap + column * (SHEET_WIDTH + gap), gap + row * (height + gap)))
        buffer = io.BytesIO()
        whole.save(buffer, "PNG", optimize=True)
        return buffer.getvalue()

    def frames(self) -> Iterator[Image.Image]:
        """The frames, all of one size. Raises `ValueError` for an episode that has no screen at all."""
        turns = [*self.done.turns, *([self.done.end] if self.done.end is not None else [])]
        if not turns:
            raise ValueError(f"episode {self.done.trajectory_id}: it has no screen to show ({self.why[:200]})")
        size = _fitted(turns[0].size_px)
        total = len(self.done.turns)
        for number, turn in enumerate(self.done.turns, 1):
            yield self._frame(turn, size, f"{number}/{total}  {did(turn)}", turn.error or said(turn), BAND)
        ended = f"{self.verdict.upper()} after {total} step{'s' * (total != 1)}"
        yield self._frame(turns[-1], size, ended, self.why, COLOURS[self.verdict], last=True)

    def _frame(
        self, turn: ExecutedTurn, size: tuple[int, int], title: str, more: str, band: str, *, last: bool = False
    ) -> Image.Image:
        width = max(size[0], LEAST_WIDTH) + 2 * MARGIN
        head, foot = GOAL_LINES * LINE + MARGIN, CAPTION_LINES * LINE + MARGIN
        frame = Image.new("RGB", (width, head + size[1] + foot), PAPER)
        draw = ImageDraw.Draw(frame)
        _write(draw, self.done.contract.instruction, (MARGIN, MARGIN // 2), width, GOAL_LINES, INK)
        screen = open_image(self.screens[turn.screenshot_sha256])
        screen = screen.resize(_fitted(screen.size, size), Image.Resampling.LANCZOS)
        mark_action(screen, None if last else turn.action, halo=True)
        left, top = (width - screen.width) // 2, head
        frame.paste(screen, (left, top))
        draw.rectangle((left - 1, top - 1, left + screen.width, top + screen.height), outline=PALE)
        draw.rectangle((0, head + size[1] + 4, width, frame.height), fill=band)
        ink, pale = (PAPER, PAPER) if last else (INK, PALE)
        below = head + size[1] + MARGIN // 2 + 2
        used = _write(draw, title, (MARGIN, below), width, 2, ink, 17)
        _write(draw, more, (MARGIN, below + used * LINE + 2), width, CAPTION_LINES - used, pale)
        return frame


def turn_line(number: int, turn: ExecutedTurn) -> str:
    """A turn and its number in one line."""
    thought = f'  "{said(turn)}"' if said(turn) else ""
    return f"{number:3}  {did(turn)}{thought}" + (f"  (did nothing: {_clean(turn.error)})" if turn.error else "")


def did(turn: ExecutedTurn) -> str:
    """What a turn did, in one line: its action, else what couldn't be read."""
    return _clean(format(turn.action) if turn.action is not None else f"not readable: {turn.reply}")


def said(turn: ExecutedTurn) -> str:
    """What the policy thought and concluded at a turn, in one line."""
    return _clean(" / ".join(filter(None, (turn.thought, turn.conclusion))))


def _plain_step(number: int, turn: ExecutedTurn, timings: bool) -> dict[str, object]:
    step: dict[str, object] = {
        "step": number,
        "action": None if turn.action is None else format(turn.action),
        **{name: getattr(turn, name) for name in ("reply", "thought", "conclusion", "error", "screenshot_sha256")},
        "size_px": list(turn.size_px),
        "tokens": [turn.prompt_tokens, turn.completion_tokens],
    }
    seconds = {name: round(getattr(turn, name), 3) for name in ("observe_s", "decide_s", "act_s")}
    return {**step, **seconds} if timings else step


def _fitted(size: tuple[int, int], most: tuple[int, int] = SCREEN_PX) -> tuple[int, int]:
    """The largest size with the same proportions that fits in `most`."""
    scale = min(most[0] / size[0], most[1] / size[1])
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _clean(text: str) -> str:
    # untrusted text: neither control characters nor line breaks reach a picture
    flat = " ".join("".join(c if c.isprintable() else " " for c in text[:MOST_CHARACTERS]).split())
    return f"{flat}…" if len(text) > MOST_CHARACTERS else flat


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    for name in FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)


def _write(
    draw: ImageDraw.ImageDraw, text: str, at: tuple[int, int], width: int, most: int, ink: str, size: int = 14
) -> int:
    """Text in at most so many lines of a frame of this width, the last one cut where there is more; → lines."""
    font, room = _font(size), width - 2 * at[0]
    lines: list[str] = []
    rest = _clean(text)
    while rest and len(lines) < most:
        line = _head(rest, font, room, len(lines) == most - 1)
        lines.append(line)
        rest = rest[len(line) :].lstrip()
    for number, line in enumerate(lines):
        draw.text((at[0], at[1] + number * LINE), line, font=font, fill=ink)
    return len(lines)


def _head(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, room: int, is_last: bool) -> str:
    """As much of a text as a line holds: whole words where one fits, with an ellipsis where more had to stand there."""
    if font.getlength(text) <= room:
        return text
    fits = 1
    while font.getlength(text[: fits + 1] + "…" * is_last) <= room:
        fits += 1
    if is_last:
        return text[:fits] + "…"
    # whole words, unless a single one is longer than the line
    blank = text.rfind(" ", 0, fits + 1)
    return text[:blank] if blank > 0 else text[:fits]
