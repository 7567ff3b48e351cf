"""What OCR programs read on pictures, and judges that get it (each skipped where it isn't installed)."""

from __future__ import annotations

import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from pipelines.store.images import ImageError
from quality.evidence import rapid_ocr, tesseract
from quality.evidence.ocr_text import NoReader
from quality.evidence.reading import READERS, ReadBank, TextReader
from quality.judges.registry import JudgeConfig, build_judge
from schemas.actions import Click
from tests.quality.conftest import World, png

WHERE = {
    "tesseract": (shutil.which(tesseract.PROGRAM), "tesseract isn't installed (apt-get install tesseract-ocr)"),
    "rapidocr": (find_spec("rapidocr"), "rapidocr isn't installed (pip install rapidocr onnxruntime)"),
}
programs = pytest.mark.parametrize(
    "program",
    [pytest.param(name, marks=pytest.mark.skipif(not there, reason=why)) for name, (there, why) in WHERE.items()],
)
needs_tesseract = pytest.mark.skipif(not WHERE["tesseract"][0], reason=WHERE["tesseract"][1])
SIZE = (800, 500)
TEXTS = {(40, 60): "Delete account", (400, 60): "Save changes", (40, 300): "Order number 4711"}


def printed(*, texts: dict[tuple[int, int], str] | None = None) -> bytes:
    image = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(image)
    for place, text in (TEXTS if texts is None else texts).items():
        draw.text(place, text, fill="black", font=ImageFont.load_default(size=18))
    return png(image)


class Counted:
    """A source of one picture that counts how often it is looked at."""

    def __init__(self, data: bytes) -> None:
        self.data, self.times = data, 0

    def screen_bytes(self, sha256: str) -> bytes:
        self.times += 1
        return self.data


@programs
def test_texts_side_by_side_are_two_with_their_places(program: str) -> None:
    found = READERS[program][1](printed())
    assert sorted(element.text for element in found) == sorted(TEXTS.values())
    places = {text: place for place, text in TEXTS.items()}
    for element in found:
        x, y = places[element.text]
        assert element.role == "text"
        assert abs(element.box[0] - x * 1000 / SIZE[0]) < 8 and abs(element.box[1] - y * 1000 / SIZE[1]) < 20
        assert 0 <= element.box[0] < element.box[2] <= 1000 and 0 <= element.box[1] < element.box[3] <= 1000


@programs
def test_an_empty_picture_says_nothing_and_a_broken_one_says_so(program: str) -> None:
    read_texts = READERS[program][1]
    assert read_texts(printed(texts={})) == []
    with pytest.raises(ImageError):
        read_texts(b"no picture")


@needs_tesseract
def test_a_picture_is_read_once_also_by_the_next_process(tmp_path: Path) -> None:
    source = Counted(printed())
    reader = TextReader(tmp_path)
    first = reader.texts("ab" * 32, source)
    assert reader.texts("ab" * 32, source) == first and source.times == 1
    assert TextReader(tmp_path).texts("ab" * 32, source) == first and source.times == 1


@needs_tesseract
def test_what_a_source_lists_stays_and_what_it_does_not_is_read(world: World) -> None:
    listed = world.screen(printed(), [((40, 60, 200, 90), "Something else")])
    bare = world.screen(printed(texts={(40, 60): "Nothing listed"}))
    bank = ReadBank(world.bank(), TextReader())
    assert [element.text for element in bank.elements(listed)] == ["Something else"]
    assert [element.text for element in bank.elements(bare)] == ["Nothing listed"]
    assert bank.screen(bare).elements == bank.elements(bare)


@pytest.mark.slow
@programs
def test_a_judge_that_reads_sees_the_wrong_element_on_a_screen_without_a_list(world: World, program: str) -> None:
    screen = world.screen(printed())
    after = world.screen(printed(texts={(300, 200): "Done"}))
    right = world.episode((Click((100, 140)), screen, 'Click "Delete account"'), (None, after), episode_id="e1")
    wrong = world.episode((Click((140, 622)), screen, 'Click "Delete account"'), (None, after), episode_id="e2")

    def alignments(read: str) -> list[int | None]:
        judge = build_judge(JudgeConfig("rules", read=read))
        said = {verdict.item_id: verdict for verdict in judge.judge([right, wrong])}
        return [said[episode.actions[0].item_id].alignment for episode in (right, wrong)]

    blind, reading_too = alignments(""), alignments(program)
    assert blind[0] == blind[1]
    assert reading_too[0] is not None and reading_too[1] is not None
    assert reading_too[0] >= 7 > reading_too[1]


@programs
def test_the_rubric_names_the_reader_also_in_verdicts(world: World, program: str) -> None:
    plain, reads = (build_judge(JudgeConfig("rules", read=read)) for read in ("", program))
    assert reads.rubric_version.startswith(f"{plain.rubric_version}+{program} ")
    assert (reads.name, reads.model) == (plain.name, plain.model)
    episode = world.episode((Click((100, 140)), world.screen(printed())))
    assert {verdict.rubric_version for verdict in reads.judge([episode])} == {reads.rubric_version}


@needs_tesseract
def test_a_picture_that_takes_too_long_is_not_kept_as_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, reader = Counted(printed()), TextReader(tmp_path)
    with monkeypatch.context() as hurried, pytest.raises(NoReader, match="run again"):
        hurried.setattr(tesseract, "TIME_LIMIT_S", 0.001)
        reader.texts("cd" * 32, source)
    assert len(reader.texts("cd" * 32, source)) == len(TEXTS)


def test_without_tesseract_a_judge_that_is_to_read_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    tesseract.version.cache_clear()
    monkeypatch.setattr(tesseract, "PROGRAM", "no-such-tesseract")
    with pytest.raises(NoReader, match="apt-get install tesseract-ocr"):
        build_judge(JudgeConfig("rules", read="tesseract"))
    tesseract.version.cache_clear()


def test_without_rapidocr_the_line_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rapid_ocr._engine.cache_clear()
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    with pytest.raises(NoReader, match="RapidOCR isn't installed .*pip install rapidocr onnxruntime"):
        build_judge(JudgeConfig("rules", read="rapidocr"))
    rapid_ocr._engine.cache_clear()


@pytest.mark.skipif(not WHERE["rapidocr"][0], reason=WHERE["rapidocr"][1])
def test_chinese_is_read_with_its_places() -> None:
    fonts = Path("/usr/share/fonts").rglob("*")
    font = next((path for path in fonts if re.search(r"CJK.*Regular|wqy", path.name)), None)
    if font is None:
        pytest.skip("no font with Chinese signs here (apt-get install fonts-noto-cjk)")
    image = Image.new("RGB", SIZE, "white")
    words = {"发送消息": (60, 80), "删除联系人": (420, 300)}
    for text, place in words.items():
        ImageDraw.Draw(image).text(place, text, fill="black", font=ImageFont.truetype(str(font), 28))
    found = {element.text: element.box for element in rapid_ocr.read_texts(png(image))}
    assert found.keys() == words.keys()
    for text, (x, y) in words.items():
        left, top, right, bottom = found[text]
        assert left <= (x + 40) * 1000 / SIZE[0] <= right and top <= (y + 20) * 1000 / SIZE[1] <= bottom
