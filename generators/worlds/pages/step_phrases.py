"""What people say for one action, in varied words; chosen by the recorder's seed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generators.worlds.pages.recording import RecordedAct

TAP = {
    "textbox": ('Tap the "{name}" field', "Select the {name} input", "Put the cursor in the {name} box"),
    "switch": ("Toggle the {name} switch", "Flip the switch for {name}", "Tap the switch next to {name}"),
    "checkbox": ('Tap the box for "{name}"', "Tick {name}", "Select the checkbox {name}"),
    "radio": ("Choose {name}", "Pick the option {name}", "Select {name}"),
    "option": ("Choose {name}", "Tap the option {name}", "Select {name} from the list"),
    "tab": ("Open the {name} tab", "Switch to {name}", "Tap the tab {name}"),
    "slider": ("Move the {name} slider", "Set the {name} slider", "Tap the {name} bar"),
    "combobox": ("Open the {name} list", "Tap the {name} drop-down", "Choose the {name}"),
    "listitem": ('Open "{name}"', 'Tap on "{name}"', 'Select "{name}" in the list'),
    "": ("Tap the {name} button", "Click on {name}", "Press {name}"),
}
OTHER = {
    "type": ('Type "{text}"', 'Enter "{text}" in the {name} field', 'Write "{text}"'),
    "swipe": ("Scroll {direction} to see more", "Look further {direction} the screen", "Scroll {direction}"),
    "wheel": ("Scroll {direction} to see more", "Scroll {direction} the page", "Scroll {direction}"),
    "drag": ("Drag the {name} slider", "Pull the {name} knob to the new value", "Move the {name} slider"),
    "back": ("Go back to the previous screen", "Press back", "Return to the last screen"),
    "home": ("Go to the home screen", "Press home", "Return to the home screen"),
    "enter": ("Press enter", "Confirm with the enter key", "Submit what was typed"),
    "wait": ("Wait until the page has loaded", "Wait for the screen to load", "Wait a moment"),
    "open_app": ("Open the {text} app", "Launch {text}", "Start the {text} app"),
    "select": ('Choose "{text}" as {name}', 'Select "{text}" from the {name} list', 'Set {name} to "{text}"'),
    "hotkey": ("Go back with the keyboard", "Press Alt and the left arrow", "Return with Alt+Left"),
    "done": ("The task is complete", "Everything is done", "Finish the task"),
    "impossible": ("The task can't be done", "Give up the task", "Report that it is impossible"),
    "unknown": ("Rotate the device", "Rotate the device", "Rotate the device"),
}


def instruction(act: RecordedAct, rng: Random, platform: str) -> str:
    """One of three phrases for the action; mouse words on a computer, finger words on a phone."""
    # By the role where a tap is told differently from "press".
    options = OTHER.get(act.kind) or TAP.get(act.role) or TAP[""]
    text = rng.choice(options).format(name=act.name, text=act.text, direction=act.direction)
    return text if platform == "phone" else text.replace("Tap on", "Click on").replace("Tap the", "Click the")
