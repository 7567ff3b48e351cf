"""Texts on pictures as Tesseract reads them, a program of the system (`apt-get install tesseract-ocr`).

The words of a line are one element of role `text`, as sources list them that come with OCR. Pictures of small print are
enlarged first. Reading takes a third of a second of a core a screen.
"""

import functools
import io
import os
import shutil
import subprocess

from PIL import Image

from pipelines.store.images import open_image
from quality.evidence.ocr_text import NoReader, element_of, is_word
from quality.items.screens import Element

PROGRAM = "tesseract"
ENLARGED_TO_PX = 2000
"""Long side to which a smaller picture is enlarged, at most three times."""
LEAST_SURE = 40.0
"""Confidence (0..100) below which a word isn't believed."""
GAP = 1.2
"""Heights of a line between two words from which on they are two texts side by side."""
TIME_LIMIT_S = 60.0


@functools.cache
def version() -> str:
    """The program's version, e.g. "tesseract 5.3.0". Raises `NoReader` where it isn't installed."""
    if shutil.which(PROGRAM) is None:
        raise NoReader("reading: Tesseract isn't installed (Debian, Ubuntu: apt-get install tesseract-ocr)")
    said = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)
    return (said.stdout or said.stderr).splitlines()[0].strip()


def read_texts(data: bytes) -> list[Element]:
    """Encoded picture → its texts, from the top, boxes in 0..1000. Raises `NoReader`, `ImageError`."""
    version()
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
    return [element_of(box, text, image.size) for box, text in _texts(done.stdout.decode("utf-8", "replace"))]


PixelBox = tuple[int, int, int, int]


def _texts(table: str) -> list[tuple[PixelBox, str]]:
    """Tesseract's TSV → (box in pixels, text) of each run of words."""
    runs: list[tuple[tuple[str, ...], PixelBox, list[str]]] = []
    # The first row has the names of the columns.
    for row in table.splitlines()[1:]:
        cells = row.split("\t")
        # Level 5 is a word; the other levels are its line, paragraph, block and page.
        if len(cells) < 12 or cells[0] != "5" or not is_word(cells[11]) or float(cells[10]) < LEAST_SURE:
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
