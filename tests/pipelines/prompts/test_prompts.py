"""Prompts: short, deterministic, the instruction before the image, and readable back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines import prompts
from pipelines.prompts import messages, navigation_text, prompt_text, reply_text
from pipelines.prompts.answers import answers_of, with_answers
from pipelines.prompts.history import HISTORY_STEPS, HistoryConfig
from pipelines.prompts.tokens import count_tokens, image_tokens, text_tokens
from schemas.actions import Click, Scroll, Type, parse_reply
from schemas.tables import OBJECTIVES

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.strip())


@given(st.sampled_from(OBJECTIVES), TEXT, st.integers(0, 3))
def test_messages_hold_text_first_then_images_and_read_back(objective: str, text: str, images: int) -> None:
    chat = messages(objective, text, images)
    [turn] = json.loads(chat)
    assert [part["type"] for part in turn["content"]] == ["text"] + ["image"] * images
    assert prompt_text(chat) == text
    assert chat == messages(objective, text, images)


def test_navigation_prompt_shows_the_last_three_actions_with_absolute_numbers() -> None:
    past = [(n, f"Click(box=({n},{n}))") for n in range(1, 6)]
    text = navigation_text("buy {shoes}", past, thinking=True)
    assert text == "Goal: buy {shoes}\nHistory:\n3. Click(box=(3,3))\n4. Click(box=(4,4))\n5. Click(box=(5,5))"
    assert text.count("Click") == HISTORY_STEPS


def test_prompt_says_that_thinking_is_off_only_without_thoughts() -> None:
    assert navigation_text("g", [], thinking=False).endswith("History:\nnone\nThinking: off")
    assert "Thinking" not in navigation_text("g", [], thinking=True)
    assert "unknown" in navigation_text("g", None)


def test_another_version_has_words_of_its_own_for_navigation_alone() -> None:
    text = navigation_text("buy {shoes}", [(1, "Wait()")], version="aguvis")
    head = "Please generate the next move according to the UI screenshot, instruction and previous actions."
    assert text == f"{head}\n\nInstruction: buy {{shoes}}\n\nPrevious actions:\nStep 1: Wait()\nThinking: off"
    # as Aguvis' data has it on the first step
    assert navigation_text("g", [], thinking=True, version="aguvis").endswith("\n\nPrevious actions:\nNone")
    assert not prompts.asks_to_think(text) and prompts.before_history(text) == "\n\nPrevious actions:\n"
    assert prompts.before_history("Goal: x") == prompts.before_history("anything") == "\nHistory:\n"
    assert prompts.template("grounding", "aguvis") == prompts.template("grounding")
    assert HistoryConfig(form="conclusion").said() == {"history": {"form": "conclusion", "steps": HISTORY_STEPS}}
    assert HistoryConfig(prompt="aguvis").of_preset()["prompt_version"] == "aguvis"


def test_a_grounding_question_says_what_more_it_wants() -> None:
    plain = messages("grounding", prompts.grounding_text("Save "))
    assert (
        prompt_text(plain) == "Where is Save?" and prompts.with_asked_form(plain, box=False, confidence=False) == plain
    )
    for box, confidence in ((True, False), (False, True), (True, True)):
        asked = prompts.grounding_text("Save", box=box, confidence=confidence)
        assert asked.startswith("Where is Save? Answer with its ") and asked.endswith(".")
        assert ("[l,t,r,b]" in asked, "[x,y]" in asked, "how sure" in asked) == (box, not box, confidence)
        # a stored question becomes the very text that a player asks, its picture kept
        assert prompts.with_asked_form(plain, box=box, confidence=confidence) == messages("grounding", asked)
    flat = json.dumps([{"role": "user", "content": "Where is Save?"}])
    assert prompt_text(prompts.with_asked_form(flat, box=True, confidence=False)).endswith(
        " Answer with its box [l,t,r,b]."
    )


def test_reply_has_three_tags_that_the_reply_parser_accepts() -> None:
    assert (
        reply_text(Type("so"), "web") == "<think></think><action>Type(content='so')</action><conclusion></conclusion>"
    )
    assert parse_reply(reply_text(Type("it's\nso"), "web")).action == Type("it's\nso")
    read = parse_reply(reply_text(Click((3, 4)), "web", "a thought", "done"))
    assert (read.tags_ok, read.action, read.thought, read.conclusion) == (True, Click((3, 4)), "a thought", "done")


def test_reply_renders_scroll_by_platform() -> None:
    assert "direction='down'" in reply_text(Scroll(direction="down"), "web")
    assert "start=" in reply_text(Scroll(direction="down"), "mobile")


@pytest.mark.parametrize(("objective", "text"), [("chess", "x"), ("vqa", " ")])
def test_messages_refuse_an_unknown_objective_and_an_empty_prompt(objective: str, text: str) -> None:
    with pytest.raises(ValueError, match="messages"):
        messages(objective, text)


def test_prompt_text_refuses_what_is_no_chat() -> None:
    for bad in ("[]", "{}", "nonsense", '[{"role":"user"}]'):
        with pytest.raises(ValueError, match="expected a JSON chat"):
            prompt_text(bad)


def test_template_digest_changes_with_the_wording(tmp_path, monkeypatch) -> None:
    before = prompts.template_digest()
    folder = tmp_path / prompts.PROMPT_VERSION
    folder.mkdir()
    (folder / "vqa.txt").write_text("other {question}")
    monkeypatch.setattr(prompts, "_FOLDER", tmp_path)
    prompts.template_digest.cache_clear()
    prompts.template.cache_clear()
    try:
        assert prompts.template_digest() != before
        with pytest.raises(ValueError, match="known are"):
            prompts.template("grounding")
    finally:
        prompts.template_digest.cache_clear()
        prompts.template.cache_clear()


def test_tokens_follow_the_named_formula() -> None:
    assert text_tokens("") == 0
    assert text_tokens("abcde") == 2
    assert text_tokens("日本") == 2  # 6 bytes
    assert image_tokens(33, 32) == 2
    assert count_tokens(messages("vqa", "abcd"), "abcde", [(64, 64), (0, 0)]) == 1 + 2 + 4
    with pytest.raises(ValueError, match="positive size"):
        image_tokens(0, 5)


def test_answers_are_told_from_the_goal_that_they_stand_under() -> None:
    told = with_answers("Clean up", [("Delete all?", "No.\nKeep them."), ("Sure?", "Yes")])
    assert told == "Clean up\nYou asked: Delete all?\nThe user answered: No.\nKeep them.\nYou asked: Sure?\n" + (
        "The user answered: Yes"
    )
    assert "Clean up" + answers_of(told, "Clean up") == told
    assert answers_of("Clean up", "Clean up") == answers_of("Clean up well", "Clean up") == ""
    assert answers_of(told, "Tidy up") == "", "it is another goal"
