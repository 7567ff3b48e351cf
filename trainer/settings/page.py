"""The trainer's settings as a page to read."""

import json
from collections.abc import Iterator, Mapping

from schemas.settings_reference import tables
from trainer.settings.presets import PRESETS
from trainer.settings.stages import STAGES, settings_of
from trainer.settings.tree import TrainerSettings

ABOUT = """\
What a person sets is JSON (or YAML) by the names of this page, as `{"midtrain": {"max_steps": 400}}`; what isn't set is
what the preset says, and else the default. A stage's part of the settings enters the version of what it makes: always,
or where a setting is set. Another value then makes the stage anew, and nothing else does.
"""


def trainer_page() -> str:
    """The trainer's part of docs/reference/settings.md: tables of all settings, and what each preset sets."""
    settings = tables(TrainerSettings, "Trainer", level=3)
    return f"{ABOUT}\n{settings}\n### Stages\n\n{_stages()}\n### What presets set\n\n{_presets()}"


def _stages() -> str:
    """A row for each stage: what it makes, what it starts from, the settings that it depends on."""
    rows = [["stage", "starts from", "depends on", ""], ["---"] * 4]
    for name, stage in STAGES.items():
        depends = ", ".join(f"`{word}`" for word in settings_of(name))
        rows.append([f"`{name}`", f"`{stage.start}`" if stage.start else "", depends, stage.description])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _presets() -> str:
    """A row for each setting that a preset sets, or that always enters the version, a column for each preset."""
    of_preset = {name: dict(_flat(preset().set_part())) for name, preset in PRESETS.items()}
    names = list(dict.fromkeys(name for values in of_preset.values() for name in values))
    rows = [["setting", *PRESETS], ["---"] * (1 + len(PRESETS))]
    for name in names:
        values = [of_preset[preset].get(name) for preset in PRESETS]
        # Only rows on which presets differ.
        if len(set(values)) > 1 and name != "preset":
            rows.append([f"`{name}`", *("" if value is None else f"`{value}`" for value in values)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _flat(plain: Mapping[str, object], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    for name, value in plain.items():
        if isinstance(value, Mapping):
            yield from _flat(value, (*path, name))
        else:
            yield ".".join((*path, name)), json.dumps(value, ensure_ascii=False)
