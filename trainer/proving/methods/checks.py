"""All checks of methods by name, in the order of their table."""

from trainer.proving.methods import MethodCheck, clashing_platforms, codec_tokens, ladder, loophole

CHECKS: dict[str, MethodCheck] = {
    one.name: one for one in (loophole.CHECK, clashing_platforms.CHECK, ladder.CHECK, codec_tokens.CHECK)
}
