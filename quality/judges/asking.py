"""What judges that ask models share: which item answers which request, and answers that may wait for another night."""

import threading
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from quality.items.item import Item, Sample
from quality.judges.judge import KEEP_FROM, Verdict
from quality.judges.openai_judge import episode_request, sample_request, step_request
from quality.model_client.client import CheckedAnswer, ModelClient, NoAnswer, Request
from quality.model_client.questions import VerdictCost

K = TypeVar("K", bound=Hashable)


def item_ids(items: Iterable[Item]) -> list[str]:
    """Ids of the verdicts on `items`, in the order of the contract: a sample's own; an episode's, then its steps'."""
    ids: list[str] = []
    for item in items:
        ids.append(item.item_id)
        if not isinstance(item, Sample):
            ids += [step.item_id for step in item.actions]
    return ids


def requests_of(items: Iterable[Item], only: Collection[str] | None = None) -> dict[str, Request]:
    """Item id → the OpenAI judge's request about it, for all ids of `items` or those in `only`."""
    built: dict[str, Request] = {}
    for item in items:
        wanted = [id_ for id_ in item_ids([item]) if only is None or id_ in only]
        if isinstance(item, Sample):
            built |= {id_: sample_request(item) for id_ in wanted}
            continue
        steps = {step.item_id: step for step in item.actions}
        for id_ in wanted:
            built[id_] = step_request(item, steps[id_]) if id_ in steps else episode_request(item)
    return built


def ask(client: ModelClient, requests: Mapping[K, Request]) -> dict[K, CheckedAnswer | NoAnswer | None]:
    """Key → answer; None for one that a ceiling left for another night, `NoAnswer` for one that the model can't answer.
    All run side by side. Raises `ModelError`."""
    # In the order of the requests, whatever order answers came in.
    return dict(zip(requests, client.ask_all(list(requests.values())), strict=True))


def step_reach(alignment: int | None, reach: int | None) -> int | None:
    """The reachability that a step's verdict carries: its episode's. If nothing judged the step itself, a good trace
    says nothing for it (it goes to review), a bad one still speaks against it."""
    return reach if alignment is not None or (reach is not None and reach < KEEP_FROM) else None


def total(costs: Iterable[VerdictCost | None]) -> VerdictCost | None:
    """Sum of what is known; None if nothing was asked."""
    known = [cost for cost in costs if cost is not None]
    if not known:
        return None
    summed = known[0]
    for cost in known[1:]:
        summed = summed + cost
    return summed


class NameCounts:
    """Counts by name; safe to add to from several threads, as parts are judged side by side."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str, count: int = 1) -> None:
        with self._lock:
            self._counts[name] += count

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def plain(self) -> dict[str, int]:
        """Names in order with their counts, zeros left out."""
        with self._lock:
            return {name: count for name, count in sorted(self._counts.items()) if count}


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who judges, in which round: what all verdicts of one call have in common."""

    judge: str
    model: str
    rubric_version: str
    round: int = 0

    def verdict(
        self,
        item_id: str,
        alignment: int | None,
        reachability: int | None,
        reason: str,
        confidence: float,
        *,
        cost: VerdictCost | None = None,
        kinds: tuple[str, ...] = (),
        risk: float | None = None,
        unanswered: bool = False,
    ) -> Verdict:
        """A verdict with this stamp."""
        return Verdict(
            item_id,
            alignment,
            reachability,
            reason,
            confidence,
            self.judge,
            self.model,
            self.rubric_version,
            self.round,
            cost=cost,
            kinds=kinds,
            risk=risk,
            unanswered=unanswered,
        )

    def unanswered(self, item_id: str, answer: NoAnswer, reachability: int | None = None) -> Verdict:
        """An abstention on what the model can't answer; `reachability` of an episode that speaks against its step."""
        # A model's own words may be long.
        return self.verdict(item_id, None, reachability, answer.reason[:500], 0.0, cost=answer.cost, unanswered=True)

    def pending(self, item_id: str, cost: VerdictCost | None = None) -> Verdict:
        """An item that waits for another night."""
        return Verdict(
            item_id,
            None,
            None,
            "not asked yet: a ceiling was reached",
            0.0,
            self.judge,
            self.model,
            self.rubric_version,
            self.round,
            cost=cost,
            pending=True,
        )
