"""What a row of the shards asks, for tests that hold it to what it was made from."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pipelines.training_data.chat_turns import TURNS, Turn, prompts


def prompt(turns: Sequence[Turn]) -> str:
    """All turns but the answer, as canonical JSON."""
    return prompts(pa.chunked_array([[list(turns)]], TURNS))[0]
