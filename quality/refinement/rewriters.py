"""The rewriter that goes with a judge."""

from pipelines.extensions import find_part
from quality.judges.registry import JUDGES, JudgeConfig, asks_a_model, build_member, endpoint_of
from quality.refinement.repairs import ItemRewriter
from quality.refinement.rewrite import OpenAIRewriter, ProofRewriter


def build_rewriter(config: JudgeConfig) -> ItemRewriter:
    """The rewriter that goes with a judge: embedded for those that ask no model, else the same model. Raises as
    `build_judge` does."""
    find_part("judge", config.name, JUDGES)
    if not asks_a_model(config):
        return ProofRewriter()
    base_url, model = endpoint_of(config)
    return build_member(config, "client", lambda: OpenAIRewriter(base_url, model, config.cache, **config.client))
