"""The tokenizer: one token per word of the action language, any text survives, nothing of data is a control token."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.modeling import tokenizer

TEXTS = ["Goal: click the blue button", "Where is Submit order?", "History:\n1. Click(box=(1,2))"] * 9
TOKENIZER = tokenizer.train_tokenizer(TEXTS, 1536)


def tokens(text: str) -> list[str]:
    return TOKENIZER.convert_ids_to_tokens(tokenizer.encode_text(TOKENIZER, text))


def test_the_language_has_single_tokens() -> None:
    text = "<think></think><action>Drag(start=(0,1000), end=(37,500))</action><conclusion></conclusion>"
    assert tokens(text) == [
        "<think>",
        "</think>",
        "<action>",
        "Drag",
        "(",
        "start=",
        "(",
        "0",
        ",",
        "1000",
        ")",
        ",",
        "Ġ",
        "end=",
        "(",
        "37",
        ",",
        "500",
        ")",
        ")",
        "</action>",
        "<conclusion>",
        "</conclusion>",
    ]
    assert len(tokenizer.VERBS) == 16
    for verb in tokenizer.VERBS:
        assert tokens(f"1. {verb}()")[-3:] == [verb, "(", ")"]  # also in a history line, after a blank
    for word in (*tokenizer.TAGS, *tokenizer.ARGUMENTS):
        assert tokens(word) == [word]
    assert tokens("[-1,-1]") == ["[", "-1", ",", "-1", "]"]


def test_every_number_up_to_1000_is_one_token_with_consecutive_ids() -> None:
    numbers = tokenizer.number_ids(TOKENIZER)
    assert numbers is not None
    for n in range(tokenizer.LAST_NUMBER + 1):
        assert tokenizer.encode_text(TOKENIZER, f"[{n},") == [
            TOKENIZER.convert_tokens_to_ids("["),
            numbers.first + n,
            TOKENIZER.convert_tokens_to_ids(","),
        ]
    assert numbers.first + tokenizer.LAST_NUMBER in numbers and numbers.first + tokenizer.LAST_NUMBER + 1 not in numbers


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=60)
    | st.sampled_from([*tokenizer.SPECIAL, "a  b\t\r\n", "Ġ", "007 12345 ٣", "👩‍👩‍👧 你好", "x=-1,-1]"])
)
def test_any_text_survives_and_never_makes_a_control_token(text: str) -> None:
    ids = tokenizer.encode_text(TOKENIZER, text)
    assert tokenizer.decode(TOKENIZER, ids) == text
    assert not set(ids) & set(TOKENIZER.convert_tokens_to_ids(list(tokenizer.SPECIAL)))


def test_files_are_equal_whatever_the_order_of_texts_and_the_process(tmp_path: Any) -> None:
    texts = [f"Goal: find item {i} in the shop of {name}" for i in range(40) for name in ("Anna", "Öl", "猫")]
    tokenizer.train_tokenizer(texts[::-1], 1536).save_pretrained(tmp_path / "a")
    code = (
        "from trainer.modeling.tokenizer import train_tokenizer\n"
        "texts = [f'Goal: find item {i} in the shop of {n}' for i in range(40) for n in ('Anna', 'Öl', '猫')]\n"
        f"train_tokenizer(texts, 1536).save_pretrained({str(tmp_path / 'b')!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert (tmp_path / "a/tokenizer.json").read_bytes() == (tmp_path / "b/tokenizer.json").read_bytes()


def test_loads_with_plain_autotokenizer(tmp_path: Any) -> None:
    from transformers import AutoTokenizer

    TOKENIZER.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(str(tmp_path))
    text = "Click(box=(5,6)) <|im_end|> héllo"
    assert tokenizer.encode_text(loaded, text) == tokenizer.encode_text(TOKENIZER, text)
    assert loaded.eos_token == "<|im_end|>" and len(loaded) == 1536
    chat = [{"role": "user", "content": [{"type": "text", "text": "Where?"}, {"type": "image"}]}]
    shown = loaded.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert shown == (
        "<|im_start|>user\nWhere?<|vision_start|><|image_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n"
    )


def test_too_small_a_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="vocab_size: expected at least"):
        tokenizer.train_tokenizer(TEXTS, 500)
