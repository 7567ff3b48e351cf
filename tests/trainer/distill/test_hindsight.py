"""Towards what a teacher pushes that reads what followed: a small reader of sites whose planner knows what is right.

The policy chooses among a screen's clickable elements by the words of the prompt and of the elements. Student and
teacher are one network; the teacher's prompt is `with_hindsight`'s, whose conclusion is what the right click let show.
Asked about are drawn clicks that were wrong, whose reward is 0 and whose group may hold no other.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn
from torch.nn import functional

from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import TEMPLATES, make_site
from pipelines.prompts import messages, navigation_text, prompt_text, reply_text
from schemas.actions import Click, render
from trainer.distill.hints import with_hindsight, with_type
from trainer.modeling.batches import Row
from trainer.proving.methods import MethodCheck
from trainer.rl.rewards import ReplyTarget

WORDS, WIDTH = 2048, 32
SITES, STEPS, BATCH = 3, 400, 32
NEW = 8
"""Elements that a conclusion quotes at most, each by its label and its text: a tick alone says nothing."""
Hint = Callable[[Row, ReplyTarget], Row | None]


@dataclass(frozen=True)
class Moment:
    """A click of the planner: its row, whose answer ends with what followed, and what could be clicked instead."""

    row: Row
    truth: ReplyTarget
    elements: tuple[str, ...]
    right: int


@cache
def moments(site_seed: int, tasks: int) -> tuple[Moment, ...]:
    """Clicks on the planner's ways through the sites of all templates after which something new shows."""
    return tuple(_moments(site_seed, tasks))


def _moments(site_seed: int, tasks: int) -> Iterator[Moment]:
    for kind in TEMPLATES:
        world = InterpretedWorld(make_site)
        for task in TaskMaker(make_site(kind, site_seed)).tasks(tasks, site_seed):
            world.reset(task.start)
            history: list[tuple[int, str]] = []
            for action in task.path:
                before = world.elements()
                shown = [one for one in before if one.clickable]
                world.act(action)
                known = {(one.name, one.text) for one in before}
                new = [f"{one.name} {one.text}" for one in world.elements() if (one.name, one.text) not in known][:NEW]
                places = [at for at, one in enumerate(shown) if isinstance(action, Click) and one.centre == action.box]
                if places and new and len(shown) > 1:
                    row = {
                        "messages": messages("navigation", navigation_text(task.instruction, history)),
                        "answer": reply_text(action, "web", conclusion="now shows: " + "; ".join(new)),
                    }
                    elements = tuple(f"{one.role} {one.text} {one.name}" for one in shown)
                    yield Moment(row, ReplyTarget("navigation", action), elements, places[0])
                history.append((len(history) + 1, render(action, "web")))


def tokens(texts: Sequence[str], most: int) -> torch.Tensor:
    """[texts, most] numbers of words, the last of long texts, 0 behind the end."""
    found = torch.zeros(len(texts), most, dtype=torch.long)
    for at, text in enumerate(texts):
        words = [1 + zlib.crc32(word.encode()) % (WORDS - 1) for word in re.findall(r"\w+", text.lower())][-most:]
        found[at, : len(words)] = torch.tensor(words, dtype=torch.long)
    return found


class Reader(nn.Module):
    """Words have a vector and, in a prompt, a weight; a new word that stands in both is found by its vector."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.words = nn.Parameter(torch.randn(WORDS, WIDTH, generator=generator) / WIDTH**0.5)
        self.weights = nn.Parameter(torch.full((WORDS,), 0.2))
        self.turned = nn.Parameter(torch.eye(WIDTH))

    def forward(self, asked: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        """log π [B, elements] of prompts [B, words] over elements [B, elements, words], where there are words."""
        prompt = (self.words[asked] * (self.weights[asked] * (asked > 0))[..., None]).sum(1)
        there = (shown > 0)[..., None]
        element = (self.words[shown] * there).sum(2) / there.sum(2).clamp(min=1)
        scores = torch.einsum("bd,bed->be", prompt @ self.turned, element)
        return torch.log_softmax(scores.masked_fill(shown[..., 0] == 0, -torch.inf), -1)


@dataclass(frozen=True)
class Screens:
    """Moments as tensors: prompts without and with the hint, elements, and the place of the right one."""

    plain: torch.Tensor
    hinted: torch.Tensor
    shown: torch.Tensor
    right: torch.Tensor

    @staticmethod
    def of(found: Sequence[Moment], hint: Hint) -> Screens:
        hinted = [hint(one.row, one.truth) or one.row for one in found]
        most = max(len(one.elements) for one in found)
        shown = torch.stack([functional.pad(t := tokens(one.elements, 8), (0, 0, 0, most - len(t))) for one in found])
        texts = ([prompt_text(row["messages"]) for row in rows] for rows in ([one.row for one in found], hinted))
        plain, told = (tokens(some, 400) for some in texts)
        return Screens(plain, told, shown, torch.tensor([one.right for one in found]))


READS: dict[str, tuple[Hint, bool]] = {
    "told the type": (with_type, True),
    "never read a hint": (with_hindsight, False),
    "hindsight": (with_hindsight, True),
}
"""Member → what its teacher reads more than the student, and whether the network was trained on such prompts, too."""


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """In percent, of drawn clicks that were wrong on new sites: the planner's click is made likelier, and of all clicks
    the most so. And of all: drawn clicks that were right, and the teacher's likeliest ones that were."""
    hint, trained = READS[member]
    generator = torch.Generator().manual_seed(seed)
    tasks = max(2, round(10 * share))
    own = Screens.of([one for site in range(SITES) for one in moments(10 * seed + site, tasks)], hint)
    policy = Reader(generator)
    optimiser = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for step in range(max(2, round(STEPS * share))):
        some = torch.randint(len(own.right), (BATCH,), generator=generator)
        asked = own.hinted if trained and step % 2 else own.plain
        loss = functional.nll_loss(policy(asked[some], own.shown[some]), own.right[some])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    new = Screens.of(moments(10 * seed + SITES, tasks), hint)
    with torch.no_grad():
        student, teacher = policy(new.plain, new.shown), policy(new.hinted, new.shown)
    drawn = torch.multinomial(student.exp(), 1, generator=generator).squeeze(1)
    wrong = drawn != new.right
    gap = (teacher - student).nan_to_num(nan=-torch.inf)[wrong]
    right = new.right[wrong]
    found = {
        "right_likelier": gap.gather(1, right[:, None]) > 0,
        "right_most": gap.argmax(1) == right,
        "student": ~wrong,
        "teacher": teacher.argmax(1) == new.right,
    }
    return {name: 100 * float(some.float().mean()) for name, some in found.items()}


CHECK = MethodCheck(
    name="hindsight",
    system="OpenClaw-RL",
    asks="of wrong clicks those after which the planner's is pushed up, percent (wanted: 90)",
    members=tuple(READS),
    reference="told the type",
    figures=("right_likelier", "right_most", "student", "teacher"),
    run=run,
)


def test_what_followed_points_to_the_right_click_where_the_teacher_can_read_it() -> None:
    """90 % were wanted; as many as the teacher itself gets right of what the student finds hard. On a small budget."""
    told, unread, hindsight = (run(name, 0, 0.4)["right_likelier"] for name in READS)
    assert hindsight > 65 and hindsight > told + 15 and hindsight > unread + 5
