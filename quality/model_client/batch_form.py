"""How questions are asked by /batches instead of one by one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchForm:
    """Seconds between two looks at a batch; the fewest questions that are worth waiting for one; and what a batch may
    hold, questions and bytes, below the limits that OpenAI publishes (50,000 and 200 MB)."""

    poll_s: float = 30.0
    least: int = 20
    most_questions: int = 50_000
    most_bytes: int = 150_000_000

    def __post_init__(self) -> None:
        for name in ("poll_s", "least", "most_questions", "most_bytes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"batch {name}: expected more than 0, found {getattr(self, name)!r}")
