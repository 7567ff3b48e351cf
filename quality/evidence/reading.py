"""What stands on a picture, read by Tesseract where that program is there: for screens whose source lists nothing.

The words of a line are one element of role `text`, as sources list them that come with OCR. Pictures of small print are
enlarged first. Reading takes a third of a second of a core a screen, so it is stored by the picture's hash.
"""

import functools
import io
import json
import os
import re
import shutil
import subprocess
from collections import OrderedDict
from pathlib import Path

from PIL import Image

from pipelines.store.images import open_image
from pipelines.whole_files import whole_file
from quality.items.screens import BankView, Element, ScreenBank, ScreenSource

PROGRAM = "tesseract"
ENLARGED_TO_PX = 2000
"""Long side to which a smaller picture is enlarged, at most three times."""
LEAST_SURE = 40.0
"""Confidence (0..100) below which a word isn't believed."""
GAP = 1.2
"""Heights of a line between two words from which on they are two texts side by side."""
TIME_LIMIT_S = 60.0
READING_VERSION = 1
MOST = 20_000
ROLE = "text"


class NoReader(ValueError):
    """Tesseract isn't there, or fails."""


@functools.cache
def reader_version() -> str:
    """The program's version, e.g. "tesseract 5.3.0". Raises `NoReader` where it isn't installed."""
    if shutil.which(PROGRAM) is None:
        raise NoReader("reading: Tesseract isn't installed (Debian, Ubuntu: apt-get install tesseract-ocr)")
    said = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)
    return (said.stdout or said.stderr).splitlines()[0].strip()


def read_texts(data: bytes) -> list[Element]:
    """Encoded picture → its texts, from the top, boxes in 0..1000. Raises `NoReader`, `ImageError`."""
    reader_version()
    image = open_image(data).convert("L")
    width, height = image.size
    # Small print is misread; enlarging further than three times adds no detail.
    factor = min(3.0, max(1.0, ENLARGED_TO_PX / max(image.size)))
    if factor > 1.0:
        image = image.resize((round(width * factor), round(height * factor)), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=1)
    try:
        done = subprocess.run(
            # Mode 11: sparse text, no page layout, which screens don't have.
            [PROGRAM, "-", "-", "--psm", "11", "--dpi", "150", "tsv"],
            input=out.getvalue(),
            capture_output=True,
            timeout=TIME_LIMIT_S,
            check=False,
            # Workers share the cores already; Tesseract would start four threads each.
            env={**os.environ, "OMP_THREAD_LIMIT": "1"},
        )
    except subprocess.TimeoutExpired:
        # What a slow hour left unread must not be stored as a picture without words.
        raise NoReader(
            f"reading: {PROGRAM} took over {TIME_LIMIT_S:.0f} s for {width} x {height} px; run again"
        ) from None
    if done.returncode:
        raise NoReader(f"reading: {PROGRAM} ended with {done.returncode}: {done.stderr.decode(errors='replace')[:200]}")
    return [
        Element(
            (
                box[0] * 1000 / image.width,
                box[1] * 1000 / image.height,
                box[2] * 1000 / image.width,
                box[3] * 1000 / image.height,
            ),
            ROLE,
            text,
            "",
        )
        for box, text in _texts(done.stdout.decode("utf-8", "replace"))
    ]


PixelBox = tuple[int, int, int, int]


def _texts(table: str) -> list[tuple[PixelBox, str]]:
    """Tesseract's TSV → (box in pixels, text) of each run of words."""
    runs: list[tuple[tuple[str, ...], PixelBox, list[str]]] = []
    # The first row has the names of the columns.
    for row in table.splitlines()[1:]:
        cells = row.split("\t")
        # Level 5 is a word; the other levels are its line, paragraph, block and page.
        if len(cells) < 12 or cells[0] != "5" or not _is_word(cells[11]) or float(cells[10]) < LEAST_SURE:
            continue
        left, top, wide, high = map(int, cells[6:10])
        line, box = tuple(cells[1:5]), (left, top, left + wide, top + high)
        # Words of one line with a wide gap between them are two texts side by side: a label and its value.
        if runs and runs[-1][0] == line and box[0] - runs[-1][1][2] <= GAP * max(high, runs[-1][1][3] - runs[-1][1][1]):
            _, had, words = runs.pop()
            box = (min(had[0], box[0]), min(had[1], box[1]), max(had[2], box[2]), max(had[3], box[3]))
            runs.append((line, box, [*words, cells[11].strip()]))
        else:
            runs.append((line, box, [cells[11].strip()]))
    return sorted(((box, " ".join(words)) for _, box, words in runs), key=lambda found: (found[0][1], found[0][0]))


def _is_word(text: str) -> bool:
    """Icons read as strokes: a lone sign is none."""
    return bool(re.search(r"\w", text)) and len(text.strip()) > (0 if text.strip().isdigit() else 1)


class TextReader:
    """Reads pictures, each once. `kept`: a folder that keeps what was read; the last `MOST` stay in memory."""

    def __init__(self, kept: Path | None = None) -> None:
        self.version = f"{reader_version()}/{READING_VERSION}"
        self._kept = kept / re.sub(r"\W+", "-", self.version) if kept else None
        self._read: OrderedDict[str, list[Element]] = OrderedDict()

    def texts(self, sha256: str, source: ScreenSource) -> list[Element]:
        """Those of a picture (see `read_texts`)."""
        if sha256 not in self._read:
            self._read[sha256] = self._from_file(sha256, source) if self._kept else _texts_of(sha256, source)
            if len(self._read) > MOST:
                self._read.popitem(last=False)
        self._read.move_to_end(sha256)
        return self._read[sha256]

    def _from_file(self, sha256: str, source: ScreenSource) -> list[Element]:
        assert self._kept is not None
        file = self._kept / sha256[:2] / f"{sha256}.json"
        # Also an empty list is written: that nothing stands there was costly to find out.
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(file) as part:
                part.write_text(json.dumps([[*one.box, one.text] for one in _texts_of(sha256, source)]), "utf-8")
        return [Element((a, b, c, d), ROLE, text, "") for a, b, c, d, text in json.loads(file.read_text("utf-8"))]


def reader_beside(cache: Path | None) -> TextReader:
    """A reader that keeps what it read in a judge's cache; in memory alone where there is none. Raises `NoReader`."""
    return TextReader(cache / "reading" if cache else None)


def _texts_of(sha256: str, source: ScreenSource) -> list[Element]:
    return read_texts(source.screen_bytes(sha256))


class ReadBank(BankView):
    """A bank's screens, with what can be read on those whose source lists no element."""

    def __init__(self, bank: ScreenBank, reader: TextReader) -> None:
        super().__init__(bank)
        self._reader = reader

    def elements(self, sha256: str) -> list[Element]:
        return self._bank.elements(sha256) or self._reader.texts(sha256, self.source)
