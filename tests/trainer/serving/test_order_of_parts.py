"""What is trained is what is asked: the ids of a training row are those that the model's own chat template gives for
the messages that a client sends to `vesper serve`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from drawn import draw, make_rows
from hub_folder import write_hub

from generators.policies.chat_endpoint import ChatEndpoint, Sampling, sent_messages
from generators.policies.openai_agent import OpenAIAgent
from generators.policies.policy import PastTurn, PolicyView
from pipelines.store.images import open_image
from schemas.actions import Click
from trainer.modeling.checkpoint import Checkpoint, load_checkpoint
from trainer.modeling.published import load_base
from trainer.presets import NANO_BASE, preset
from trainer.serving.chat_request import ChatAsk, ChatRequests
from trainer.serving.checkpoint_policy import CheckpointPolicy
from trainer.serving.serve import ChatServer, serving
from trainer.suites.answering import EndpointAnswers, TrainedPrompt

VIEW = PolicyView("Open the red box", draw({"red": (5, 5, 60, 60)}), (224, 160), "web", (PastTurn(Click((5, 600))),))


def published(folder: Path) -> Checkpoint:
    wanted = replace(preset("2b"), max_pixels=96 * 128, min_pixels=32 * 32)
    model, processor = load_base(wanted, write_hub(folder, "dense"))
    return Checkpoint(model.eval(), processor, {"stage": "base"})


def nano(folder: Path) -> Checkpoint:
    return load_checkpoint(NANO_BASE)


def by_template(checkpoint: Checkpoint, body: Mapping[str, Any], row: Mapping[str, Any]) -> list[int]:
    """Ids of the messages of a request: by the template, each picture as the Hugging Face processor counts it."""
    processor = checkpoint.processor
    turns = json.loads(json.dumps(body["messages"]))
    for turn in turns:  # a server hands pictures to the template as parts of the type image
        turn["content"] = [{"type": "image"} if part["type"] == "image_url" else part for part in turn["content"]]
    ids = processor.tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    pictures = [processor.images(open_image(image), return_tensors="pt") for image in row["images"]]
    counts = iter([int(one["image_grid_thw"].prod()) // processor.images.merge_size**2 for one in pictures])
    return [token for one in ids for token in ([one] * next(counts) if one == processor.image_id else [one])]


@pytest.mark.parametrize("make", [published, nano])
def test_the_ids_of_training_are_those_of_the_messages_on_the_wire(
    make: Callable[[Path], Checkpoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, came = make(tmp_path), []
    read = ChatRequests.read

    def recorded(self: ChatRequests, body: Mapping[str, Any]) -> ChatAsk:
        ask = read(self, body)
        came.append((body, ask.row))
        return ask

    monkeypatch.setattr(ChatRequests, "read", recorded)
    rows = [CheckpointPolicy(checkpoint).row(VIEW), *make_rows(4)]
    with serving(ChatServer(checkpoint, name="served")) as (url, _):
        prompt: Any = TrainedPrompt()
        agent = OpenAIAgent(ChatEndpoint(url, "served"), prompt, Sampling(max_tokens=1))
        agent.begin(VIEW.goal, "web", 0)
        agent.decide(VIEW)
        agent.endpoint.close()
        answers = EndpointAnswers(url, "served", words="trained", workers=1)
        assert all(not answer.why for answer in answers(rows[1:], 1))
        answers.close()
    assert len(came) == len(rows)
    for row, (body, served) in zip(rows, came, strict=True):
        trained = checkpoint.processor.prompt(row).ids
        assert trained == by_template(checkpoint, body, row) == checkpoint.processor.prompt(served).ids


def test_a_row_whose_picture_comes_first_is_sent_so(tmp_path: Path) -> None:
    """The order belongs to the messages: neither the client nor the processor moves a part."""
    checkpoint, image = published(tmp_path), VIEW.png
    turns = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "\n\nWhere?"}]}]
    row = {"messages": json.dumps(turns), "images": [image], "answer": ""}
    sent = sent_messages(json.dumps(turns), [image])
    assert [part["type"] for part in sent[0]["content"]] == ["image_url", "text"]
    assert checkpoint.processor.prompt(row).ids == by_template(checkpoint, {"messages": sent}, row)
    with pytest.raises(ValueError, match="expected 1 pictures, which the chat shows, found 2"):
        sent_messages(json.dumps(turns), [image, image])
