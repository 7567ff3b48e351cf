"""Codecs of actions: exact inverses over any reply, tokens saved, and a checkpoint that remembers its own."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.prompts import reply_text
from schemas.action_types import SPACES, WIDEST
from schemas.actions import Action, Click, Drag, Hotkey, Launch, Scroll, SelectOption, Type, Wait, format, render
from trainer.modeling.checkpoint import load_processor
from trainer.modeling.codecs.coding import MEMBERS, decode, encode
from trainer.modeling.codecs.tool_path import end_of, path
from trainer.modeling.processor import Processor
from trainer.presets import NANO_BASE
from trainer.settings.model_shape import ActionCodec

POINT = st.tuples(st.integers(0, 1000), st.integers(0, 1000))
TEXT = st.text(st.one_of(st.sampled_from("')(=,\n<>/abc019"), st.characters(exclude_categories=["Cs"])), max_size=12)
WORDS = {"content": TEXT, "option": TEXT.filter(bool), "app": TEXT.filter(bool), "url": TEXT.filter(bool)}
CODECS = get_args(ActionCodec)


@st.composite
def actions(draw: st.DrawFn, kind: str) -> Action:
    cls = SPACES[WIDEST][kind]
    if kind == "Scroll":
        ends = draw(st.none() | st.tuples(POINT, POINT).filter(lambda both: both[0] != both[1]))
        return Scroll(*ends) if ends else Scroll(direction=draw(st.sampled_from(["up", "down", "left", "right"])))
    if kind == "Drag":
        return Drag(draw(POINT), draw(POINT))
    if kind == "Launch":
        word = draw(st.sampled_from(["app", "url"]))
        return Launch(**{word: draw(WORDS[word])})
    if kind == "Hotkey":
        return Hotkey(tuple(draw(st.lists(st.sampled_from(["ctrl", "shift", "a", "'"]), min_size=1, max_size=3))))
    fields = cls.__dataclass_fields__
    return cls(**{name: draw(POINT if name == "box" else WORDS[name]) for name in fields})


def test_every_codec_that_may_be_set_is_there() -> None:
    assert set(MEMBERS) == set(CODECS)


@pytest.mark.parametrize("codec", CODECS)
class TestEveryCodec:
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", SPACES[WIDEST])
    @settings(max_examples=20, deadline=None)
    @given(data=st.data(), platform=st.sampled_from(["mobile", "web", "desktop"]), thought=TEXT)
    def test_every_action_comes_back(
        self, codec: ActionCodec, kind: str, data: st.DataObject, platform: str, thought: str
    ) -> None:
        action = data.draw(actions(kind))
        for text in (format(action), render(action, platform)):
            answer = f"<think>{thought}</think><action>{text}</action><conclusion></conclusion>"
            assert decode(encode(answer, codec), codec) == answer

    @settings(max_examples=100, deadline=None)
    @given(
        st.one_of(
            TEXT,
            st.builds("<action>{}</action>".format, TEXT),
            st.sampled_from(
                [
                    "[500,300]",
                    "<action>Click(500,300)</action>",
                    "<action>=Click(1,2)</action>",
                    "<action>Click(box=(007,3))</action>",
                    "<action>Type('a</action>')</action>",
                    "<action>Drag(start=(n e s w n e s w n e), end=(1,2))</action>",
                ]
            ),
        )
    )
    def test_whatever_stands_there_comes_back(self, codec: ActionCodec, reply: str) -> None:
        assert decode(encode(reply, codec), codec) == reply

    def test_no_action_is_shared(self, codec: ActionCodec) -> None:
        draw = random.Random(3)
        points = [(draw.randrange(1001), draw.randrange(1001)) for _ in range(500)]
        texts = [f"<action>{format(Click(point))}</action>" for point in points]
        assert len({encode(text, codec) for text in texts}) == len(set(points))


@pytest.mark.parametrize(
    ("action", "short"),
    [
        (Click((500, 300)), "Click(500,300)"),
        (Drag((1, 2), (3, 4)), "Drag(1,2,3,4)"),
        (Scroll((1, 2), (3, 4)), "Scroll(1,2,3,4)"),
        (Scroll(direction="down"), "Scroll()down"),
        (Type("it's"), "Type('it\\'s')"),
        (Launch(app="Maps"), "Launch('Maps')"),
        (Launch(url="a.b"), "Launch(url='a.b')"),
        (Hotkey(("ctrl", "c")), "Hotkey('ctrl','c')"),
        (SelectOption((1, 2), "x"), "SelectOption(1,2)'x'"),
        (Wait(), "Wait()"),
    ],
)
def test_compact_by_hand(action: Action, short: str) -> None:
    assert encode(f"<action>{format(action)}</action>", "compact") == f"<action>{short}</action>"


@given(POINT)
def test_a_path_ends_at_its_point(point: tuple[int, int]) -> None:
    assert end_of(path(*point)) == point


class TestTokens:
    @pytest.fixture(scope="class")
    def processor(self) -> Processor:
        return load_processor(NANO_BASE)

    def in_codec(self, processor: Processor, codec: ActionCodec) -> Processor:
        made = processor.apart()
        made.preset = replace(processor.preset, action_codec=codec)
        return made

    @pytest.mark.parametrize("codec", CODECS)
    def test_a_reply_is_read_as_it_was_written(self, processor: Processor, codec: ActionCodec) -> None:
        coded = self.in_codec(processor, codec)
        for action in (Click((500, 300)), Drag((1, 2), (3, 4)), Type("a (b)"), Scroll(direction="up"), Wait()):
            answer = reply_text(action, "web")
            assert coded.text(coded.answer(answer)) == answer

    def test_compact_saves_tokens_where_a_path_costs_some(self, processor: Processor) -> None:
        answer = reply_text(Click((500, 300)), "web")
        length = {codec: len(self.in_codec(processor, codec).answer(answer)) for codec in CODECS}
        assert length["compact"] < length["text"] < length["tool_path"]

    def test_losses_still_find_verb_and_point_in_compact(self, processor: Processor) -> None:
        coded = self.in_codec(processor, "compact")
        ids = coded.answer(reply_text(Click((500, 300)), "web"))
        assert [coded.tokenizer.decode([ids[at]]) for at in coded.coordinate_places(ids)] == ["500", "300"]
        parts = coded.action_parts(ids)
        assert {"type", "parameters"} <= set(parts)

    def test_a_checkpoint_remembers_it(self, processor: Processor, tmp_path: Path) -> None:
        from trainer.modeling.checkpoint import save_processor

        save_processor(tmp_path, self.in_codec(processor, "compact"))
        assert load_processor(tmp_path).preset.action_codec == "compact"
        assert "action_codec" not in processor.preset.plain()
        with pytest.raises(ValueError, match="expected action_codec text or compact or tool_path, found 'short'"):
            replace(processor.preset, action_codec="short")
