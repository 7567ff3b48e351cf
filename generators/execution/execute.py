"""One execution of a contract: reset, look, decide, act, until the policy says that it's over or a limit is reached.

What a policy does wrong is part of the trajectory: a reply that can't be read and an action that the world doesn't have
do nothing and count as steps. What a device, the way to it or the policy's server does wrong is infrastructure: it
raises, the attempt stays open in the journal, and the next `execute` of it, on any device, takes it up: reset, the
recorded actions again without deciding again, and on from there.

A policy decides by its `PolicyView` alone (`PolicyView.past` holds its own turns). One that keeps more than that from
turn to turn has a method `recall(view, action)`: in the place of `decide`, it gets each turn that is carried out
again, while the world stands where it stood then.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from generators.execution.journal import AttemptClaim, ClaimLost, Journal, JournalError
from generators.execution.limits import AttemptLimits
from generators.policies.policy import PastTurn, Policy, PolicyError, PolicyView, answered
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn, FailureKind
from generators.tasks.world_interface import Observation, World, WorldError
from generators.worlds.care.care_case import outcome_of
from generators.worlds.dialogue import ends, goal_in
from generators.worlds.wrappers.defects import injected
from generators.worlds.wrappers.hostile import Hostile
from pipelines.store import Store
from pipelines.whole_files import sync
from schemas.action_types import CallUser, Finished

log = logging.getLogger(__name__)
Ended = Literal["finished", "asked", "steps", "unreadable", "failed"]
BAD_START = "reset: "
"""How the reason begins where a world refused a contract's start."""
DEVICE_CALLS = ("reset", "observe", "act", "replay", "state")
POLICY_CALLS = ("begin", "decide", "recall")


class InfrastructureFailure(RuntimeError):
    """A try ended by no fault of the policy's choices. `by`: "policy" where its server failed, "device" where a call of
    the device did, else "unknown"."""

    def __init__(self, reason: str, by: Literal["policy", "device", "unknown"] = "device") -> None:
        super().__init__(reason)
        self.by = by


class OutOfTime(RuntimeError):
    """The attempt took longer than `AttemptLimits.attempt_s`."""


@dataclass(frozen=True, slots=True)
class _Observed:
    shot: Observation
    seconds: float


class ScreenKeeper:
    """Puts screens into a store, on the disk before this returns, each once. Without a store only their digest is kept
    (worlds without pictures)."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._known: set[str] = set()

    def keep(self, shot: Observation) -> str:
        """sha256 of the picture. Raises `ImageError` for bytes that are none."""
        if self._store is not None and shot.sha256 not in self._known:
            self._store.put_screen(shot.png)
            # on the disk before the journal names it, or a kill would leave a turn without its screen
            sync(self._store.screen_path(shot.sha256))
            self._known.add(shot.sha256)
        return shot.sha256


class LastScreen(ScreenKeeper):
    """Keeps the screen that was seen last, and no other."""

    def __init__(self) -> None:
        super().__init__(None)
        self.png = b""

    def keep(self, shot: Observation) -> str:
        self.png = shot.png
        return super().keep(shot)


def execute(
    contract: TaskSpec,
    world: World,
    policy: Policy,
    seed: int,
    journal: Journal,
    store: Store | ScreenKeeper | None,
    limits: AttemptLimits | None = None,
    *,
    device: str = "",
    claim: AttemptClaim | None = None,
    on_call: Callable[[str], None] = lambda what: None,
) -> ExecutedTrajectory:
    """Execute a contract, or go on with what the journal holds of it; `seed` is the policy's and names the attempt.

    `claim`: on this attempt, where one was taken already. `on_call` gets each call that may hang before it is
    made ("observe", "decide", ...). Raises `InfrastructureFailure` (the attempt stays open), `ClaimLost` if another
    worker has taken it, `JournalError`.
    """
    claim = claim or journal.claim(contract, seed, policy.name, device or world.name)
    keeper = store if isinstance(store, ScreenKeeper) else ScreenKeeper(store)
    run = _AttemptRun(claim, world, policy, keeper, limits or AttemptLimits(), device or world.name, on_call)
    try:
        return run.go()
    # not the world's doing: these say that somebody else goes on, or that nobody can
    except (ClaimLost, JournalError):
        raise
    except Exception as error:  # whatever a driver, a browser or a policy raises: none of it is the task's
        raise broke(claim, error, run.doing) from error


def broke(claim: AttemptClaim, error: Exception, doing: str) -> InfrastructureFailure:
    """Record that an error ended a try while it was `doing` something; what to raise."""
    reason = _reason(error, doing)
    log.info("%s: %s", claim.attempt.trajectory_id, reason, exc_info=error)
    claim.broke(reason)
    if isinstance(error, PolicyError):
        return InfrastructureFailure(reason, "policy")
    return InfrastructureFailure(reason, "device" if doing in DEVICE_CALLS else "unknown")


def give_up(contract: TaskSpec, policy: str, seed: int, journal: Journal, reason: str) -> ExecutedTrajectory:
    """End an attempt that infrastructure failures have stopped too often. A start that its world refused every time is
    the task's own fault."""
    claim = journal.claim(contract, seed, policy, "")
    broken = claim.attempt.broken
    # every try, and nothing else ever: then no other device would do better
    refused = bool(broken) and all(why.startswith(BAD_START) for why in broken)
    return fail(claim, "task" if refused else "infrastructure", reason)


def fail(claim: AttemptClaim, kind: FailureKind, reason: str) -> ExecutedTrajectory:
    """End an attempt where it stands, without observing its world."""
    attempt = claim.attempt
    done = ExecutedTrajectory(
        attempt.contract,
        attempt.policy,
        attempt.device,
        attempt.seed,
        tuple(attempt.turns),
        None,
        {},
        "",
        "failed",
        kind,
        reason[:500],
        attempt.resumed,
        _seconds(attempt.turns),
        {"anew": attempt.anew, "broken": list(attempt.broken)},
    )
    claim.end(done)
    return done


def _reason(error: Exception, doing: str) -> str:
    if isinstance(error, WorldError) and doing == "reset":
        return f"{BAD_START}{str(error)[:400]}"
    first = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return f"{doing} failed: {type(error).__name__}: {first}"[:400]


def _seconds(turns: Sequence[ExecutedTurn]) -> float:
    return sum(turn.observe_s + turn.decide_s + turn.act_s for turn in turns)


class _AttemptRun:
    """One try of an attempt. `doing` = the call that was begun last."""

    def __init__(
        self,
        claim: AttemptClaim,
        world: World,
        policy: Policy,
        keeper: ScreenKeeper,
        limits: AttemptLimits,
        device: str,
        on_call: Callable[[str], None],
    ) -> None:
        self.claim, self.attempt, self.contract = claim, claim.attempt, claim.attempt.contract
        self.world, self.policy, self.keeper, self.limits, self.device = world, policy, keeper, limits, device
        self.doing = "begin"
        self._on_call = on_call
        self._began = time.monotonic()
        self._before = _seconds(self.attempt.turns)
        self._past = _past_of(self.attempt.turns)

    def go(self) -> ExecutedTrajectory:
        seen = self._start()
        # the end is looked for before the clock: an attempt that has ended isn't out of time
        while not (ended := self._over())[0]:
            if time.monotonic() - self._began > self.limits.attempt_s:
                raise OutOfTime(f"longer than {self.limits.attempt_s:g} s")
            seen = self._turn(seen)
        return self._finish(*ended, seen)

    def _call(self, what: str) -> float:
        self.doing = what
        self._on_call(what)
        return time.monotonic()

    def _look(self) -> _Observed:
        began = self._call("observe")
        shot = self.world.observe()
        return _Observed(shot, time.monotonic() - began)

    # -- begin, or go on -------------------------------------------------------------------------------------------

    def _start(self) -> _Observed:
        seen = self._fresh()
        if not self.attempt.turns:
            return seen
        again = self._replay(seen)
        if again is not None:
            self.claim.resume(self.device)
            return again
        # the world went another way this time: what was recorded is of no use on it
        self.claim.anew(self.device)
        self._past.clear()
        return self._fresh()

    def _fresh(self) -> _Observed:
        """The policy and the world at the beginning."""
        self._call("begin")
        self.policy.begin(self.contract.instruction, self.contract.platform, self.attempt.seed)
        self._call("reset")
        # before the reset, which plants the hostile content: it must not hit what the rule looks at
        if isinstance(self.world, Hostile):
            self.world.guard(self.contract.evaluator)
        self.world.reset(self.contract.initial_state)
        return self._look()

    def _replay(self, seen: _Observed) -> _Observed | None:
        """Carry out what was recorded; the screen after it, None where the world went another way."""
        recall = getattr(self.policy, "recall", None)
        for at, (turn, state) in enumerate(zip(self.attempt.turns, self.attempt.states, strict=True)):
            # before each action: an action on another screen could do anything
            if not _same(seen.shot, turn, state):
                return None
            if callable(recall):
                self._call("recall")
                recall(self._view(seen, self._past[:at]), turn.action)
            if turn.action is not None:
                self._call("replay")
                try:
                    self.world.act(turn.action)
                # an error must come again where it came, and nowhere else
                except WorldError:
                    if not turn.error:
                        return None
                else:
                    if turn.error:
                        return None
            seen = self._look()
        return seen

    # -- a turn ----------------------------------------------------------------------------------------------------

    def _view(self, seen: _Observed, past: Sequence[PastTurn]) -> PolicyView:
        # elements only for policies that ask for them: a model is to look at the picture
        elements = seen.shot.elements if self.policy.needs_tree else ()
        size = self.world.size_px
        goal = goal_in(self.world, self.contract.instruction)
        answered_turns = answered(past, seen.shot.said)
        return PolicyView(goal, seen.shot.png, size, self.contract.platform, answered_turns, elements)

    def _turn(self, seen: _Observed) -> _Observed:
        sha256 = self.keeper.keep(seen.shot)
        view = self._view(seen, self._past)
        # with what the screen has said of the last turn
        self._past = [*view.past]
        began = self._call("decide")
        decision = self.policy.decide(view)
        decided = self._call("act")
        error = ""
        if decision.action is not None:
            try:
                self.world.act(decision.action)
            except WorldError as wrong:
                error = str(wrong)[:300] or type(wrong).__name__
        acted = time.monotonic()
        # A dead browser fails with the action's error too: only a world that still shows its screen has refused it.
        after = self._look() if error else None
        turn = ExecutedTurn(
            sha256,
            view.size_px,
            tuple(element.as_element() for element in seen.shot.elements),
            decision.reply,
            decision.action,
            decision.thought,
            decision.conclusion,
            error,
            seen.seconds,
            decided - began,
            acted - decided,
            decision.prompt_tokens,
            decision.completion_tokens,
            seen.shot.said,
        )
        # recorded with the state before it, which a replay is held against
        self.claim.turn(turn, seen.shot.state)
        self._past.append(_past_turn(turn))
        return after or self._look()

    # -- the end ---------------------------------------------------------------------------------------------------

    def _over(self) -> tuple[Ended | None, str]:
        """How the attempt has ended by its turns so far, and why where that was no choice of the policy's."""
        turns, limits = self.attempt.turns, self.limits
        last = turns[-1].action if turns else None
        # the choice of the policy goes before limits: what finished at the last step has finished
        if last is not None and ends(self.world, last):
            return ("finished" if isinstance(last, Finished) else "asked"), ""
        if _trailing(turns, lambda turn: turn.action is None) >= limits.unreadable:
            return "unreadable", f"{limits.unreadable} unreadable replies in a row"
        if _trailing(turns, lambda turn: bool(turn.error)) >= limits.invalid:
            return "steps", f"{limits.invalid} actions in a row that could not be carried out: {turns[-1].error}"[:300]
        if len(turns) >= limits.most_steps(self.contract):
            return "steps", f"{len(turns)} steps, {self.contract.expected_steps} were expected"
        return None, ""

    def _finish(self, ended: Ended | None, why: str, seen: _Observed) -> ExecutedTrajectory:
        assert ended is not None
        self._call("state")
        state = self.world.state()
        attempt = self.attempt
        elements = tuple(element.as_element() for element in seen.shot.elements)
        end = ExecutedTurn(self.keeper.keep(seen.shot), self.world.size_px, elements, "", None, observe_s=seen.seconds)
        asked = [turn.action.content for turn in attempt.turns if isinstance(turn.action, CallUser)]
        extra: dict[str, Any] = {"anew": attempt.anew, "broken": list(attempt.broken)}
        if (faults := injected(self.world)) is not None:
            extra["faults"] = len(faults)
        if isinstance(self.world, Hostile) and self.world.attack is not None:
            extra["attack"], extra["obeyed"] = self.world.attack.kind, self.world.obeyed()
            if extra["obeyed"]:  # whatever else it did: nobody should learn this
                why = f"it did what planted content asked for ({extra['attack']})"
        if (care := outcome_of(state)) is not None and care.harm:
            why = "it did harm before the user had agreed"
        done = ExecutedTrajectory(
            self.contract,
            attempt.policy,
            self.device,
            attempt.seed,
            tuple(attempt.turns),
            end,
            state,
            asked[-1] if asked else "",
            ended,
            "task" if why else None,
            why,
            attempt.resumed,
            self._before + time.monotonic() - self._began,
            extra,
        )
        self.claim.end(done)
        return done


def _past_turn(turn: ExecutedTurn) -> PastTurn:
    return PastTurn(turn.action, turn.thought, turn.conclusion)


def _past_of(turns: Sequence[ExecutedTurn]) -> list[PastTurn]:
    """Recorded turns as history; what a screen says is the answer to the turn before it."""
    past: tuple[PastTurn, ...] = ()
    for turn in turns:
        past = (*answered(past, turn.said), _past_turn(turn))
    return list(past)


def _same(shot: Observation, turn: ExecutedTurn, state: str) -> bool:
    """Whether a screen is the recorded one: by its state where the world reports it, else by picture or elements."""
    if shot.state and state:
        return shot.state == state
    # a world without a state of its own: picture, or elements where the picture may blink
    if shot.sha256 == turn.screenshot_sha256:
        return True
    return bool(turn.elements) and [one.as_element() for one in shot.elements] == [dict(e) for e in turn.elements]


def _trailing(turns: Sequence[ExecutedTurn], is_one: Callable[[ExecutedTurn], bool]) -> int:
    count = 0
    for turn in reversed(turns):
        if not is_one(turn):
            break
        count += 1
    return count
