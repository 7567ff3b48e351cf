"""Episodes that a client plays step by step: a world on this machine, the client's replies in the place of a policy's.

The rules are those of every other execution (`generators.execution.execute`): what a reply may say, what a step that
can't be carried out costs, who answers a question, when an episode is over, and what decides it.
"""

import base64
import queue
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generators.execution.execute import LastScreen, execute
from generators.execution.journal import AttemptClaim, Journal
from generators.execution.limits import AttemptLimits
from generators.policies.policy import Decision, PolicyView
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory
from generators.tasks.world_interface import World
from schemas.action_types import ACTION_SPACE, ActionSpace
from schemas.actions import parse_reply, render

# no limit of ours on a whole episode: who thinks for how long is the client's matter
DAY_S = 86_400.0
IDLE_S = 600.0
ANSWER_S = 600.0
"""Seconds that a world may take to its next screen, its start with all its programs included."""
CLOSE_S = 120.0
"""Seconds that a world may take to close."""


class SessionError(RuntimeError):
    """What a session was asked can't be done; the message says why. The session goes on."""


class ClientLeft(Exception):
    """An episode ends because its client wants or says no more; its world is as good as before."""


@dataclass(frozen=True)
class SessionRules:
    """What all sessions share.

    `opened`: the world of a task. `decide`: whether an episode succeeded, None where nothing can be said, and why.
    `prompt`: a turn in the words of training. `most_steps` 0: by the task. An episode is ended when its client sends
    nothing for `idle_s`, or its world shows nothing for `answer_s`.
    """

    opened: Callable[[TaskSpec], AbstractContextManager[World]]
    decide: Callable[[ExecutedTrajectory], tuple[bool | None, str]]
    prompt: Callable[[PolicyView], str]
    space: ActionSpace = ACTION_SPACE
    most_steps: int = 0
    idle_s: float = IDLE_S
    answer_s: float = ANSWER_S

    @property
    def limits(self) -> AttemptLimits:
        """Those of an episode: a client thinks as long as it needs."""
        if self.most_steps:
            return AttemptLimits(step_factor=0, step_extra=self.most_steps, attempt_s=DAY_S)
        return AttemptLimits(attempt_s=DAY_S)


@dataclass(frozen=True)
class WorldAnswer:
    """What a client gets: the screen with what it is asked, whether the episode is over, and then what it earned (1.0
    for a task that is done, else 0.0)."""

    observation: dict[str, Any]
    reward: float | None = None
    done: bool = False


@dataclass
class EpisodeState:
    """Of the episode under way, or of the last."""

    episode_id: str = ""
    task_id: str = ""
    step_count: int = 0


@dataclass
class _Episode:
    """A task with what goes to and fro while it is played; None among the replies ends it."""

    task: TaskSpec
    number: int
    replies: queue.Queue[str | None] = field(default_factory=queue.Queue)
    answers: queue.Queue[WorldAnswer | Exception] = field(default_factory=queue.Queue)


@dataclass
class _RemotePolicy:
    """`decide` hands a view out and waits for the reply to it."""

    rules: SessionRules
    shown: Callable[[PolicyView], None]
    replies: queue.Queue[str | None]
    name: str = "remote"
    needs_tree: bool = False

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`."""

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        self.shown(view)
        try:
            text = self.replies.get(timeout=self.rules.idle_s)
        except queue.Empty:
            raise ClientLeft(f"nothing came for {self.rules.idle_s:g} s; reset first") from None
        if text is None:
            raise ClientLeft("the client left the episode")
        reply = parse_reply(text, self.rules.space)
        return Decision(text, reply.action, reply.thought, reply.conclusion)


class WorldSession:
    """One client's episodes, one after the other. Its calls come from one thread at a time; the world lives in a
    thread of its own, as browsers' drivers want it."""

    def __init__(self, rules: SessionRules) -> None:
        self._rules = rules
        self._commands: queue.Queue[_Episode | None] = queue.Queue()
        self._episode: _Episode | None = None
        self._count = 0
        self.state = EpisodeState()
        self._thread = threading.Thread(target=self._run, name="world-session", daemon=True)
        self._thread.start()

    def reset(self, task: TaskSpec, episode_id: str = "") -> WorldAnswer:
        """Begin an episode of the task, leaving the one under way. Raises `SessionError` where the world can't."""
        self._leave()
        self._count += 1
        self.state = EpisodeState(episode_id or f"{task.task_id}-{self._count}", task.task_id)
        self._episode = _Episode(task, self._count)
        self._commands.put(self._episode)
        return self._answer(self._episode)

    def step(self, reply: str) -> WorldAnswer:
        """Carry out a reply: text of an agent, or an action alone. Raises `SessionError` where there is no episode."""
        if self._episode is None:
            raise SessionError("no episode is under way; reset first")
        self._episode.replies.put(reply)
        found = self._answer(self._episode)
        self.state.step_count += 1
        return found

    def close(self) -> None:
        """Leave the episode under way and close the world."""
        self._leave()
        self._commands.put(None)
        self._thread.join(CLOSE_S)

    def _leave(self) -> None:
        if self._episode is not None:
            # None ends the wait of the policy that the world's thread is in
            self._episode.replies.put(None)
            self._episode = None

    def _answer(self, episode: _Episode) -> WorldAnswer:
        try:
            found = episode.answers.get(timeout=self._rules.answer_s)
        except queue.Empty:
            # what comes after this belongs to no episode that anybody asks about
            self._leave()
            raise SessionError(
                f"the world {episode.task.world} showed nothing for {self._rules.answer_s:g} s"
            ) from None
        if isinstance(found, Exception):
            self._episode = None
            raise SessionError(" ".join(str(found).split())) from found
        if found.done:
            self._episode = None
        return found

    # -- in the world's thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="vesper-session-") as folder,
            Journal(Path(folder), "session") as journal,
            ExitStack() as held,
        ):
            world, name = None, ""
            while (episode := self._commands.get()) is not None:
                try:
                    # a world is opened anew only for a task of another one:
                    # starting programs is what takes long
                    if world is None or episode.task.world != name:
                        held.close()
                        world, name = held.enter_context(self._rules.opened(episode.task)), episode.task.world
                    episode.answers.put(self._play(episode, world, journal))
                except Exception as error:  # of the world or its driver
                    # of a client that left: the world itself is as good as before
                    if not isinstance(error.__cause__, ClientLeft):
                        world = None  # it is opened again for the next episode
                    episode.answers.put(error)

    def _play(self, episode: _Episode, world: World, journal: Journal) -> WorldAnswer:
        """The last step of an episode; those before are put out by its policy."""
        screens, task = LastScreen(), episode.task
        claim = journal.claim(task, episode.number, _RemotePolicy.name, world.name)
        policy = _RemotePolicy(self._rules, lambda view: self._show(view, claim, episode), episode.replies)
        done = execute(task, world, policy, episode.number, journal, screens, self._rules.limits, claim=claim)
        success, why = self._rules.decide(done)
        if success is None:
            raise SessionError(f"the episode can't be decided: {why}")
        last = {**self._shown(screens.png, world.size_px, task), "ended": done.ended, "why": done.failure}
        return WorldAnswer(last, float(success), True)

    def _show(self, view: PolicyView, claim: AttemptClaim, episode: _Episode) -> None:
        turns = claim.attempt.turns
        seen = self._shown(view.png, view.size_px, claim.attempt.contract)
        past = [
            {"action": render(one.action, view.platform) if one.action else "", "answer": one.answer}
            for one in view.past
        ]
        more = {"instruction": view.goal, "prompt": self._rules.prompt(view), "history": past}
        episode.answers.put(WorldAnswer({**seen, **more, "error": turns[-1].error if turns else ""}))

    def _shown(self, png: bytes, size: Sequence[int], task: TaskSpec) -> dict[str, Any]:
        return {
            "task_id": task.task_id,
            "instruction": task.instruction,
            "platform": task.platform,
            "screenshot": base64.b64encode(png).decode(),
            "size": list(size),
        }
