"""What a user answered in a run: it stands under the goal from then on, in episodes, training rows and prompts."""

from collections.abc import Sequence

Exchange = tuple[str, str]
"""(what the agent asked, what the user answered)."""
_ASKED = "\nYou asked: "


def with_answers(goal: str, exchanges: Sequence[Exchange]) -> str:
    """The goal as an agent reads it after questions were answered."""
    return goal + "".join(f"{_ASKED}{asked}\nThe user answered: {said}" for asked, said in exchanges)


def answers_of(instruction: str, goal: str) -> str:
    """What `with_answers` put under a run's first goal; "" for an instruction that is no such text."""
    under = instruction.removeprefix(goal)
    return under if under != instruction and under.startswith(_ASKED) else ""
