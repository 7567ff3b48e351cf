"""Several judges vote on each item.

The score of an axis is the median over the members that judged it, weighted if weights are given; a tie goes to the
lower score. It abstains where fewer than a quorum judged, so one member that sees nothing doesn't silence the others
and one that sees something doesn't decide alone. What it can't do: see what no member sees; members that share a model
or a prompt err together, and their agreement then says little.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from quality.evidence.episode import Habits
from quality.items.item import Item, Sample
from quality.judges.asking import NameCounts, Stamp, item_ids, step_reach, total
from quality.judges.judge import Judge, Verdict, identity
from quality.model_client.errors import ModelError
from schemas.ids import digest

VERSION = "ensemble-1"
MAX_REASON = 200
CLASSES = 3
"""keep, rewrite, reconstruct: those among which a judge of no skill hits one in three."""


@dataclass(frozen=True, slots=True)
class VotingRule:
    """`quorum`: the share of members that must judge an axis. `weights`: one per member; empty = all the same. A member
    of weight 0 is asked and named in the reason, and has no vote."""

    quorum: float = 0.5
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.quorum <= 1:
            raise ValueError(f"ensemble: quorum: expected a share above 0 and up to 1, found {self.quorum!r}")
        if any(not (math.isfinite(weight) and weight >= 0) for weight in self.weights):
            raise ValueError(f"ensemble: weights: expected finite numbers from 0 on, found {self.weights!r}")
        if self.weights and not any(self.weights):
            raise ValueError("ensemble: weights: expected at least one above 0, found only zeros")


def calibrated_weights(band_accuracies: Sequence[float]) -> tuple[float, ...]:
    """Share of right bands of each member on labelled items → weights: log((K - 1) p / (1 - p)) with K = 3 bands, 0 for
    a member no better than chance.

    The optimal weights of independent voters (Nitzan and Paroush, 1982), in SAMME's form for K classes (Zhu et al.,
    2009). p is bounded by 0.99, so that no finite bench makes a member infallible. Raises `ValueError` on shares
    outside 0..1.
    """
    for share in band_accuracies:
        if not 0 <= share <= 1:
            raise ValueError(f"ensemble: band accuracy: expected 0..1, found {share!r}")
    # No finite bench makes a member infallible: its weight would be infinite.
    bounded = [min(share, 0.99) for share in band_accuracies]
    return tuple(max(math.log((CLASSES - 1) * p / (1 - p)), 0.0) if p > 0 else 0.0 for p in bounded)


def weighted_median(scores: Sequence[int], weights: Sequence[float]) -> int:
    """The lowest score at which half of the weight is reached: the median, the lower of two in the middle."""
    half, reached = sum(weights) / 2, 0.0
    # By score; the first at which half of the weight is reached is the median.
    pairs = sorted(zip(scores, weights, strict=True))
    for score, weight in pairs:
        reached += weight
        if reached >= half - 1e-12 and weight > 0:
            return score
    return pairs[-1][0]


@dataclass(frozen=True, slots=True)
class EnsembleVote:
    """The result on one axis; `split` names each member's score, empty where no member gives this axis."""

    score: int | None
    confidence: float
    split: str


class EnsembleJudge:
    """See the module's docstring. Members are asked one after the other; each keeps its own server full."""

    name = "ensemble"

    def __init__(self, members: Sequence[Judge], rule: VotingRule | None = None) -> None:
        self.members = list(members)
        self.rule = rule or VotingRule()
        if not self.members:
            raise ValueError("ensemble: expected at least one member, found none")
        if self.rule.weights and len(self.rule.weights) != len(self.members):
            raise ValueError(f"ensemble: expected {len(self.members)} weights, found {len(self.rule.weights)}")
        self.weights = self.rule.weights or (1.0,) * len(self.members)
        self.labels = _labels(self.members)
        self.model = "+".join(self.labels)
        parts = [VERSION, [identity(member) for member in self.members], self.rule.quorum, list(self.weights)]
        self.rubric_version = f"{VERSION}-{digest(parts)[:8]}"
        self.counts = NameCounts()

    @property
    def requests_sent(self) -> int:
        """Requests of all members; a client that members share is counted once."""
        # Members may share a client, whose requests would else count twice.
        clients = {id(c): c for member in self.members if (c := getattr(member, "client", None)) is not None}
        others = [member for member in self.members if getattr(member, "client", None) is None]
        sent = sum(client.requests_sent for client in clients.values())
        return int(sent + sum(getattr(member, "requests_sent", 0) for member in others))

    @property
    def report(self) -> dict[str, object]:
        """Items, those all voters put into one band, those without quorum and those pending, since it was made."""
        return {name: self.counts[name] for name in ("items", "unanimous", "no_quorum", "pending")}

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        """Items → verdicts (see `Judge`). Raises `ModelError` if a member fails or answers about other items."""
        ids = item_ids(items)
        ballots = []
        for member, label in zip(self.members, self.labels, strict=True):
            ballot = member.judge(items, round_number, habits)
            # An answer about other items would be a score on the wrong ones.
            if [verdict.item_id for verdict in ballot] != ids:
                raise ModelError(f"ensemble: member {label} answered about other items than it was asked about")
            ballots.append(ballot)
        stamp = Stamp(self.name, self.model, self.rubric_version, round_number)
        combined: list[Verdict] = []
        # One column an item: the verdicts of all members on it.
        columns = iter(zip(*ballots, strict=True))
        for item in items:
            whole = self._combine(next(columns), stamp, None)
            combined.append(whole)
            if not isinstance(item, Sample):
                combined += [self._combine(next(columns), stamp, whole) for _ in item.actions]
        return combined

    def _combine(self, votes: Sequence[Verdict], stamp: Stamp, whole: Verdict | None) -> Verdict:
        """Members' verdicts on one item → its verdict; `whole` is the episode's for a step."""
        item_id, cost = votes[0].item_id, total(vote.cost for vote in votes)
        self.counts.add("items")
        # A member without a vote may be late; one with a vote is waited for.
        waits = any(vote.pending for vote, weight in zip(votes, self.weights, strict=True) if weight > 0)
        if waits or (whole is not None and whole.pending):
            self.counts.add("pending")
            return stamp.pending(item_id, cost)
        alignment = self._vote([vote.alignment for vote in votes])
        reach = self._vote([vote.reachability for vote in votes])
        if whole is not None:  # a step inherits the ensemble's view of its episode, as members' steps inherit theirs
            shown = reach.score is not None or alignment.score is not None
            inherited = step_reach(alignment.score, whole.reachability) if shown else None
            reach = EnsembleVote(inherited, min(reach.confidence, whole.confidence), reach.split)
        scored = [vote for vote in (alignment, reach) if vote.score is not None]
        bands = {vote.disposition for vote, weight in zip(votes, self.weights, strict=True) if weight > 0}
        self.counts.add("unanimous", len(bands) == 1 and bool(scored))
        self.counts.add("no_quorum", not scored)
        axes = (("alignment", alignment), ("reachability", reach))
        splits = [f"{axis} {vote.score} of {vote.split}" for axis, vote in axes if vote.split]
        said = "; ".join(f"{label}: {vote.reason[:MAX_REASON]}" for label, vote in zip(self.labels, votes, strict=True))
        reason = f"{'; '.join(splits) or 'no member judged'}; {said}"
        kinds = tuple(dict.fromkeys(kind for vote in votes for kind in vote.kinds))
        confidence = min((vote.confidence for vote in scored), default=0.0)
        return stamp.verdict(
            item_id,
            alignment.score,
            reach.score,
            reason,
            confidence,
            cost=cost,
            kinds=kinds,
            risk=self._risk(votes) if scored else None,
            unanswered=any(vote.unanswered for vote in votes),
        )

    def _vote(self, scores: Sequence[int | None]) -> EnsembleVote:
        """Scores of the members on one axis, None where one abstained → the median; its confidence is one less the
        spread (in tenths), times the share of members that judged."""
        voting = [k for k, weight in enumerate(self.weights) if weight > 0]
        given = [(score, self.weights[k]) for k in voting if (score := scores[k]) is not None]
        split = ", ".join(
            f"{label} {'abstains' if score is None else score}"
            for label, score in zip(self.labels, scores, strict=True)
        )
        # Too few judged this axis: no vote, but who said what still shows.
        if not given or len(given) < self.rule.quorum * len(voting):
            return EnsembleVote(None, 0.0, split if any(score is not None for score in scores) else "")
        known, weights = [score for score, _ in given], [weight for _, weight in given]
        spread = (max(known) - min(known)) / 10
        return EnsembleVote(weighted_median(known, weights), (1 - spread) * len(given) / len(voting), split)

    def _risk(self, votes: Sequence[Verdict]) -> float | None:
        """Weighted mean of the members' risks, 1 - score / 10 for one that gives only a score: a finer order of items
        than the median, not a calibrated probability."""
        given = []
        for vote, weight in zip(votes, self.weights, strict=True):
            # A judge without risks has its score, turned around.
            risk = vote.risk if vote.risk is not None else None if vote.score is None else 1 - vote.score / 10
            if risk is not None and weight > 0:
                given.append((risk, weight))
        if not given:
            return None
        return min(max(sum(risk * weight for risk, weight in given) / sum(weight for _, weight in given), 0.0), 1.0)


def _labels(members: Sequence[Judge]) -> list[str]:
    """Names that tell members apart: the judge's, with its model where it has one, numbered where both are the same."""
    plain = [member.name if member.model == "none" else f"{member.name}:{member.model}" for member in members]
    seen: Counter[str] = Counter()
    labels = []
    for label in plain:
        seen[label] += 1
        labels.append(label if seen[label] == 1 else f"{label}#{seen[label]}")
    return labels
