"""Replies that are pyautogui code, as OSWorld's own agents write it → one of our actions. The code is read, never run.

A turn carries out one action here, so of several calls the first counts (`several`); the model sees the next screen
before it says more. `WAIT`, `DONE` and `FAIL` stand for themselves.
"""

import re

from pipelines.native.pyautogui import gestures, parse_script
from schemas.action_types import ActionSpace, Finished, Wait
from schemas.actions import MAX_REPLY, Action, ModelReply

_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
_WORDS: dict[str, Action] = {"WAIT": Wait(), "DONE": Finished(""), "FAIL": Finished("failure")}
MOST_CODE = 8_192
"""Longest script that is read, in characters: Python's parser takes 3 µs for each, and every reward may call it."""
_SILENT = re.compile(r"\s*(?:import\s+[\w, ]+|from\s+\w+\s+import\s+[\w, *]+)\s*")
"""Imports say nothing of what is to be done."""


def read_code(text: str, frame: tuple[float, float], space: ActionSpace, last: bool = False) -> ModelReply:
    """A reply with code in a fence, or nothing but code; `frame` is what its x and y count to. Raises `ValueError`
    where there is no call, or one without a counterpart."""
    if len(text) > MAX_REPLY:
        raise ValueError(f"expected at most {MAX_REPLY} characters, found {len(text)}")
    # Thoughts come before the code; several blocks are one script, as their harness joins them.
    thought = text.partition("```")[0].strip() if "```" in text else ""
    blocks = _FENCED.findall(text) or [text.replace("```", "")]
    code = "\n".join(line for block in blocks for line in block.splitlines() if not _SILENT.fullmatch(line)).strip()
    if len(code) > MOST_CODE:
        raise ValueError(f"expected at most {MOST_CODE} characters of code, found {len(code)}")
    if code.upper() in _WORDS:
        return ModelReply(thought, _WORDS[code.upper()])
    actions: list[Action] = []
    for gesture in gestures(parse_script(code), frame, None, space):
        if gesture.error is not None:
            raise ValueError(str(gesture.error))
        # Pauses between calls are the harness' own; they are the action only where nothing else is.
        actions += [one for one in gesture.actions if not isinstance(one, Wait)]
        if actions and not last:
            break
    else:
        if not actions and "sleep" in code:
            actions.append(Wait())
    if not actions:
        raise ValueError(f"expected pyautogui code, found {text[-80:]!r}")
    return ModelReply(thought, actions[-1 if last else 0])
