"""The judge built from V2's parts: keypoints for whole traces, step labels for steps, one question for samples."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from quality.evidence.episode import Habits
from quality.items.item import Episode, Item, Sample, Step
from quality.judges import keypoints as kp
from quality.judges import openai_judge, step_labels
from quality.judges.asking import NameCounts, Stamp, ask, step_reach, total
from quality.judges.judge import Verdict
from quality.judges.keypoints import JudgedOutcome, KeypointConfig, Keypoints, Reading
from quality.model_client.client import CheckedAnswer, ModelClient, NoAnswer, Request
from quality.model_client.questions import VerdictCost
from schemas.ids import digest


@dataclass(slots=True)
class _JudgedTrace:
    """One trace on its way to an outcome. `waits` once a ceiling left one of its questions for another night; `lost`
    once the model had no answer to one of them."""

    episode: Episode
    keypoints: Keypoints | None = None
    windows: list[list[Step]] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    outcome: JudgedOutcome | None = None
    waits: bool = False
    lost: NoAnswer | None = None
    costs: list[VerdictCost] = field(default_factory=list)


class KeypointJudge:
    """See `quality.judges.keypoints`. Abstains on a trace whose actions share one picture, on a step without one, and
    on what the model can't answer though it answers others."""

    name = "keypoints"

    def __init__(self, client: ModelClient, config: KeypointConfig | None = None) -> None:
        self.client = client
        self.model = client.model
        self.config = config or KeypointConfig()
        versions = [kp.RUBRIC_VERSION, step_labels.RUBRIC_VERSION, openai_judge.RUBRIC_VERSION, asdict(self.config)]
        self.rubric_version = f"{kp.TEMPLATE_VERSION}-{digest(versions)[:8]}"
        self.counts = NameCounts()

    @property
    def requests_sent(self) -> int:
        return self.client.requests_sent

    @property
    def report(self) -> dict[str, object]:
        """Traces decided by rule and by a final judgement, and each outcome's number, since the judge was made."""
        return dict(self.counts.plain())

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        """Items → verdicts (see `Judge`). `habits` isn't needed."""
        stamp = Stamp(self.name, self.model, self.rubric_version, round_number)
        traces = {item.item_id: _JudgedTrace(item) for item in items if isinstance(item, Episode) and _can_show(item)}
        requests: dict[tuple[str, str], Request] = {}
        for item in items:
            requests |= {("item", id_): request for id_, request in _single_requests(item).items()}
        for trace in traces.values():  # traces of one goal share its question
            goal = trace.episode.instruction
            requests["goal", goal] = kp.keypoint_request(goal, self.config)
        answers = ask(self.client, requests)
        # An answer that several traces share is billed to the first of them.
        billed: set[str] = set()
        for trace in traces.values():
            goal = trace.episode.instruction
            self._start(trace, answers["goal", goal], goal not in billed)
            billed.add(goal)
        # Each stage runs for all traces at once: one after the other would leave the server idle.
        self._read_windows(list(traces.values()))
        self._decide(list(traces.values()))
        singles = {id_: answer for (kind, id_), answer in answers.items() if kind == "item"}
        return [v for item in items for v in self._verdicts(item, traces.get(item.item_id), singles, stamp)]

    def _start(self, trace: _JudgedTrace, answer: CheckedAnswer | NoAnswer | None, billed: bool) -> None:
        if answer is not None and billed:
            trace.costs.append(answer.cost)
        if not isinstance(answer, CheckedAnswer):
            trace.waits, trace.lost = answer is None, answer
            return
        trace.keypoints = kp.read_keypoints(answer, self.config)
        if trace.keypoints.statements:  # a goal without checkable statements goes to the final judgement at once
            trace.windows = kp.windows_of(kp.shown_steps(trace.episode), self.config)

    def _read_windows(self, traces: Sequence[_JudgedTrace]) -> None:
        """All windows of all traces side by side; fills `readings`."""
        requests = {
            (number, place): kp.window_request(trace.episode, trace.keypoints, window)
            for number, trace in enumerate(traces)
            if trace.keypoints is not None
            for place, window in enumerate(trace.windows)
        }
        for (number, place), answer in ask(self.client, requests).items():
            trace = traces[number]
            if answer is not None:
                trace.costs.append(answer.cost)
            if not isinstance(answer, CheckedAnswer) or trace.keypoints is None:
                trace.waits, trace.lost = trace.waits or answer is None, trace.lost or _no_answer(answer)
                continue
            count = len(trace.keypoints.statements)
            trace.readings.append(kp.read_window(answer, count, trace.windows[place]))

    def _decide(self, traces: Sequence[_JudgedTrace]) -> None:
        """By rule where the windows leave no doubt, else by the final judgement."""
        open_: dict[int, Request] = {}
        for number, trace in enumerate(traces):
            if trace.waits or trace.lost or trace.keypoints is None:
                continue
            count = len(trace.keypoints.statements)
            # A view with holes can confirm the goal; it can't refute it.
            incomplete = trace.episode.is_prefix or kp.is_cut(kp.shown_steps(trace.episode), trace.windows)
            trace.outcome = kp.rule(trace.readings, count, incomplete) if count else None
            if trace.outcome is not None:
                self.counts.add("by_rule")
            else:
                open_[number] = kp.final_request(trace.episode, trace.keypoints, trace.readings, self.config)
        for number, answer in ask(self.client, open_).items():
            if answer is not None:
                traces[number].costs.append(answer.cost)
            if not isinstance(answer, CheckedAnswer):
                traces[number].waits, traces[number].lost = answer is None, answer
                continue
            traces[number].outcome = kp.read_final(answer)
            self.counts.add("by_final_judgement")
        for trace in traces:
            if trace.outcome is not None:
                self.counts.add(trace.outcome.word)

    def _verdicts(
        self, item: Item, trace: _JudgedTrace | None, singles: dict[str, CheckedAnswer | NoAnswer | None], stamp: Stamp
    ) -> list[Verdict]:
        if isinstance(item, Sample):
            return [_of_sample(item, singles[item.item_id], stamp)]
        if trace is not None and trace.waits:
            whole = stamp.pending(item.item_id, total(trace.costs))
        else:
            whole = _of_trace(item, trace, stamp)
        return [whole, *(_of_step(step, singles, whole, stamp) for step in item.actions)]


def _no_answer(answer: CheckedAnswer | NoAnswer | None) -> NoAnswer | None:
    return answer if isinstance(answer, NoAnswer) else None


def _can_show(episode: Episode) -> bool:
    """Whether screenshots can show what the trace did: there are some, and they don't all show one moment of it."""
    return bool(kp.shown_steps(episode)) and not episode.one_picture


def _single_requests(item: Item) -> dict[str, Request]:
    """Item id → question about a sample or a step; steps without a picture have none."""
    if isinstance(item, Sample):
        return {item.item_id: openai_judge.sample_request(item)}
    built = {step.item_id: step_labels.label_request(item, step) for step in item.actions}
    return {id_: request for id_, request in built.items() if request is not None}


def _of_sample(item: Sample, answer: CheckedAnswer | NoAnswer | None, stamp: Stamp) -> Verdict:
    if answer is None:
        return stamp.pending(item.item_id)
    if isinstance(answer, NoAnswer):
        return stamp.unanswered(item.item_id, answer)
    said = answer.fields
    return stamp.verdict(
        item.item_id, said["alignment"], None, said["reason"][:500], said["confidence"] / 10, cost=answer.cost
    )


def _of_trace(episode: Episode, trace: _JudgedTrace | None, stamp: Stamp) -> Verdict:
    if trace is not None and trace.lost is not None:
        left = NoAnswer(trace.lost.said, total(trace.costs) or trace.lost.cost)
        return stamp.unanswered(episode.item_id, left)
    if trace is None or trace.outcome is None:
        return stamp.verdict(episode.item_id, None, None, "no screenshots that show what the trace did", 0.0)
    outcome = trace.outcome
    scores = kp.PREFIX_REACHABILITY if episode.is_prefix else kp.REACHABILITY
    reason = f"{outcome.word}: {outcome.reason}"
    return stamp.verdict(
        episode.item_id,
        None,
        scores[outcome.word],
        reason,
        outcome.confidence,
        cost=total(trace.costs),
        kinds=(outcome.word,) if outcome.word != "completed" else (),
    )


def _of_step(step: Step, singles: dict[str, CheckedAnswer | NoAnswer | None], whole: Verdict, stamp: Stamp) -> Verdict:
    answer = singles.get(step.item_id)
    if whole.pending or (answer is None and step.item_id in singles):
        return stamp.pending(step.item_id, answer.cost if answer is not None else None)
    if answer is None:
        reach = step_reach(None, whole.reachability)
        return stamp.verdict(step.item_id, None, reach, f"no screenshot; episode: {whole.reason[:300]}", 0.0)
    if isinstance(answer, NoAnswer):
        return stamp.unanswered(step.item_id, answer, step_reach(None, whole.reachability))
    label = answer.fields["label"]
    alignment = step_labels.ALIGNMENT[label]
    reach = step_reach(alignment, whole.reachability)
    why = f"; episode: {whole.reason[:300]}" if reach is not None and reach < alignment else ""
    return stamp.verdict(
        step.item_id,
        alignment,
        reach,
        f"{label}: {answer.fields['reason'][:300]}{why}",
        answer.fields["confidence"] / 10,
        cost=answer.cost,
        kinds=(label,) if label != "correct" else (),
    )
