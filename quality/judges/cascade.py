"""Rules first, a model where they can't decide, a second opinion near the cuts.

1. Exact evidence vetoes for free: what is measured or counted, and not read or guessed, needs no second reader. Such an
   item keeps the rules' score and the model isn't asked about it, nor about the steps of a trace vetoed as a whole,
   whose score can't rise above the trace's.
2. The model is asked about the rest.
3. A second opinion is asked where the first lies next to a cut (3, 4, 6 or 7), or where it contradicts what the rules
   object to. It comes from a second model, else from the same model by another rubric that looks for faults first (the
   same question again would get the same answer at temperature 0). Two opinions give their mean, rounded down; with an
   objection of the rules the median of the three. Two that lie far apart are for people to decide: the judge abstains.

`report` says how many calls the vetoes saved and what second opinions changed. What it can't see: what neither rules
nor model see; a veto trusts the source's own boxes, texts and screenshots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median_low
from typing import Any

from quality.evidence.episode import Habits
from quality.evidence.steps import Finding
from quality.items.item import Episode, Item, Sample
from quality.judges import openai_judge, rules
from quality.judges.asking import NameCounts, Stamp, ask, item_ids, requests_of, step_reach, total
from quality.judges.heard import heard
from quality.judges.judge import Verdict, route
from quality.model_client.client import CheckedAnswer, ModelClient, NoAnswer, Request
from schemas.ids import digest

VERSION = "cascade-1"
PROVEN = 3
"""A finding with a cap above this is a doubt, and never a veto."""
VETOES: dict[str, str] = {
    "scroll_contradicts": "the view's shift is measured between two pictures and runs against the step's own word",
    "repeated": "the same action again, and the pictures before and after it are the same at full size",
    "outside_target": "the step's own point lies outside the step's own target box: one of the two is wrong",
    "steps_after_finish": "actions are counted that follow Finished",
    "thin_box": "the box is thinner than any pointer can hit (2 of 1000 units)",
    "answer_outside": "the sample's own answer lies outside the sample's own target box",
    "boxes_moved": "at least 4 boxes of a picture, 70 % of all, and its own lie off their elements by one same vector",
    "empty_answer": "there is no text to learn from",
    "no_point": "a grounding answer that is no point can't be right in this answer format",
}
"""Kinds of finding that are proof by themselves: kind → why.

Left out, although the rules cap them at 3 or less: `misses_named`, `misses_goal`, `box_misses_named`, `leads_to_other`,
`entities_unmet`, `typed_differs`, `off_by_one`, `answer_not_on_screen`, `answer_elsewhere` and `listed_elsewhere`
compare words, and words paraphrase; `out_of_order` weighs how well screens fit, which is an inference; `blank_point`
alone, since a click on blank ground closes menus; `blank_box`, since faint borders vanish in the small grey picture;
`box_cuts`, since photographs look cut; `false_refusal`, since trees list hidden elements."""
JOINT_VETOES: dict[frozenset[str], str] = {
    frozenset(("blank_point", "no_effect")): "nothing is drawn or listed at the point, and nothing changes afterwards"
}
"""Findings that prove something only together; the gravest of them must be capped at `PROVEN` or less."""

SECOND_TEMPLATE = f"{openai_judge.TEMPLATE_VERSION}-second"
SECOND_RUBRIC = (
    "\nThis is a second, independent reading by a strict reviewer. Look for faults first: think of the strongest "
    "reason why the item is wrong, check it against the screenshots, then score what remains by the scale above. "
    "Don't invent faults: what the screenshots show to be right is right."
)


@dataclass(frozen=True, slots=True)
class CascadeConfig:
    """`second_near`: scores of the first opinion that call for a second; empty and `settle_objections` False = never.
    `apart`: the judge abstains where two opinions differ by so much or more. `accept_from`: where nothing objects and
    at least so many pieces of evidence confirm, the model isn't asked either; None (default) = it is always asked."""

    second_near: tuple[int, ...] = (3, 4, 6, 7)
    settle_objections: bool = True
    apart: int = 6
    accept_from: int | None = None

    def __post_init__(self) -> None:
        if any(type(score) is not int or not 0 <= score <= 10 for score in self.second_near):
            raise ValueError(f"cascade: second_near: expected ints 0..10, found {self.second_near!r}")
        if not 1 <= self.apart <= 11:
            raise ValueError(f"cascade: apart: expected 1..11 (11 = never abstain), found {self.apart!r}")
        if self.accept_from is not None and self.accept_from < 1:
            raise ValueError(f"cascade: accept_from: expected at least 1 or None, found {self.accept_from!r}")


@dataclass(frozen=True, slots=True)
class AxisFindings:
    """What the rules found on one axis of one item."""

    findings: tuple[Finding, ...]

    @property
    def objection(self) -> int | None:
        """The lowest cap of what speaks against; None if nothing does."""
        return min((finding.cap for finding in rules.objections(self.findings)), default=None)

    @property
    def confirmations(self) -> int:
        return sum(finding.cap >= 9 for finding in self.findings)

    @property
    def words(self) -> str:
        against = rules.objections(self.findings)
        return "; ".join(f"{f.kind}: {f.reason}" for f in against[:3] or self.findings[:3])[:400]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(finding.kind for finding in rules.objections(self.findings))


def veto(findings: Sequence[Finding]) -> str | None:
    """The kind of the finding that proves the item wrong (joint ones with `+`); None if nothing does."""
    proven = {finding.kind for finding in findings if finding.cap <= PROVEN}
    for kind in VETOES:
        # In the order of the table, so that the same findings always name the same veto.
        if kind in proven:
            return kind
    kinds = {finding.kind for finding in rules.objections(findings)}
    # One of the pair has to be proof-like by itself.
    joint = [pair for pair in JOINT_VETOES if pair <= kinds and pair & proven]
    return "+".join(sorted(joint[0])) if joint else None


def second_request(request: Request) -> Request:
    """The same material, by the rubric that looks for faults first."""
    return replace(request, template_version=SECOND_TEMPLATE, system=request.system + SECOND_RUBRIC)


@dataclass(frozen=True, slots=True)
class Opinion:
    """What was found out on one axis of one item; `score` None where the judge abstains. `waits`: a needed answer was
    left for another night; `unanswered`: the model can't give it."""

    score: int | None
    reason: str
    confidence: float
    answers: tuple[CheckedAnswer | NoAnswer, ...] = ()
    kinds: tuple[str, ...] = ()
    waits: bool = False
    unanswered: bool = False


class CascadeJudge:
    """See the module's docstring. `second` is a client of another model, None to ask the same one by another rubric."""

    name = "cascade"

    def __init__(
        self,
        rules_judge: rules.RulesJudge,
        model: ModelClient,
        second: ModelClient | None = None,
        config: CascadeConfig | None = None,
    ) -> None:
        self.first, self.second = model, second or model
        self.config = config or CascadeConfig()
        self.model = model.model if second is None else f"{model.model}+{second.model}"
        parts = [
            # All that changes a score enters the rubric's version, so that edited rules judge anew.
            VERSION,
            rules_judge.rubric_version,
            openai_judge.RUBRIC_VERSION,
            SECOND_RUBRIC,
            sorted(VETOES),
            sorted(sorted(pair) for pair in JOINT_VETOES),
            asdict(self.config),
            second is None,
        ]
        self.rubric_version = f"{VERSION}-{digest(parts)[:8]}"
        self.counts = NameCounts()
        self.vetoes = NameCounts()

    @property
    def requests_sent(self) -> int:
        """Requests that left this machine; answers from the cache aren't among them."""
        return self.first.requests_sent + (self.second.requests_sent if self.second is not self.first else 0)

    @property
    def report(self) -> dict[str, object]:
        """Since the judge was made: questions that asking a model about everything takes (`calls_without`), those not
        asked (`calls_saved`, of them vetoed, under a vetoed trace, accepted), second opinions and how many moved the
        item to another band; `calls_saved_net` = saved less second opinions."""
        names = (
            "calls_without",
            "calls_saved",
            "vetoed",
            "under_vetoed",
            "accepted",
            "second_opinions",
            "second_moved_band",
            "second_abstained",
        )
        plain: dict[str, Any] = {name: self.counts[name] for name in names}
        plain["calls_saved_net"] = plain["calls_saved"] - plain["second_opinions"]
        plain["share_saved"] = plain["calls_saved"] / plain["calls_without"] if plain["calls_without"] else 0.0
        plain["vetoes"] = self.vetoes.plain()
        return plain

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        """Items → verdicts (see `Judge`): all first opinions side by side, then all second ones."""
        habits = habits or Habits.of([item for item in items if isinstance(item, Episode)])
        seen: dict[str, AxisFindings] = {}
        settled: dict[str, Opinion] = {}
        for item in items:
            found = look(item, habits)
            seen |= found
            settled |= self._settle(item, found)
        # Only what the rules left open is asked.
        requests = requests_of(items, {id_ for id_ in item_ids(items) if id_ not in settled})
        first = ask(self.first, requests)
        # After all first answers, so that second ones run side by side as well.
        second = self._second_opinions(requests, first, seen)
        opinions = settled | {
            id_: self._opinion(seen[id_], answer, second.get(id_), id_ in second) for id_, answer in first.items()
        }
        stamp = Stamp(self.name, self.model, self.rubric_version, round_number)
        return [verdict for item in items for verdict in _verdicts(item, opinions, stamp)]

    def _settle(self, item: Item, found: Mapping[str, AxisFindings]) -> dict[str, Opinion]:
        """What the rules decide alone."""
        settled: dict[str, Opinion] = {}
        self.counts.add("calls_without", len(found))
        # Steps of a vetoed trace inherit its reachability: their own score couldn't lift them.
        whole_vetoed = isinstance(item, Episode) and veto(found[item.item_id].findings) is not None
        for id_, seen in found.items():
            kind = veto(seen.findings)
            score = rules.axis_score(seen.findings)
            if kind is not None:
                self.vetoes.add(kind)
                self.counts.add("vetoed")
                settled[id_] = Opinion(score, f"vetoed by rules: {seen.words}", 0.95, kinds=seen.kinds)
            elif whole_vetoed:
                self.counts.add("under_vetoed")
                settled[id_] = Opinion(None, "not asked: its trace is vetoed", 0.95, kinds=seen.kinds)
            elif self._accepts(seen):
                self.counts.add("accepted")
                settled[id_] = Opinion(score, f"confirmed by rules: {seen.words}", 0.9)
        self.counts.add("calls_saved", len(settled))
        return settled

    def _accepts(self, seen: AxisFindings) -> bool:
        wanted = self.config.accept_from
        return wanted is not None and seen.objection is None and seen.confirmations >= wanted

    def _second_opinions(
        self,
        requests: Mapping[str, Request],
        first: Mapping[str, CheckedAnswer | NoAnswer | None],
        seen: Mapping[str, AxisFindings],
    ) -> dict[str, CheckedAnswer | NoAnswer | None]:
        """Item id → second answer, for the items that call for one."""
        wanted = {
            id_: requests[id_]
            for id_, answer in first.items()
            if isinstance(answer, CheckedAnswer) and self._needs_second(answer, seen[id_])
        }
        self.counts.add("second_opinions", len(wanted))
        # The same model asked the same at temperature 0 would say the same.
        if self.second is self.first:
            wanted = {id_: second_request(request) for id_, request in wanted.items()}
        return ask(self.second, wanted)

    def _needs_second(self, answer: CheckedAnswer, seen: AxisFindings) -> bool:
        score = score_of(answer)
        # Next to a cut a point more or less decides what happens to the item.
        if score in self.config.second_near:
            return True
        objection = seen.objection
        return self.config.settle_objections and objection is not None and route(score) != route(objection)

    def _opinion(
        self,
        seen: AxisFindings,
        first: CheckedAnswer | NoAnswer | None,
        second: CheckedAnswer | NoAnswer | None,
        wanted: bool,
    ) -> Opinion:
        """First and second answer and the rules' objection → one opinion."""
        # Without the second answer that is needed the item waits, and the first stays in the cache.
        if first is None or (wanted and second is None):
            known = tuple(answer for answer in (first, second) if answer is not None)
            return Opinion(None, "", 0.0, known, waits=True)
        for answer in (first, second):  # a second opinion that can't be had leaves the item where one was needed
            if isinstance(answer, NoAnswer):
                requested = tuple(one for one in (first, second) if one is not None)
                return Opinion(None, answer.reason[:500], 0.0, requested, seen.kinds, unanswered=True)
        assert isinstance(first, CheckedAnswer) and not isinstance(second, NoAnswer)
        score, confidence = score_of(first), first.fields["confidence"] / 10
        reason = first.fields["reason"][:300]
        if second is None:
            return Opinion(score, reason, confidence, (first,), seen.kinds)
        other = score_of(second)
        reason = f"{reason}; second opinion {other} after {score}: {second.fields['reason'][:200]}"
        # Sure only as far as the two agree.
        confidence = (confidence + second.fields["confidence"] / 10) / 2 * (1 - abs(score - other) / 10)
        both, objection = (first, second), seen.objection
        if objection is not None:
            # Of three opinions the middle one: neither the model nor the rules win alone.
            combined = median_low([score, other, objection])
            reason = f"{reason}; rules: {seen.words}"
        elif abs(score - other) >= self.config.apart:
            # Two readings that far apart mean that one is wrong, and nobody knows which.
            self.counts.add("second_abstained")
            return Opinion(None, f"two opinions far apart: {reason}", confidence, both, seen.kinds)
        else:
            combined = (score + other) // 2
        self.counts.add("second_moved_band", route(combined) != route(score))
        return Opinion(combined, reason, confidence, both, seen.kinds)


def look(item: Item, habits: Habits) -> dict[str, AxisFindings]:
    """Item id → the rules' findings, in the order of the contract; a step has its own, not its trace's."""
    if isinstance(item, Sample):
        return {item.item_id: AxisFindings(tuple(rules.look_at_sample(item)))}
    found = rules.look_at_episode(heard(item, {}), habits)  # type: ignore[arg-type]  # an episode is heard as one
    return {item.item_id: AxisFindings(tuple(found.whole))} | {
        step.item_id: AxisFindings(tuple(found.steps[step.item_id])) for step in item.actions
    }


def score_of(answer: CheckedAnswer) -> int:
    """The score of an answer to a request of the OpenAI judge, on whichever axis it is about."""
    fields = answer.fields
    return int(fields["alignment"] if "alignment" in fields else fields["reachability"])


def _verdicts(item: Item, opinions: Mapping[str, Opinion], stamp: Stamp) -> list[Verdict]:
    own = opinions[item.item_id]
    cost = total(answer.cost for answer in own.answers)
    if own.waits:
        whole = stamp.pending(item.item_id, cost)
    else:
        alignment, reach = (own.score, None) if isinstance(item, Sample) else (None, own.score)
        whole = stamp.verdict(
            item.item_id,
            alignment,
            reach,
            own.reason,
            own.confidence,
            cost=cost,
            kinds=own.kinds,
            unanswered=own.unanswered,
        )
    if isinstance(item, Sample):
        return [whole]
    return [whole, *(_of_step(step.item_id, opinions[step.item_id], whole, stamp) for step in item.actions)]


def _of_step(item_id: str, opinion: Opinion, whole: Verdict, stamp: Stamp) -> Verdict:
    cost = total(answer.cost for answer in opinion.answers)
    if opinion.waits or whole.pending:
        return stamp.pending(item_id, cost)
    reach = step_reach(opinion.score, whole.reachability)
    below = reach is not None and (opinion.score is None or reach < opinion.score)
    why = f"; episode: {whole.reason[:300]}" if below else ""
    kinds = tuple(dict.fromkeys((*opinion.kinds, *whole.kinds)))
    return stamp.verdict(
        item_id,
        opinion.score,
        reach,
        opinion.reason + why,
        opinion.confidence,
        cost=cost,
        kinds=kinds,
        unanswered=opinion.unanswered,
    )
