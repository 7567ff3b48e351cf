"""The environment that an export gives TRL: its own GRPOTrainer plays our worlds, and a model learns by them."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from choice_world import ChoiceWorld, task
from world_servers import served

from pipelines.exports.recipes import recipe
from trainer.serving.checkpoint_policy import played_prompt
from trainer.serving.serve import serving
from trainer.serving.world_server import WorldServer
from trainer.serving.world_sessions import SessionRules
from trainer.suites.play import opener, tasks_of
from trainer.suites.worlds import outcome

END, ASKED = "<|im_end|>", "<|im_start|>assistant\n"
POINTS = [(150, 330), (450, 500), (450, 330), (700, 850), (150, 850), (700, 700)]
STEPS = 28


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file as an export writes it, imported as a script of TRL's user would."""
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    path = tmp_path / "environment.py"
    path.write_text(recipe("trl_environment.py"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("environment", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(point: tuple[int, int]) -> dict[str, Any]:
    action = f"Click(box=({point[0]},{point[1]}))"
    return {"type": "function", "function": {"name": "act", "arguments": {"action": action}}}


def test_an_episode_by_its_tool(environment: Any) -> None:
    with served([task(1), task(2, 1)]) as url:
        one = type("At", (environment.WorldEnvironment,), {"url": url})()
        rows = environment.served_tasks(url)
        assert rows.column_names == ["prompt", "task_id"] and len(rows) == 2
        [screen] = one.reset(**rows[1])
        assert screen["type"] == "image" and screen["image"].size == (96, 64)
        [after] = one.act("Click(box=(250,500))")
        assert after["image"].tobytes() != screen["image"].tobytes()
        one.act("Click(box=(250,500))")
        assert one.act("Finished(content='')") == [{"type": "text", "text": "The episode is over."}]
        assert one.get_reward() == 1.0 and one.act("Wait()")[0]["text"] == "The episode is over."
        one.reset(**rows[0])
        assert one.get_reward() == 0.0, "who says nothing has finished"


def test_a_world_that_breaks_is_no_reward(environment: Any) -> None:
    with served([task(1)], lambda: ChoiceWorld(break_at=frozenset({1}))) as url:
        one = type("At", (environment.WorldEnvironment,), {"url": url})()
        one.reset()
        one.act("Click(box=(250,500))")
        assert one.get_reward() is None
    assert "reached" in str(one.reset()) and one.get_reward() is None, "the server is gone"


def short_tokenizer(prompt: list[dict[str, str]], tools: list[Any]) -> Any:
    """Byte-level BPE whose tokens are as long as what all calls share, so that a call is a few tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    from trl.chat_template_utils import qwen2_5_chat_template

    def wrapped(texts: list[str], size: int) -> Any:
        plain = Tokenizer(models.BPE())
        # without the usual cut at blanks and brackets
        plain.pre_tokenizer, plain.decoder = pre_tokenizers.ByteLevel(False, use_regex=False), decoders.ByteLevel()
        learner = trainers.BpeTrainer(
            vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
        )
        plain.train_from_iterator(texts, learner)
        plain.add_special_tokens([AddedToken(f"<|{name}|>", special=True) for name in ("end", "im_start", "im_end")])
        return PreTrainedTokenizerFast(
            tokenizer_object=plain, eos_token="<|im_end|>", pad_token="<|end|>", chat_template=qwen2_5_chat_template
        )

    first = wrapped([], 256)
    chats = [[*prompt, {"role": "assistant", "content": "", "tool_calls": [call(point)]}] for point in POINTS]
    whole = [first.apply_chat_template(chat, tools=tools, tokenize=False) for chat in chats]
    return wrapped([part for text in whole for turn in text.split(END) for part in turn.split(ASKED)], 2000)


def table_model(prompt: list[dict[str, str]], tools: list[Any], steps: int = 60) -> tuple[Any, Any]:
    """A tiny text model that knows the form of a call, and clicks each of the points alike: a table that TRL trains."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = short_tokenizer(prompt, tools)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=24,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    rows = [_labelled(tokenizer, prompt, call(point), tools) for point in POINTS]
    ids = torch.nn.utils.rnn.pad_sequence([one for one, _ in rows], True, tokenizer.pad_token_id)
    labels = torch.nn.utils.rnn.pad_sequence([other for _, other in rows], True, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
    return model.eval(), tokenizer


def _labelled(
    tokenizer: Any, prompt: list[dict[str, str]], made: dict[str, Any], tools: list[Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """A call and, after its answer, a word: the ids, and the labels of what the model says."""

    def text(*turns: dict[str, Any], ask: bool) -> str:
        rendered: str = tokenizer.apply_chat_template(
            [*prompt, *turns], tools=tools, add_generation_prompt=ask, tokenize=False
        )
        return rendered if ask else rendered[: rendered.rindex(END) + len(END)]

    called = {"role": "assistant", "content": "", "tool_calls": [made]}
    answered = {"role": "tool", "name": "act", "content": "The episode is over."}
    told = {"role": "assistant", "content": "Done"}
    ends = [text(ask=True), text(called, ask=False), text(called, answered, ask=True)]
    ends.append(text(called, answered, told, ask=False))
    ids: list[int] = []
    labels: list[int] = []
    for place, (before, whole) in enumerate(zip(["", *ends], ends, strict=False)):
        # each part by itself, as it is sampled: never a token that holds the end of one and the beginning of the next
        new = tokenizer(whole.removeprefix(before), add_special_tokens=False)["input_ids"]
        ids += new
        labels += new if place % 2 else [-100] * len(new)
    return torch.tensor(ids), torch.tensor(labels)


@contextmanager
def miniwob(page: str, sessions: int) -> Iterator[str]:
    """A server of one task of a page in a real browser, whose episodes have one action."""
    rules = SessionRules(lambda one: opener(one)(), outcome, played_prompt, most_steps=1)
    with serving(WorldServer({"train": tasks_of("miniwob", 1, 0, [page])}, rules, sessions=sessions)) as (url, _):
        yield url.removesuffix("/v1")


@pytest.mark.real_parts
@pytest.mark.slow
def test_a_table_policy_learns_a_page_by_trls_own_trainer(environment: Any, tmp_path: Path) -> None:
    """MiniWoB++ in a real browser, TRL's environment interface, its loop and its loss: of six points few are right."""
    from trl import GRPOConfig, GRPOTrainer

    random.seed(0)
    with miniwob("click-tab", sessions=4) as url:
        world = type("Table", (environment.WorldEnvironment,), {"url": url, "pictures": False, "__doc__": "One tab."})
        rows = environment.served_tasks(url)
        shown = [{"role": "user", "content": rows[0]["prompt"][0]["content"] + "The screen has changed."}]
        model, tokenizer = table_model(shown, [world().act])
        rewards: list[float] = []

        def watched(environments: list[Any], **_: object) -> list[float]:
            rewards.extend(float(one.get_reward()) for one in environments)
            return [0.0] * len(environments)

        GRPOTrainer(
            model,
            reward_funcs=watched,
            args=GRPOConfig(
                output_dir=str(tmp_path / "out"),
                max_steps=STEPS,
                per_device_train_batch_size=4,
                num_generations=4,
                max_completion_length=80,
                max_tool_calling_iterations=1,
                learning_rate=2e-3,
                lr_scheduler_type="constant",
                beta=0.0,
                use_cpu=True,
                bf16=False,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
                gradient_checkpointing=False,
            ),
            train_dataset=rows,
            processing_class=tokenizer,
            environment_factory=world,
        ).train()
    assert len(rewards) == STEPS * 4
    first, last = sum(rewards[:16]) / 16, sum(rewards[-24:]) / 24
    assert last > first + 0.2 and last > 0.6, (first, last, rewards)
