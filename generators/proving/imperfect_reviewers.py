"""Reviewers that err at set rates on steps whose truth is known: what two of them make of planted steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from generators.generation.tables import episode_of
from generators.proving.false_successes import ClaimedSuccess, DrawnScreens
from quality.items.item import Episode, Step, make_episode
from quality.refinement.dual_review import StepRuling
from quality.refinement.repairs import with_action
from schemas.action_types import Click
from schemas.actions import Action, format


@dataclass(frozen=True, slots=True)
class PlantedStep:
    """An episode with one step to be reviewed; `right`: the action that the site's oracle did there."""

    episode: Episode
    step: Step
    right: Action

    @property
    def sound(self) -> bool:
        """Whether the step does what is right."""
        return self.step.action == self.right


def planted_steps(runs: Sequence[ClaimedSuccess], seed: int) -> Iterator[PlantedStep]:
    """Every click of sound runs, every other one with a click on another element in its place."""
    rng, screens, number = Random(f"steps/{seed}"), DrawnScreens(), 0
    for run in runs:
        episode = episode_of(run.done, screens)
        if episode is None:
            continue
        for place, step in enumerate(episode.steps):
            if not isinstance(step.action, Click) or step.screen is None:
                continue
            number += 1
            others = [one for one in step.screen.elements if not one.holds(step.action.box) and 0 < one.area < 2e5]
            if number % 2 or not others:
                yield PlantedStep(episode, step, step.action)
                continue
            left, top, right, bottom = rng.choice(others).box
            wrong = Click((int((left + right) / 2), int((top + bottom) / 2)))
            rows = [with_action(one.row, wrong) if one is step else one.row for one in episode.steps]
            changed = make_episode(rows, episode.bank)
            yield PlantedStep(changed, changed.steps[place], step.action)


class ReviewerAtRate:
    """Accepts wrong actions at one rate and refuses right ones at another, each by a draw of its own; where it refuses
    without a correction before it, it names the right action with chance `corrects`, else some other."""

    def __init__(
        self,
        name: str,
        truth: Mapping[str, Action],
        false_accepts: float,
        false_refusals: float,
        corrects: float,
        seed: int,
    ) -> None:
        self.name, self._truth, self._corrects, self._seed = name, truth, corrects, seed
        self._accepts, self._refuses = false_accepts, false_refusals

    def review(self, episode: Episode, step: Step, earlier: StepRuling | None = None) -> StepRuling:
        """See `StepReviewer.review`."""
        assert step.action is not None
        if self._takes(step, step.action):
            return StepRuling(True, "drawn")
        if earlier is not None:
            # arbitrates: another's correction passes or not by the same draws
            passes = earlier.corrected is not None and self._takes(step, earlier.corrected)
            return StepRuling(False, "drawn", earlier.corrected if passes else None)
        right = self._truth[step_key(step)]
        known = self._draw(step, "corrects") < self._corrects
        wrong = Click((self._number(step), self._number(step)))
        return StepRuling(False, "drawn", right if known and right != step.action else wrong)

    def _takes(self, step: Step, action: Action) -> bool:
        drawn = self._draw(step, format(action))
        return drawn >= self._refuses if action == self._truth[step_key(step)] else drawn < self._accepts

    def _number(self, step: Step) -> int:
        return Random(f"{self.name}/{self._seed}/{step_key(step)}").randint(0, 1000)

    def _draw(self, step: Step, what: str) -> float:
        return Random(f"{self.name}/{self._seed}/{step_key(step)}/{what}").random()


def step_key(step: Step) -> str:
    """What names a step among all planted ones: its id and what it does."""
    return f"{step.item_id} {step.row['screenshot_sha256']}"
