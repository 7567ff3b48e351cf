"""Caches and answers of people forget what was taken down, and only that where they can tell."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.takedown.withdrawn import TakenDown, WithdrawnEntry
from quality.commands.takedown import forget
from quality.evidence.embedding import VectorCache
from quality.model_client.questions import Usage
from quality.model_client.spending import AnswerBook, Ceiling, today
from quality.review.verdict_store import VerdictStore
from schemas.ids import text_key

SHA = "ab" * 32
TAKEN = TakenDown(texts={text_key("open my  letters")}, screens={SHA})
TAKEN.add([WithdrawnEntry("episode:x/e1", "asked")])


def test_a_text_has_one_key_however_its_blanks_are() -> None:
    assert text_key(" open  my\nletters ") == text_key("open my letters") != text_key("openmyletters")
    assert text_key("\udcff") != text_key("")  # a lone surrogate is no error


def test_answers_go_whether_or_not_a_table_tells_of_them_and_leave_no_byte(tmp_path: Path) -> None:
    book = AnswerBook(tmp_path / "cache" / "judge")
    call = book.open(Ceiling(), "m", 10)
    assert call is not None
    book.book(call, "answers", Usage(5, 2), entry=("k" * 64, json.dumps({"answer": "SECRET-LETTER"})))
    done = forget(tmp_path, TAKEN)  # the store has no row of a cost: the part that asked was killed
    assert done.answers == 1 and book.answer("k" * 64) is None
    assert book.spent(today()).answers == 1, "bills stay"
    book.close()
    assert not any(b"SECRET-LETTER" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_vectors_and_looks_go_by_key(tmp_path: Path) -> None:
    gone, stays = text_key("open my letters"), text_key("another")
    for name, keys in (("embeddings", [gone, stays]), ("looks", [SHA[:32], "cd" * 16])):
        VectorCache(tmp_path / "cache" / name / "1").put(keys, np.arange(4, dtype=np.float32).reshape(2, 2))
    assert forget(tmp_path, TAKEN).vectors == 2
    left = VectorCache(tmp_path / "cache" / "embeddings" / "1")
    assert gone not in left and left.get([stays]).tolist() == [[2.0, 3.0]]
    assert "cd" * 16 in VectorCache(tmp_path / "cache" / "looks" / "1")
    assert forget(tmp_path, TAKEN).vectors == 0


def test_people_s_answers_and_promoted_sets(tmp_path: Path) -> None:
    path = tmp_path / "feedback" / "review.sqlite"
    VerdictStore(path)
    with sqlite3.connect(path) as base:
        base.execute("INSERT INTO annotators VALUES ('ann', 1.0)")
        for number, item in enumerate(("step:x/e1/0@r1", "episode:x/e2", "sample:" + "0" * 32)):
            base.execute(
                "INSERT INTO verdicts (item_id, annotator, role, decision, note, seconds, created, request, content) "
                "VALUES (?, 'ann', 'annotator', 'keep', 'NOTE', 1, 1, ?, '')",
                (item, f"request-{number}"),
            )
            base.execute("INSERT INTO assignments VALUES (?, 'ann', 1)", (item,))
    sets = tmp_path / "feedback" / "human_verdicts"
    for name, item in (("a" * 64, "episode:x/e1"), ("b" * 64, "episode:x/e2")):
        (sets / name).mkdir(parents=True)
        pq.write_table(pa.table({"item_id": [item]}), sets / name / "decisions.parquet")
        (sets / name / "manifest.json").write_text("{}")
    (sets / "current.json").write_text(json.dumps({"digest": "a" * 64}))
    done = forget(tmp_path, TAKEN)
    assert done.people == 2 and done.sets == ["a" * 64]
    assert not (sets / "current.json").exists() and [path.name for path in sets.iterdir()] == ["b" * 64]
    with sqlite3.connect(path) as base:
        assert [row[0] for row in base.execute("SELECT item_id FROM verdicts ORDER BY id")] == [
            "episode:x/e2",
            "sample:" + "0" * 32,
        ]
