"""A profile's messages: prompts with their history, and the screenshot at the size at which the model is shown it."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from generators.policies.agent_prompt import without_typed_enters
from generators.policies.chat_endpoint import Sampling, picture
from generators.policies.policy import PastTurn, PolicyView
from generators.policies.profiles.profile import Profile, ProfilePicture, ProfilePrompt
from generators.policies.profiles.replies import Size, read_action
from pipelines.store.images import image_size, open_image
from schemas import action_types
from schemas.actions import ESCAPES, SYNTHESISED_PATHS, ModelReply, render
from schemas.coordinates import UNITS

_FIELD = re.compile(r"\{(\w{1,20})\}")
PICTURE = "{picture}"


def sent_size(size: Size, wanted: ProfilePicture) -> Size:
    """(width, height) at which a picture of that size is sent, as Qwen's processors resize."""
    # A factor of 1: the model takes pictures as they are.
    if wanted.factor == 1:
        return size
    # The processors' own rule, imported here since it loads much.
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    height, width = smart_resize(size[1], size[0], wanted.factor, wanted.least, wanted.most)
    return width, height


def sent_picture(data: bytes, wanted: ProfilePicture) -> bytes:
    """An encoded picture at its `sent_size`: the bytes themselves where it has that already, else a PNG."""
    from PIL import Image

    size = sent_size(image_size(data), wanted)
    # The very bytes, so that a digest of what was sent stays that of the screenshot.
    if size == image_size(data):
        return data
    whole = io.BytesIO()
    open_image(data).resize(size, Image.Resampling.BICUBIC).save(whole, "PNG")
    return whole.getvalue()


def sampling_of(profile: Profile, prompt: ProfilePrompt, temperature: float = 0.0, most: int | None = None) -> Sampling:
    """How replies to a prompt are drawn; `temperature` above 0 and `most` tokens are somebody's own wish."""
    drawn = profile.drawn(prompt)
    # The profile's values unless somebody wishes others.
    return Sampling(temperature or drawn.temperature, drawn.top_p, most or drawn.max_tokens, drawn.extra())


@dataclass(frozen=True, slots=True)
class ProfilePrompter:
    """Asks and reads as a profile says (in the place of `AgentPrompt`). `space`: which actions its replies may be; what
    the model is told stays the profile's, as its makers wrote it."""

    profile: Profile
    space: action_types.ActionSpace = action_types.ACTION_SPACE

    def messages(self, view: PolicyView, *, enter_is_typed: bool = False) -> list[dict[str, object]]:
        """The chat for a turn. `enter_is_typed`: the harness's own Enters are left out of the history."""
        past = without_typed_enters(view.past) if enter_is_typed else view.past
        return self._chat(self.profile.prompt(view.platform), view.goal, view.png, past, view.platform)

    def grounding(self, instruction: str, png: bytes) -> list[dict[str, object]]:
        """The chat that asks where something is."""
        return self._chat(self.profile.grounding, instruction, png, (), "web")

    def read(self, text: str, view: PolicyView) -> ModelReply:
        """What a reply to `messages` says, points in 0..1000 of the screen."""
        return read_action(text, self.profile, self.profile.prompt(view.platform), self.size(view.png), self.space)

    def size(self, png: bytes) -> Size:
        """Width and height at which a screenshot is sent."""
        return sent_size(image_size(png), self.profile.picture)

    def _chat(
        self, prompt: ProfilePrompt, goal: str, png: bytes, past: Sequence[PastTurn], platform: str
    ) -> list[dict[str, object]]:
        size, said = self.size(png), prompt.history or self.profile.history
        lines = self._lines(prompt, past, platform, size)
        goal = goal.strip()
        values = {
            "goal": goal.removesuffix(".") if prompt.drops_full_stop else goal,
            "history": said.join.join(lines) or said.empty,
            "width": str(size[0]),
            "height": str(size[1]),
        }
        shown = picture(sent_picture(png, self.profile.picture))
        before, placed, after = prompt.user.partition(PICTURE)
        # Before and after the picture, where the prompt says that it stands between.
        parts: list[object] = [_text(before, values), *([shown] if placed else []), _text(after, values)]
        chat: list[dict[str, object]] = [
            {"role": "system", "content": _filled(prompt.system, values)},
            {"role": "user", "content": [part for part in parts if part]},
        ]
        if said.turns:
            chat += [{"role": "assistant", "content": line} for line in lines]
        # Prompts without a place for it get the picture as the last turn.
        if not placed:
            chat.append({"role": "user", "content": [shown]})
        return chat if prompt.system else chat[1:]

    def _lines(self, prompt: ProfilePrompt, past: Sequence[PastTurn], platform: str, size: Size) -> list[str]:
        """The last steps; those whose reply couldn't be read are left out, as they did nothing."""
        said = prompt.history or self.profile.history
        # `steps` 0 takes them all: a slice from -0 is everything.
        shown = [(number, turn) for number, turn in enumerate(past, 1) if turn.action is not None][-said.steps :]
        found = []
        for at, (number, turn) in enumerate(shown):
            assert turn.action is not None
            action = self._written(turn.action, prompt, platform, size)
            values = {"thought": turn.thought, "action": action, "conclusion": turn.conclusion.strip() or action}
            # Models were trained on histories without them.
            if said.cleaned:
                values = {name: text.replace("\n", "").replace('"', "") for name, text in values.items()}
            line = said.line if turn.thought.strip() or not said.without_thought else said.without_thought
            found.append(_filled(line, {**values, "number": str(number if said.absolute else at)}))
        return found

    def _written(self, action: action_types.Action, prompt: ProfilePrompt, platform: str, size: Size) -> str:
        """An action as the model itself would have written it."""
        form = prompt.actions.get(type(action).__name__)
        # Kinds that the model doesn't know are written in our form.
        if form is None:
            return render(action, platform)
        frame = size if self.profile.frame == "pixels" else (prompt.units, prompt.units)
        values: dict[str, str] = {}
        for (x, y), ending in zip(_points(action), ("", "2"), strict=False):
            values |= {f"x{ending}": f"{_native(x, frame[0]):g}", f"y{ending}": f"{_native(y, frame[1]):g}"}
        text = action.content if isinstance(action, action_types.TEXTED) else ""
        if isinstance(action, action_types.Launch):
            text = action.app or action.url
        if isinstance(action, action_types.Hotkey):
            values |= {"keys": json.dumps(list(action.keys)), "hotkey": " ".join(action.keys)}
        if isinstance(action, action_types.Scroll):
            direction = action_types.direction_of(action)
            # Wheel notches, positive upwards, as pyautogui counts.
            values |= {"direction": direction, "pixels": "5" if direction in ("up", "left") else "-5"}
        escaped = text
        # In the order of `ESCAPES`: the backslash first.
        for sign, written in ESCAPES:
            escaped = escaped.replace(sign, written)
        return _filled(form, {**values, "json": json.dumps(text, ensure_ascii=False), "escaped": escaped})


def _points(action: action_types.Action) -> Sequence[action_types.Point]:
    """Where an action points; of a scroll without points, the path that goes its way."""
    if isinstance(action, action_types.POINTED):
        return [action.box]
    if isinstance(action, action_types.Scroll) and (action.start is None or action.end is None):
        return SYNTHESISED_PATHS[action.direction]
    return [action.start, action.end] if isinstance(action, action_types.Drag | action_types.Scroll) else []  # type: ignore[list-item]


def _native(unit: int, size: float) -> float:
    """A coordinate of 0..1000 in a frame of another size, whole where the frame is not that of fractions."""
    # Whole numbers, but for frames of 0..1.
    return round(unit * size / UNITS, 3 if size <= 1 else None)


def _text(template: str, values: Mapping[str, str]) -> dict[str, str] | None:
    return {"type": "text", "text": _filled(template, values)} if template else None


def _filled(template: str, values: Mapping[str, str]) -> str:
    # Fields that aren't known stay as they are: a goal may hold braces.
    return _FIELD.sub(lambda field: values.get(field[1], field[0]), template)
