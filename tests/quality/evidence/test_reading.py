"""What Tesseract reads on pictures, and judges that get it (skipped where Tesseract isn't installed)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from pipelines.store.images import ImageError
from quality.evidence import tesseract
from quality.evidence.ocr_text import NoReader
from quality.evidence.reading import ReadBank, TextReader
from quality.evidence.tesseract import read_texts
from quality.judges.registry import JudgeConfig, build_judge
from schemas.actions import Click
from tests.quality.conftest import World, png

needs_tesseract = pytest.mark.skipif(
    shutil.which(tesseract.PROGRAM) is None, reason="tesseract isn't installed (apt-get install tesseract-ocr)"
)
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


@needs_tesseract
def test_texts_side_by_side_are_two_with_their_places() -> None:
    found = read_texts(printed())
    assert sorted(element.text for element in found) == sorted(TEXTS.values())
    places = {text: place for place, text in TEXTS.items()}
    for element in found:
        x, y = places[element.text]
        assert element.role == "text"
        assert abs(element.box[0] - x * 1000 / SIZE[0]) < 8 and abs(element.box[1] - y * 1000 / SIZE[1]) < 20
        assert 0 <= element.box[0] < element.box[2] <= 1000 and 0 <= element.box[1] < element.box[3] <= 1000


@needs_tesseract
def test_an_empty_picture_says_nothing_and_a_broken_one_says_so() -> None:
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


@needs_tesseract
def test_a_judge_that_reads_sees_the_wrong_element_on_a_screen_without_a_list(world: World) -> None:
    screen = world.screen(printed())
    after = world.screen(printed(texts={(300, 200): "Done"}))
    right = world.episode((Click((100, 140)), screen, 'Click "Delete account"'), (None, after), episode_id="e1")
    wrong = world.episode((Click((140, 622)), screen, 'Click "Delete account"'), (None, after), episode_id="e2")

    def alignments(read: bool) -> list[int | None]:
        judge = build_judge(JudgeConfig("rules", read=read))
        said = {verdict.item_id: verdict for verdict in judge.judge([right, wrong])}
        return [said[episode.actions[0].item_id].alignment for episode in (right, wrong)]

    blind, reading_too = alignments(False), alignments(True)
    assert blind[0] == blind[1]
    assert reading_too[0] is not None and reading_too[1] is not None
    assert reading_too[0] >= 7 > reading_too[1]


@needs_tesseract
def test_the_rubric_names_the_reader_also_in_verdicts(world: World) -> None:
    plain, reads = (build_judge(JudgeConfig("rules", read=read)) for read in (False, True))
    assert reads.rubric_version.startswith(plain.rubric_version + "+tesseract")
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
        build_judge(JudgeConfig("rules", read=True))
    tesseract.version.cache_clear()
