"""Options of the client of models that judge, as a deployment says them."""

from dagster_project.settings.deployment import JudgeOptions
from quality.model_client.prices import Prices
from quality.model_client.rate_limit import RateLimits
from quality.model_client.spending import Ceiling


def client_options(limits: JudgeOptions) -> dict[str, object]:
    """Options of the client of models that judge (`quality.model_client.client.ModelClient`)."""
    prices = Prices(limits.price_prompt, limits.price_completion)
    return {
        "limits": RateLimits(limits.requests_per_minute, limits.tokens_per_minute),
        "ceiling": Ceiling(
            limits.requests_per_night, limits.tokens_per_night, money=limits.money_per_night, prices=prices
        ),
        "prices": prices,
        "ask_again": limits.ask_again,
    }
