"""All checks of methods by name, in the order of their table."""

from trainer.proving.methods import MethodCheck, clashing_platforms, codec_tokens, ladder, loophole, noisy_reward

MODULES = (loophole, noisy_reward, clashing_platforms, ladder, codec_tokens)
CHECKS: dict[str, MethodCheck] = {one.CHECK.name: one.CHECK for one in MODULES}
