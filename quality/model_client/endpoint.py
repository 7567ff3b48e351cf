"""The endpoint of a model, and how it is asked."""

import re
from dataclasses import dataclass
from pathlib import Path

from quality.model_client.batch_form import BatchForm
from quality.model_client.rate_limit import RateLimits
from quality.model_client.retry import Retry
from quality.model_client.spending import Ceiling


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """What is asked, and how: see `ModelClient`."""

    base_url: str
    model: str
    cache: Path | None
    retry: Retry
    concurrency: int
    max_tokens: int
    limits: RateLimits | None
    ceiling: Ceiling
    ask_again: int = 0
    batch: BatchForm | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"concurrency: expected at least 1, found {self.concurrency}")
        # Its answers come back by way of the book, and a killed run takes up what it had asked from there.
        if self.batch is not None and self.cache is None:
            raise ValueError("batch: expected a folder for the cache of answers beside it, found none")
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"base URL: expected http://… or https://…, found {self.base_url[:80]!r}")

    @property
    def name(self) -> str:
        """How messages call it; a password in the URL isn't shown."""
        shown = re.sub(r"//[^/@]*@", "//", self.base_url)
        return f"judge {self.model} at {shown}"
