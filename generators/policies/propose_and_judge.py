"""Propose and judge as a wrapper: several policies (or one, drawn several times) propose a next action, a judge picks.

GTA1's test-time scaling. One proposal is the identity: nobody is asked, the view goes through as it is.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from generators.policies.agent_prompt import AgentPrompt, template
from generators.policies.chat_endpoint import ChatEndpoint, Sampling, picture
from generators.policies.policy import Decision, Policy, PolicyView
from generators.tasks.world_interface import ScreenElement
from schemas.action_types import POINTED
from schemas.actions import Action, format, render

SEED_STEP = 7919
"""Between the seeds of proposers: proposals of one policy are draws of their own."""


class ProposalJudge(Protocol):
    """Picks one of several proposals; every one that it is shown has a legal action."""

    name: str
    needs_tree: bool

    def choose(self, view: PolicyView, proposals: Sequence[Decision]) -> tuple[int, int, int]:
        """(index of the best, tokens of the prompt, tokens of the answer)."""
        ...


class RuleJudge:
    """The embedded judge, without a model: the act that most proposals name, hits on an element first.

    Two clicks on one element are one act. It knows nothing of the goal: it can't distinguish a right minority from a
    wrong majority."""

    name = "rule"
    needs_tree = True

    def choose(self, view: PolicyView, proposals: Sequence[Decision]) -> tuple[int, int, int]:
        """See `ProposalJudge.choose`; ties go to the proposal made first."""
        # The judge compares acts, not texts: two points in one button are one vote.
        acts = [self._act(one.action, view.elements) for one in proposals if one.action is not None]
        votes = Counter(acts)
        # Where a tree is known, a click that hits nothing loses to any that hits.
        missed = [view.elements and act.startswith("nothing") for act in acts]
        # Misses last, then most votes, then the earliest: never a draw.
        best = min(range(len(acts)), key=lambda n: (bool(missed[n]), -votes[acts[n]], acts.index(acts[n])))
        return best, 0, 0

    @staticmethod
    def _act(action: Action, elements: Sequence[ScreenElement]) -> str:
        """What an action comes to: its kind on an element, else its text."""
        if not isinstance(action, POINTED) or not elements:
            return format(action)
        x, y = action.box
        # unlike `worlds.hit_test.under`, elements without a key count: devices that give a tree may give no keys
        under = [p for p in elements if p.clickable and p.box[0] <= x <= p.box[2] and p.box[1] <= y <= p.box[3]]
        if not under:
            return f"nothing: {format(action)}"
        # The smallest under the point is what a click reaches; containers are larger.
        element = min(under, key=lambda p: (p.box[2] - p.box[0]) * (p.box[3] - p.box[1]))
        return f"{type(action).__name__} {element.box}"


class ModelJudge:
    """A model behind the OpenAI protocol picks by number; an answer without one takes the first proposal."""

    needs_tree = False

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self.name = endpoint.model
        self._endpoint, self._prompt = endpoint, AgentPrompt()

    # 600 characters a proposal: one that rambles doesn't crowd out the others.
    def choose(self, view: PolicyView, proposals: Sequence[Decision]) -> tuple[int, int, int]:
        """See `ProposalJudge.choose`. Raises `PolicyError` where the server gives no reply."""
        lines = [
            f"{n}. {render(p.action, view.platform)} {p.thought}".strip()[:600]
            for n, p in enumerate(proposals, 1)
            if p.action is not None
        ]
        text = template("choose", self._prompt.version).format(
            goal=view.goal.strip(), history=self._prompt.history_text(view.past, view), proposals="\n".join(lines)
        )
        content = [{"type": "text", "text": text}, picture(view.png)]
        said = self._endpoint.ask([{"role": "user", "content": content}], Sampling(max_tokens=16))
        number = re.search(r"\d+", said.text)
        # More than 3 digits isn't a number of a proposal; without any the first stands.
        picked = int(number.group()) - 1 if number and len(number.group()) < 4 else 0
        return (picked if 0 <= picked < len(proposals) else 0), said.prompt_tokens, said.completion_tokens


class ProposeAndJudge:
    """K policies that propose and a judge that picks; equal proposals aren't put to it.

    The first proposer has the episode's seed, the others seeds of their own. Proposals without a legal action are
    left out; if none has one, the first reply stands.
    """

    def __init__(self, proposers: Sequence[Policy], judge: ProposalJudge | None = None) -> None:
        if not proposers:
            raise ValueError("propose and judge: expected at least one policy that proposes, found none")
        self.proposers, self.judge = tuple(proposers), judge or RuleJudge()
        alone = len(self.proposers) == 1
        self.name = name_with_proposals(self.proposers[0].name, len(self.proposers), self.judge)
        self.needs_tree = any(p.needs_tree for p in proposers) or (not alone and self.judge.needs_tree)

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`."""
        for number, proposer in enumerate(self.proposers):
            # The first one has the episode's own seed, so that K = 1 is the policy itself.
            proposer.begin(goal, platform, seed + number * SEED_STEP)

    def recall(self, view: PolicyView, action: Action | None) -> None:
        """A turn that is carried out again: passed on to the proposers that keep count."""
        for proposer in self.proposers:
            recall = getattr(proposer, "recall", None)
            if callable(recall):
                recall(view.shown_to(proposer.needs_tree), action)

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`; the tokens are those of all proposals and the judge."""
        if len(self.proposers) == 1:
            return self.proposers[0].decide(view)
        made = [proposer.decide(view.shown_to(proposer.needs_tree)) for proposer in self.proposers]
        legal = [one for one in made if one.action is not None]
        prompt, completion = sum(one.prompt_tokens for one in made), sum(one.completion_tokens for one in made)
        # They agree: no question is worth asking.
        if len({format(one.action) for one in legal if one.action is not None}) < 2:
            chosen = legal[0] if legal else made[0]
        else:
            index, asked, answered = self.judge.choose(view.shown_to(self.judge.needs_tree), legal)
            chosen, prompt, completion = legal[index], prompt + asked, completion + answered
        return replace(chosen, prompt_tokens=prompt, completion_tokens=completion)


def name_with_proposals(name: str, count: int, judge: ProposalJudge) -> str:
    """Name of `count` policies `name` under a judge; its own where there is one alone."""
    return name if count == 1 else f"{name}+{count}-judged-by-{judge.name}"
