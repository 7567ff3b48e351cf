"""A profile: how the authors of a published model ask it and read what it says, so that its figures are theirs.

A profile is a TOML file beside this module, or anywhere (`load_profile`). Its prompts are templates; docs/profiles.md
says how to add one and lists the fields, each filled once, so that a goal that holds braces stays as it is.
"""

import tomllib
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from schemas.coordinates import UNITS
from schemas.ids import digest
from schemas.settings import Flag, Number, Settings, Whole, nearest, setting

FOLDER = Path(__file__).parent
ReplyForm = Literal["tags", "tool_call", "calls", "pyautogui", "words"]
OWN = "vesper"
"""How this project asks, of which `--words`, `--history` and `--thinking` choose: the default, and no file."""


class ProfileSampling(Settings):
    """How replies are drawn, with vLLM's names; what is neutral isn't sent."""

    temperature: Number = setting(0.0, "0 is greedy.", ge=0)
    top_p: Number = setting(1.0, "Share of the distribution that is drawn from.", gt=0, le=1)
    max_tokens: Whole = setting(512, "Of a reply at most.", ge=1)
    repetition_penalty: Number = setting(1.0, "Of tokens that stand in the prompt or the reply.", gt=0)
    frequency_penalty: Number = setting(0.0, "By how often a token was said.")

    def extra(self) -> dict[str, float]:
        """What goes into the body beside the protocol's own fields."""
        beside = {"repetition_penalty": 1.0, "frequency_penalty": 0.0}
        # Neutral values aren't sent: servers that don't know them would refuse.
        return {name: getattr(self, name) for name, neutral in beside.items() if getattr(self, name) != neutral}


class ProfileHistory(Settings):
    """What is said of past steps."""

    steps: Whole = setting(0, "The last steps shown; 0 shows all.", ge=0)
    line: str = setting("Step {number}: {action}", "A step.")
    without_thought: str = setting("", "A step without a thought, where that is told otherwise.")
    join: str = setting("\n", "What stands between two steps.")
    empty: str = setting("", "What stands where there are none.")
    absolute: Flag = setting(True, "Whether steps keep their number, from 1; else the first one shown is 0.")
    cleaned: Flag = setting(False, "Whether line breaks and double quotes of what is shown are taken out.")
    turns: Flag = setting(False, "Whether steps are turns of the assistant, not a text.")


class ProfilePrompt(Settings):
    """One kind of question."""

    system: str = setting("", "The system's turn; none if empty.")
    user: str = setting(..., "The user's turn.")
    drops_full_stop: Flag = setting(False, "Whether a full stop at the end of the instruction is left out.")
    units: Number = setting(UNITS, "What coordinates of the frame `relative` count to: 1000, 999, 1.", gt=0)
    bracket: Literal["none", "first", "last"] = setting(
        "none", "Grounding: which bracket of numbers is read where a reply calls nothing."
    )
    several: Literal["first", "last"] = setting("first", "Of several calls in one reply, which is carried out.")
    actions: dict[str, str] = setting({}, "How the history writes actions, by type; what lacks is written in our form.")
    sampling: ProfileSampling | None = setting(None, "Otherwise than the profile's.")
    history: ProfileHistory | None = setting(None, "Otherwise than the profile's.")

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if "{goal}" not in self.user:
            raise ValueError(f"expected {{goal}} in user, found {self.user[:40]!r}")
        return self


class ProfilePicture(Settings):
    """The size at which a screenshot is sent: sides that are multiples of `factor`, `least` to `most` pixels."""

    factor: Whole = setting(1, "A patch's side times the patches that are merged along it; 1 sends it as it is.", ge=1)
    least: Whole = setting(3136, "Pixels, at least.", ge=1)
    most: Whole = setting(12_845_056, "Pixels, at most.", ge=1)


class Profile(Settings):
    """See the module."""

    name: str = setting("", "What reports call it.")
    reply: ReplyForm = setting(
        ...,
        "How an action is written: in our three tags; as JSON in <tool_call>; behind Action: as a call in lower case; "
        "as pyautogui code; behind actions: as a word in capitals, with what it needs in brackets.",
    )
    frame: Literal["relative", "pixels"] = setting("relative", "What coordinates count: `units`, or pixels as sent.")
    enter_after_type: Literal["never", "web"] = setting("never", "Where the harness presses Enter after each Type.")
    zoom: Number = setting(
        0.0, "Grounding: how many times a second look enlarges the part around the first answer.", ge=0
    )
    picture: ProfilePicture = setting(ProfilePicture())
    history: ProfileHistory = setting(ProfileHistory())
    sampling: ProfileSampling = setting(ProfileSampling())
    grounding: ProfilePrompt = setting(...)
    mobile: ProfilePrompt = setting(...)
    computer: ProfilePrompt = setting(..., "On web and desktop.")

    @model_validator(mode="after")
    def _frame(self) -> Self:
        # Tags hold our frame; any other would be misread without an error.
        own = self.frame == "relative" and self.mobile.units == self.computer.units == UNITS
        if self.reply == "tags" and not own:
            raise ValueError("reply tags: expected frame relative and units 1000, which is what they hold")
        return self

    @property
    def version(self) -> str:
        """Name and digest of all that it says, for lineage."""
        return f"{self.name} {digest(self.plain())[:16]}"

    def prompt(self, platform: str) -> ProfilePrompt:
        """How a step is asked for on mobile, web or desktop."""
        return self.mobile if platform == "mobile" else self.computer

    def drawn(self, prompt: ProfilePrompt) -> ProfileSampling:
        """How replies to a prompt are drawn."""
        return prompt.sampling or self.sampling


def profiles() -> list[str]:
    """The names of the profiles that come with Vesper, its own first."""
    return [OWN, *sorted(path.stem for path in FOLDER.glob("*.toml"))]


def load_profile(said: str) -> Profile | None:
    """The profile of that name, or of a file `….toml`; None for Vesper's own. Raises `ValueError` for a name that isn't
    known, and for a file that is missing or says what isn't understood."""
    if said == OWN:
        return None
    path = Path(said).expanduser() if said.endswith(".toml") else FOLDER / f"{said}.toml"
    # Names stay inside this folder: only a path that ends in .toml may lead elsewhere.
    if path.parent == FOLDER and path.stem not in profiles():
        raise ValueError(
            f"profile: expected one of {', '.join(profiles())}, or path/to/your.toml, found {said[:60]!r}; "
            f"{nearest(said, profiles())}"
        )
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"profile {said}: expected a TOML file, found none that can be read: {error}") from error
    return Profile.parsed({"name": path.stem, **given}, str(path))
