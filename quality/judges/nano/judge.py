"""The nano judge: rules' evidence weighed with features by small trained heads. Offline, no server, no picture model.

What it can't see: what a picture means, and intent. Text of the data enters only as overlaps and embeddings, so an
instruction hidden in it has no way to set a score.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quality.code_version import code_digest
from quality.evidence.embedding import Embedder
from quality.evidence.episode import Habits
from quality.evidence.steps import Finding
from quality.items.item import Episode, Item, Sample
from quality.judges.heard import READING_CODE, QuietBank, heard
from quality.judges.judge import Verdict
from quality.judges.nano.head import NanoHead, load_heads
from quality.judges.nano.look import Cosines, look_at, risks_of, sample_look, sample_texts, texts_of
from quality.judges.rules import RUBRIC_VERSION, objections
from schemas.ids import digest

_CODE = (
    "judges/nano/transition",
    "judges/nano/step",
    "judges/nano/sample",
    "judges/nano/episode",
    "judges/nano/requirements",
    "judges/nano/look",
    "judges/nano/forest",
    "judges/nano/head",
    *READING_CODE,
    "judges/nano/judge",
)
LOW_CUT = 0.5
"""Between the keep cut and certainty, the share of risk from which an item is reconstructed, not rewritten."""


def model_version(folder: Path) -> str:
    """Which trained judge lies in a folder, as its verdicts name it (`model`): 16 hex digits over its weights and over
    what turns them into scores (feature names, cuts). Raises `OSError` if a file isn't there."""
    return digest([(folder / name).read_bytes().hex() for name in ("nano.safetensors", "nano.json")])[:16]


class NanoJudge:
    """A judge from a folder that `nano.training.train_nano` wrote. Raises `ValueError` if it holds none."""

    name = "nano"
    learned = True
    """From the seen part of a judge bench, so that nothing measured there speaks of other pages."""

    def __init__(self, folder: Path, embedder: Embedder | None = None) -> None:
        self.folder = folder
        self._heads, self._about = load_heads(folder)
        self.model = model_version(folder)
        self._cosine = Cosines(embedder)
        self.rubric_version = f"nano-1-{code_digest(_CODE)}-{RUBRIC_VERSION}"

    def _head(self, name: str) -> NanoHead:
        return self._heads[name]

    def score(self, risk: float, head: str) -> int:
        """Risk → 0..10: 7 to 10 up to the keep cut, 4 to 6 above it, 0 to 3 towards certainty."""
        cuts: Any = self._about["cuts"]
        # A cut at 0 or 1 would leave a side of the scale empty.
        cut = min(max(float(cuts[head]), 0.02), 0.9)
        if risk <= cut:
            return 10 - round(3 * risk / cut)
        beyond = (risk - cut) / (1 - cut)
        return (
            6 - round(2 * beyond / LOW_CUT) if beyond < LOW_CUT else 3 - round(3 * (beyond - LOW_CUT) / (1 - LOW_CUT))
        )

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        """Items → verdicts (see `quality.judges.judge.Judge`)."""
        habits = habits or Habits.of([item for item in items if isinstance(item, Episode)])
        banks: dict[int, QuietBank] = {}
        items = [heard(item, banks) for item in items]
        # All texts at once, as embedding single texts is slow.
        self._cosine.learn(text for item in items if isinstance(item, Episode) for text in texts_of(item))
        self._cosine.learn(text for item in items if isinstance(item, Sample) for text in sample_texts(item))
        verdicts: list[Verdict] = []
        for item in items:
            if isinstance(item, Sample):
                verdicts.append(self._sample(item, round_number))
            else:
                verdicts += self._episode(item, round_number, habits)
        return verdicts

    def _verdict(
        self,
        item_id: str,
        axes: tuple[int | None, int | None],
        findings: Sequence[Finding],
        number: int,
        risk: float | None,
    ) -> Verdict:
        against = objections(findings)
        says = "; ".join(f"{f.kind}: {f.reason}" for f in against[:3])
        reason = f"risk {risk:.2f}" if risk is not None else "nothing could be seen"
        confidence = 0.0 if risk is None else abs(risk - 0.5) * 2
        return Verdict(
            item_id,
            *axes,
            f"{reason}; {says}" if says else reason,
            round(confidence, 4),
            self.name,
            self.model,
            self.rubric_version,
            number,
            kinds=tuple(f.kind for f in against),
            risk=risk,
        )

    def _sample(self, sample: Sample, number: int) -> Verdict:
        findings, features = sample_look(sample, self._cosine)
        # Without a picture nothing can be said of what it shows.
        if sample.screen is None:
            return self._verdict(sample.item_id, (None, None), findings, number, None)
        [risk] = risks_of(self._head("sample"), [features])
        return self._verdict(sample.item_id, (self.score(risk, "sample"), None), findings, number, risk)

    def _episode(self, episode: Episode, number: int, habits: Habits) -> list[Verdict]:
        look = look_at(episode, habits, self._cosine, self._head("transition"))
        rows = list(look.steps.values())
        risks = dict(zip(look.steps, risks_of(self._head("step"), rows), strict=True))
        [whole] = risks_of(self._head("episode"), [look.whole(risks, self._cosine)])
        reach = self.score(whole, "episode")
        verdicts = [self._verdict(episode.item_id, (None, reach), look.seen.whole, number, whole)]
        for step in episode.actions:
            risk = risks[step.item_id]
            # What is wrong with the whole speaks against each step.
            findings = [*look.seen.steps[step.item_id], *objections(look.seen.whole)]
            seen = step.screen is not None
            axes = (self.score(risk, "step") if seen else None, reach if seen else None)
            verdicts.append(self._verdict(step.item_id, axes, findings, number, risk if seen else None))
        return verdicts
