"""Step verification as a wrapper: an action is checked before it is carried out, and drawn again where it is refused.

The checks are D-Artemis's (does the action do what its own thought says?) and UI-Venus-2.0's (is the step correct,
exploratory, ineffective or incorrect, by screen, reasoning and action?). A refused action is repaired where the check
knows what the thought asked for, else another one is drawn. One try is the identity: nobody checks.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from generators.policies.chat_endpoint import ChatEndpoint, Sampling, picture
from generators.policies.policy import Decision, Policy, PolicyView
from generators.policies.propose_and_judge import SEED_STEP
from pipelines.prompts import reply_text
from quality.evidence.consistency import check_thought
from quality.items.drawing import draw_action, to_png
from quality.items.screens import Element
from quality.judges.orders import without_orders
from quality.judges.step_labels import LABELS, RUBRIC
from quality.model_client.questions import data_block
from schemas.actions import Action, format, render

REFUSED_LABELS = frozenset(("ineffective", "incorrect"))
"""Of the labels of `quality.judges.step_labels`: an exploratory step may be the only way on."""
EARLIER_ACTIONS = 5
MOST_TEXT = 2000
"""Characters of a thought that a model is shown."""


@dataclass(frozen=True, slots=True)
class StepCheck:
    """What a check says of an action before it is carried out. `instead`: the action that it would take."""

    accepted: bool
    reason: str = ""
    instead: Action | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


class StepChecker(Protocol):
    """Says whether an action may be carried out. It sees the screen before it, never the one after."""

    name: str
    needs_tree: bool

    def check(self, view: PolicyView, decision: Decision) -> StepCheck:
        """The check of a decision that has an action. Raises `PolicyError` where a model gives no reply."""
        ...


class ThoughtChecker:
    """The embedded check, without a model: the thought, or the conclusion where there is none, against the action.

    It knows nothing of the goal, and accepts what says nothing of its action."""

    name = "thoughts"
    needs_tree = True

    def check(self, view: PolicyView, decision: Decision) -> StepCheck:
        """See `StepChecker.check`."""
        assert decision.action is not None
        elements = [Element(one.box, one.role, one.text, one.name) for one in view.elements]
        said = without_orders(decision.thought or decision.conclusion)
        found = check_thought(said, decision.action, elements)
        return StepCheck(found.agrees is not False, found.reason, found.implied)


class ModelChecker:
    """A model behind the OpenAI protocol labels the step; one that gives no label accepts."""

    needs_tree = False

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self.name = endpoint.model
        self._endpoint = endpoint

    def check(self, view: PolicyView, decision: Decision) -> StepCheck:
        """See `StepChecker.check`."""
        assert decision.action is not None
        before = [render(turn.action, view.platform) for turn in view.past if turn.action is not None]
        text = "\n".join(
            (
                data_block("goal", view.goal),
                data_block("earlier_actions", before[-EARLIER_ACTIONS:]),
                data_block("reasoning", decision.thought[:MOST_TEXT]),
                data_block("action", render(decision.action, view.platform)),
            )
        )
        drawn = to_png(draw_action(view.png, decision.action))
        said = self._endpoint.ask(
            [
                {"role": "system", "content": RUBRIC},
                {"role": "user", "content": [{"type": "text", "text": text}, picture(drawn)]},
            ],
            Sampling(max_tokens=200),
        )
        label = _label_in(said.text)
        return StepCheck(label not in REFUSED_LABELS, label, None, said.prompt_tokens, said.completion_tokens)


def _label_in(reply: str) -> str:
    """The label that a reply names first; "" for none. "incorrect" holds "correct", so the longer ones come first."""
    text = reply.lower()
    found = [(text.find(label), -len(label), label) for label in LABELS if label in text]
    return min(found)[2] if found else ""


class StepVerification:
    """Up to K policies are asked one after the other until the check accepts an action.

    The first has the episode's seed, the others seeds of their own, so that a policy that draws its replies draws
    another one. Where all are refused, the action that most of them named stands (ties: the first): right ones
    coincide, wrong ones differ.
    """

    def __init__(self, proposers: Sequence[Policy], checker: StepChecker) -> None:
        if not proposers:
            raise ValueError("step verification: expected at least one policy, found none")
        self.proposers, self.checker = tuple(proposers), checker
        alone = len(self.proposers) == 1
        self.name = name_with_verification(self.proposers[0].name, len(self.proposers), checker)
        self.needs_tree = any(one.needs_tree for one in proposers) or (not alone and checker.needs_tree)

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`."""
        for number, proposer in enumerate(self.proposers):
            proposer.begin(goal, platform, seed + number * SEED_STEP)

    def recall(self, view: PolicyView, action: Action | None) -> None:
        """A turn that is carried out again: passed on to the policies that keep count."""
        self._pass_on(self.proposers, view, action)

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`; the tokens are those of all that was asked."""
        if len(self.proposers) == 1:
            return self.proposers[0].decide(view.shown_to(self.proposers[0].needs_tree))
        prompt = completion = 0
        refused: list[Decision] = []
        chosen: Decision | None = None
        waiting = list(self.proposers)
        while waiting and chosen is None:
            proposer = waiting.pop(0)
            made = proposer.decide(view.shown_to(proposer.needs_tree))
            prompt, completion = prompt + made.prompt_tokens, completion + made.completion_tokens
            if made.action is None:
                refused.append(made)
                continue
            found = self.checker.check(view.shown_to(self.checker.needs_tree), made)
            prompt, completion = prompt + found.prompt_tokens, completion + found.completion_tokens
            chosen = made if found.accepted else self._repaired(view, made, found)
            refused.append(made)
        if chosen is None:
            chosen = _most_named(refused)
        # those that weren't asked hear of the turn, too: some count their turns or remember screens
        self._pass_on(waiting, view, chosen.action)
        return replace(chosen, prompt_tokens=prompt, completion_tokens=completion)

    def _repaired(self, view: PolicyView, made: Decision, found: StepCheck) -> Decision | None:
        """The decision with the action that the check would take, if that passes the check in its turn."""
        if found.instead is None:
            return None
        reply = reply_text(found.instead, view.platform, made.thought, made.conclusion)
        repaired = replace(made, reply=reply, action=found.instead)
        return repaired if self.checker.check(view.shown_to(self.checker.needs_tree), repaired).accepted else None

    @staticmethod
    def _pass_on(proposers: Sequence[Policy], view: PolicyView, action: Action | None) -> None:
        for proposer in proposers:
            recall = getattr(proposer, "recall", None)
            if callable(recall):
                recall(view.shown_to(proposer.needs_tree), action)


def _most_named(refused: Sequence[Decision]) -> Decision:
    """The decision whose action most of the refused ones share, the first of equals; without any action, the first."""
    legal = [one for one in refused if one.action is not None]
    if not legal:
        return refused[0]
    votes = Counter(format(one.action) for one in legal if one.action is not None)
    return max(legal, key=lambda one: votes[format(one.action)] if one.action is not None else 0)


def name_with_verification(name: str, tries: int, checker: StepChecker) -> str:
    """Name of a policy `name` with so many tries under a check; its own where there is one try alone."""
    return name if tries == 1 else f"{name}+{tries}-checked-by-{checker.name}"
