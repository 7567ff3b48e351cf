"""What an export gives verl, by verl's own code; `tests/e2e/test_verl_recipe.py` starts it where verl is installed.

    verl_recipe.py reward FOLDER CASES      CASES: JSON, a list of compute_score's arguments; prints what it gives
    verl_recipe.py play FOLDER URL TASK REPLIES     an episode of a task by agent_loop.py; the model says REPLIES (JSON)

The loop is instantiated from agent_loop.yaml as verl's workers do it; the model behind it is the one stand-in.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any


def reward(folder: Path, cases: str) -> list[Any]:
    """The score of each case, by the function that verl loads from `reward.py`."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    named = {"path": str(folder / "reward.py"), "name": "compute_score"}
    scored = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": named}}))
    assert scored is not None
    return [scored(**case) for case in json.loads(cases)]


class Said:
    """In the place of verl's client of its model servers: replies in their order, and what they were asked with."""

    def __init__(self, tokenizer: Any, replies: list[str]) -> None:
        self.tokenizer, self.replies, self.asked = tokenizer, iter(replies), list[dict[str, Any]]()

    async def generate(self, *, prompt_ids: list[int], image_data: list[Any], **_: object) -> Any:
        """See `LLMServerClient.generate`."""
        from verl.workers.rollout.replica import TokenOutput

        ids = self.tokenizer(next(self.replies), add_special_tokens=False)["input_ids"] + [self.tokenizer.eos_token_id]
        self.asked.append({"prompt": self.tokenizer.decode(prompt_ids), "size": image_data[0].size})
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed")


def play(folder: Path, url: str, task: str, replies: str) -> list[Any]:
    """The samples of an episode."""
    import hydra
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap
    from verl.utils.dataset.rl_dataset import RLHFDataset

    os.environ["VESPER_WORLDS_URL"] = url
    sys.path.insert(0, str(folder))  # as run.sh's PYTHONPATH does
    processor = _processor()
    said = Said(processor.tokenizer, json.loads(replies))
    rollout = {"prompt_length": 2048, "response_length": 64}

    async def episode() -> list[AgentLoopOutput]:
        [config] = OmegaConf.load(folder / "agent_loop.yaml")
        assert config.name == "vesper_worlds"
        loop = hydra.utils.instantiate(
            config,
            trainer_config=DictConfigWrap(OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})),
            server_manager=said,
            tokenizer=processor.tokenizer,
            processor=processor,
            dataset_cls=RLHFDataset,
            data_config=DictConfigWrap(OmegaConf.create({})),
        )
        found: list[AgentLoopOutput] = await loop.run({"temperature": 1.0}, extra_info={"task_id": task}, raw_prompt=[])
        return found

    steps = asyncio.run(episode())
    return [
        {
            **asked,
            "reply": processor.tokenizer.decode(one.response_ids, skip_special_tokens=True),
            "tensors": sorted(one.as_dict()),
            "masked": sum(one.response_mask),
            "logprobs": one.response_logprobs,
            "reward": one.reward_score,
            "extra": one.extra_fields,
        }
        for one, asked in zip(steps, said.asked, strict=True)
    ]


def _processor() -> Any:
    """A processor with pictures, without a hub: byte-level tokens and a square of four patches for each picture."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlavaProcessor, PreTrainedTokenizerFast
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    plain = Tokenizer(
        models.BPE({token: at for at, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, [])
    )
    plain.pre_tokenizer, plain.decoder = pre_tokenizers.ByteLevel(False), decoders.ByteLevel()
    words = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|image_pad|>")
    plain.add_special_tokens([AddedToken(word, special=True) for word in words])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    side = {"height": 28, "width": 28}
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
        "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
        "{% for p in m['content'] %}{% if p['type'] == 'image' %}<|image_pad|>{% else %}{{ p['text'] }}{% endif %}"
        "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    return LlavaProcessor(
        CLIPImageProcessorPil(size=side, crop_size=side),
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        chat_template=template,
        image_token="<|image_pad|>",
        num_additional_image_tokens=1,
    )


if __name__ == "__main__":
    what, folder, *rest = sys.argv[1:]
    print(json.dumps({"reward": reward, "play": play}[what](Path(folder), *rest)))
