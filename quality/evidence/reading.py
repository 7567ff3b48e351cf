"""What stands on a picture, read by an OCR program: for screens whose source lists nothing.

Reading is slow beside everything else that judges do, so it is stored by the picture's hash.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from pipelines.whole_files import whole_file
from quality.evidence import rapid_ocr, tesseract
from quality.evidence.ocr_text import ROLE
from quality.items.screens import BankView, Element, ScreenBank, ScreenSource

READERS: dict[str, tuple[Callable[[], str], Callable[[bytes], list[Element]]]] = {
    "tesseract": (tesseract.version, tesseract.read_texts),
    "rapidocr": (rapid_ocr.version, rapid_ocr.read_texts),
}
"""Program → its version, and what reads a picture. Both raise `NoReader` where it isn't there."""
READING_VERSION = 1
MOST = 20_000


class TextReader:
    """Reads pictures by a program of `READERS`, each once. `kept`: a folder that keeps what was read; the last `MOST`
    stay in memory. Raises `NoReader`."""

    def __init__(self, kept: Path | None = None, program: str = "tesseract") -> None:
        version, self._read_texts = READERS[program]
        self.version = f"{version()}/{READING_VERSION}"
        self._kept = kept / re.sub(r"\W+", "-", self.version) if kept else None
        self._read: OrderedDict[str, list[Element]] = OrderedDict()

    def texts(self, sha256: str, source: ScreenSource) -> list[Element]:
        """Those of a picture, from the top."""
        if sha256 not in self._read:
            self._read[sha256] = self._from_file(sha256, source)
            if len(self._read) > MOST:
                self._read.popitem(last=False)
        self._read.move_to_end(sha256)
        return self._read[sha256]

    def _from_file(self, sha256: str, source: ScreenSource) -> list[Element]:
        if self._kept is None:
            return self._read_texts(source.screen_bytes(sha256))
        file = self._kept / sha256[:2] / f"{sha256}.json"
        # Also an empty list is written: that nothing stands there was costly to find out.
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            texts = [[*one.box, one.text] for one in self._read_texts(source.screen_bytes(sha256))]
            with whole_file(file) as part:
                part.write_text(json.dumps(texts), "utf-8")
        return [Element((a, b, c, d), ROLE, text, "") for a, b, c, d, text in json.loads(file.read_text("utf-8"))]


def reader_beside(cache: Path | None, program: str) -> TextReader:
    """A reader that keeps what it read in a judge's cache; in memory alone where there is none. Raises `NoReader`."""
    return TextReader(cache / "reading" if cache else None, program)


class ReadBank(BankView):
    """A bank's screens, with what can be read on those whose source lists no element."""

    def __init__(self, bank: ScreenBank, reader: TextReader) -> None:
        super().__init__(bank)
        self._reader = reader

    def elements(self, sha256: str) -> list[Element]:
        return self._bank.elements(sha256) or self._reader.texts(sha256, self.source)
