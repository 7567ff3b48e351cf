"""What a suite is run on, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.prompts.history import HISTORY_STEPS, PROMPT_VERSIONS, HistoryForm, PromptVersion

if TYPE_CHECKING:
    from generators.policies.profiles.profile import Profile
    from pipelines.store import Store
    from trainer.settings.reading import Mode
    from trainer.suites.answering import Words


DEFAULT_EPISODES = 100


@dataclass(frozen=True, slots=True)
class EvaluationSubject:
    """What is evaluated: a checkpoint folder, or the name of a model behind an OpenAI-protocol endpoint.

    `history` and `thinking` are how a served model is asked in worlds (`thinking`, of one that is asked in full,
    everywhere it acts): the form of its past turns, and whether for thoughts. A checkpoint's preset has its own;
    `reading` makes it look at screens otherwise than it was trained to. `profile` asks and reads in another way than
    ours."""

    checkpoint: Path | None = None
    base_url: str = ""
    model: str = ""
    words: Words = "told"
    device: str = "cpu"
    history: HistoryForm = "action"
    thinking: bool = False
    reading: Mode | None = None
    profile: Profile | None = None
    history_steps: int = HISTORY_STEPS
    """How many past turns a served model is shown."""
    prompt_version: PromptVersion = PROMPT_VERSIONS[0]
    """In whose words a served model is asked with words trained."""
    here: bool = False
    """Served by this process alone, so that `base_url` says nothing of what is evaluated."""

    def __post_init__(self) -> None:
        served = bool(self.base_url and self.model)
        if bool(self.base_url) != bool(self.model):
            raise ValueError("a served model needs both --base-url and --model")
        if served == (self.checkpoint is not None):
            raise ValueError("expected a checkpoint folder, or --base-url and --model, and not both")
        ours = (self.words, self.history, self.history_steps, self.thinking)
        if self.profile is not None and ours != ("told", "action", HISTORY_STEPS, False):
            raise ValueError(
                "--words, --history, --history-steps and --thinking are of our own prompts: leave them out with "
                "--profile"
            )
        if self.profile is not None and self.reading == "windows":
            raise ValueError("--reading: expected whole or zoom with --profile, found windows")
        if self.prompt_version != PROMPT_VERSIONS[0] and not (served and self.words == "trained"):
            raise ValueError("--prompt-version is for served models with --words trained: leave it out")
        if not served and (self.history, self.history_steps, self.thinking) != ("action", HISTORY_STEPS, False):
            raise ValueError(
                "--history, --history-steps and --thinking are for served models: a checkpoint is asked as its "
                "preset.json says that it was trained; leave them out"
            )
        if served and self.reading is not None and self.profile is None:
            raise ValueError("--reading is for checkpoints: give it to the server, vesper serve --reading")
        if self.checkpoint is not None and not (self.checkpoint / "config.json").is_file():
            raise ValueError(f"{self.checkpoint}: expected a checkpoint folder with config.json, found none")


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """`store`: unified sources, held-out shards, training shards for the blind table; `raw`: native files of the suite.
    `limit`: questions, episodes or steps' episodes at most; `style`: how worlds are drawn (`full`, `nano`; None: by the
    checkpoint); `before`: the checkpoint to compare a latent space with; `state`: keeps journals of episodes;
    `max_new_tokens`: of a reply (None: as a checkpoint's preset has it, of a served model `answering.served_tokens`);
    `check_steps`, `tries`: who checks actions in worlds before they are carried out (`policies.registry.STEP_CHECKS`),
    and draws a turn at most."""

    store: Store | None = None
    raw: Path | None = None
    limit: int | None = None
    seed: int = 0
    attempts: int = 1
    temperature: float = 0.0
    workers: int = 1
    style: str | None = None
    only: tuple[str, ...] = ()
    before: Path | None = None
    state: Path | None = None
    max_new_tokens: int | None = None
    adb_path: str = "adb"
    console_port: int = 5554
    progress: bool = False
    check_steps: str = ""
    tries: int = 3

    def __post_init__(self) -> None:
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(f"--max-new-tokens: expected 1 or more, found {self.max_new_tokens}")
