"""Semi-online RL: stored episodes replayed with the policy's own history, and what that shows of it (UI-S1).

Single-step RL shows every step the recorded history, which a policy that acts never sees: it meets its own words and
points. Here a rollout goes through a stored episode; while its action is right, the stored next screen follows and the
history holds what the policy itself said. A wrong action is patched, the stored one standing in the history, up to
`patches` times; then the rollout ends. No device is needed: right is what `rewards.succeeds` says of the row.

    return of a step     r_t + γ · return of the next, ended by a wrong action: what comes after a patch isn't its merit
    return of a rollout  Σ r_t
    advantage            A_rollout (among the rollouts of the episode) + w · A_step (among those that reached the step)

The replies then train as samples of their own, as everywhere (`trainer.rl.grpo`). SOP, semi-online performance, is that
replay with the likeliest replies and without patches: how far it comes, and whether to the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from pipelines.prompts import asks_to_think, prompt_text, version_of
from pipelines.prompts.history import HISTORY_STEPS, shown_thought
from schemas.actions import parse_reply
from trainer.modeling.batches import Row
from trainer.modeling.generation import Completion, reply_limit
from trainer.modeling.sampler import Sampler
from trainer.offline.alignment import history_line, with_history
from trainer.offline.tasks import REPLIES, RlTask, complete_episodes
from trainer.rl.grpo import Advantages, group_advantages, shrunk_negatives
from trainer.rl.reward_figures import Scores
from trainer.rl.rewards import score, succeeds
from trainer.settings.grpo import GrpoConfig
from trainer.settings.offline import SemiOnlineConfig
from trainer.settings.rewards import RewardConfig

Answer = Callable[[Sequence[Row]], Sequence[Completion]]
"""Rows → one reply to each, in their order."""
Episode = Sequence[RlTask]
"""Every step of a stored navigation episode, from the first to the last."""


DEFAULT = SemiOnlineConfig()


@dataclass(frozen=True)
class Played:
    """A step of a rollout: the task as it was put (its history the policy's own), the reply and what it is worth."""

    task: RlTask
    reply: Completion
    scores: Scores
    right: bool

    @property
    def reward(self) -> float:
        """All terms together."""
        return self.scores["total"]


@dataclass(frozen=True)
class StoredRollout:
    """What a policy did in a stored episode, `episode` being its place in the list; the steps that it reached."""

    episode: int
    member: int
    steps: tuple[Played, ...]

    @property
    def done(self) -> int:
        """Steps before the first wrong action."""
        return next((i for i, step in enumerate(self.steps) if not step.right), len(self.steps))


def roll(
    episodes: Sequence[Episode],
    answer: Answer,
    *,
    group: int = 1,
    rewards: RewardConfig,
    config: SemiOnlineConfig = DEFAULT,
) -> list[StoredRollout]:
    """`group` rollouts of each episode, in the order of episodes; `answer` is asked for all of a step at once.

    Raises `ValueError` if it doesn't give a reply to every row.
    """
    played: list[list[Played]] = [[] for _ in range(len(episodes) * group)]
    own_words: list[dict[str, str]] = [{} for _ in played]
    wrong = [0] * len(played)
    # step by step over all rollouts, so that the model answers them in one batch
    for number in range(max(map(len, episodes), default=0)):
        # an episode is over for a rollout once it has been patched as often as it may be
        alive = [i for i in range(len(played)) if number < len(episodes[i // group]) and wrong[i] <= config.patches]
        tasks = [_own(episodes[i // group][number], own_words[i]) for i in alive]
        replies = answer([task.row for task in tasks]) if tasks else []
        if len(replies) != len(tasks):
            raise ValueError(f"semi-online: expected {len(tasks)} replies, found {len(replies)}")
        for i, task, reply in zip(alive, tasks, replies, strict=True):
            right = succeeds(reply.text, task.truth, rewards)
            played[i].append(Played(task, reply, score(reply.text, task.truth, rewards), right))
            if right:
                # a wrong step leaves no words: the stored action stands in the history in its place
                own_words[i] |= _words(task, reply.text, number, config.thoughts)
            else:
                wrong[i] += 1
    return [StoredRollout(i // group, i % group, tuple(steps)) for i, steps in enumerate(played)]


def _own(task: RlTask, said: Mapping[str, str]) -> RlTask:
    """The task with the policy's own words in its history; the very same one where they are the stored ones."""
    changes = {old: new for old, new in said.items() if old != new}
    chat = with_history(task.row["messages"], changes) if changes else task.row["messages"]
    return task if chat == task.row["messages"] else replace(task, row={**task.row, "messages": chat})


def _words(task: RlTask, text: str, number: int, thoughts: bool) -> dict[str, str]:
    """The line of a step in stored histories → the same with what the policy said."""
    reply = parse_reply(text, task.truth.space)
    assert task.truth.action is not None and reply.action is not None
    platform, version = task.row["platform"], version_of(prompt_text(task.row["messages"]))
    own = history_line(number, reply.action, platform, reply.thought if thoughts else "", version)
    return {history_line(number, task.truth.action, platform, version=version): own}


def prompts_with_thoughts(rollouts: Sequence[StoredRollout], config: SemiOnlineConfig) -> tuple[int, int]:
    """(steps whose prompt showed a step that the policy had thought at, of these those that ask for thoughts)."""
    shown = thinking = 0
    for rollout in rollouts if config.thoughts else ():
        thought: list[bool] = []
        for step in rollout.steps:
            if any(thought[-HISTORY_STEPS:]):
                shown += 1
                thinking += asks_to_think(prompt_text(step.task.row["messages"]))
            thought.append(step.right and bool(shown_thought(parse_reply(step.reply.text).thought)))
    return shown, thinking


def step_returns(rewards: Sequence[float], right: Sequence[bool], gamma: float) -> list[float]:
    """Discounted return of each step of a rollout; nothing after a wrong action counts for it or for those before."""
    found: list[float] = []
    after = 0.0
    for worth, was_right in zip(reversed(rewards), reversed(right), strict=True):
        after = worth + gamma * after if was_right else worth
        found.append(after)
    return found[::-1]


def two_level_advantages(
    rollouts: Sequence[StoredRollout], grpo: GrpoConfig, config: SemiOnlineConfig = DEFAULT
) -> Advantages:
    """A of every reply, rollout by rollout in the order given, step by step; a group is an episode.

    An episode without any difference, or of one rollout, is skipped and counted as in `group_advantages`; the replies
    of the others weigh the same within their episode. Negative step advantages shrink as `negative_floor` says.
    """
    members: dict[int, list[int]] = {}
    reached: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, rollout in enumerate(rollouts):
        members.setdefault(rollout.episode, []).append(i)
        for t in range(len(rollout.steps)):
            reached.setdefault((rollout.episode, t), []).append((i, t))
    returns = [
        step_returns([step.reward for step in one.steps], [step.right for step in one.steps], config.gamma)
        for one in rollouts
    ]
    totals = [sum(step.reward for step in one.steps) for one in rollouts]
    whole = group_advantages([[totals[i] for i in some] for some in members.values()], grpo)
    # flattened in the order in which the groups were given
    whole_of = dict(zip((i for some in members.values() for i in some), whole.values, strict=True))
    steps = group_advantages([[returns[i][t] for i, t in some] for some in reached.values()], grpo)
    right = [[rollouts[i].steps[t].right for i, t in some] for some in reached.values()]
    steps = shrunk_negatives(steps, right, grpo.negative_floor)
    places = (place for some in reached.values() for place in some)
    # the mean of a rollout doesn't say which of its steps made it good, a step's return doesn't see what came before
    both = {
        place: whole_of[place[0]] + config.step_weight * value
        for place, value in zip(places, steps.values, strict=True)
    }

    live, too_small = {}, 0
    for episode, some in members.items():
        own = [both[i, t] for i in some for t in range(len(rollouts[i].steps))]
        too_small += len(some) < 2
        if any(own):
            live[episode] = len(own)
    order = [(i, t) for i, one in enumerate(rollouts) for t in range(len(one.steps))]
    counts = [live.get(rollouts[i].episode, 0) for i, _ in order]
    weights = tuple(1.0 / (count * len(live)) if count else 0.0 for count in counts)
    values = tuple(both[place] for place in order)
    return Advantages(values, weights, len(members), len(members) - len(live) - too_small, too_small)


@dataclass(frozen=True)
class Update:
    """What an update trains on, flat: `replies[i].row` is the place of its task, `advantages.values[i]` its A and
    `scores[i]` the terms of its reward."""

    tasks: list[RlTask]
    replies: list[Completion]
    advantages: Advantages
    scores: list[Scores]


def update_of(rollouts: Sequence[StoredRollout], grpo: GrpoConfig, config: SemiOnlineConfig = DEFAULT) -> Update:
    """Rollouts → what `grpo_loss` takes."""
    steps = [step for rollout in rollouts for step in rollout.steps]
    replies = [replace(step.reply, row=i) for i, step in enumerate(steps)]
    advantages = two_level_advantages(rollouts, grpo, config)
    return Update([step.task for step in steps], replies, advantages, [step.scores for step in steps])


def whole_episodes(tasks: Sequence[RlTask]) -> dict[str, list[RlTask]]:
    """The episodes among tasks that are there from the first step to the last (`complete_episodes`), by name.

    Raises `ValueError` if there is none.
    """
    found = [[tasks[i] for i in steps] for steps in complete_episodes(tasks)]
    if not found:
        raise ValueError(f"semi-online: expected whole episodes to replay, found none in {len(tasks)} tasks")
    return {str(steps[0].episode): steps for steps in found}


def answering(sampler: Sampler, generator: torch.Generator | None, *, temperature: float = 1.0) -> Answer:
    """A sampler as who answers: replies drawn at a temperature, the likeliest ones at 0."""
    limit = reply_limit(sampler.processor.preset.max_answer_tokens, "navigation")

    def answer(rows: Sequence[Row]) -> list[Completion]:
        return sampler.draw(
            rows, temperature=temperature, generator=generator, max_new_tokens=limit, batch_size=REPLIES
        )

    return answer


def sop_progress(
    tasks: Sequence[RlTask], greedy: Sequence[Completion], answer: Answer, *, rewards: RewardConfig
) -> tuple[float, ...]:
    """Share of its steps that the policy does before the first wrong one, for each whole episode among the tasks.

    `greedy` are the likeliest replies to the tasks as they stand, which answer every step whose history the policy
    left as it is; `answer` gives those to the others.
    """
    # `_own` hands on the very row where nothing changed
    known = {id(task.row): reply for task, reply in zip(tasks, greedy, strict=True)}
    # the same episodes, in the same order, as `roll` is given below
    episodes = [[tasks[i] for i in steps] for steps in complete_episodes(tasks)]

    def likeliest(rows: Sequence[Row]) -> list[Completion]:
        new = [row for row in rows if id(row) not in known]
        # fresh replies come in the order of the rows that needed one
        fresh = iter(answer(new) if new else [])
        return [known[id(row)] if id(row) in known else next(fresh) for row in rows]

    rollouts = roll(episodes, likeliest, rewards=rewards, config=SemiOnlineConfig(patches=0))
    return tuple(one.done / len(episodes[one.episode]) for one in rollouts)
