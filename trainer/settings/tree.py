"""All settings of training as one tree, and the part of it that each stage depends on.

A preset is a function that returns the whole tree (`trainer.settings.presets`); what a person gives in
`deployment.yaml`, `$VESPER_TRAINER` or `--config` goes over it. A stage's part enters the version of what it makes,
and nothing of the others' parts does.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import field_validator, model_validator

from pipelines.prompts.history import HistoryConfig
from schemas.action_types import ACTION_SPACE, ActionSpace
from schemas.ids import canonical_json
from schemas.settings import ALWAYS, NEVER, Number, Settings, SettingsError, Whole, nearest, setting
from trainer.settings.distill import DistillSettings
from trainer.settings.domains import DOMAINS, USUAL, DomainName
from trainer.settings.measuring import EpisodesSettings, EvalConfig, MergeSettings, StaircaseForm, SuitesSection
from trainer.settings.model_shape import ActionCodec, Shape
from trainer.settings.offline import OfflineSection
from trainer.settings.online import OnlineSection
from trainer.settings.own import with_stages
from trainer.settings.reading import Reading
from trainer.settings.stages import DISTILLED, ONLINE, SPECIALISTS, STAGES, merged_of, settings_of
from trainer.settings.supervised import MidtrainConfig
from trainer.settings.worth import WorthSettings

WHERE = "trainer"
"""What the message of a `SettingsError` begins with, unless a file or a flag is named."""


def _stood_for(route: object, trained: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The settings that a route and the domains that are trained stand for, where they aren't the defaults."""
    short = route == "successor"
    usual = DistillSettings().teachers.of_domains
    wanted = {
        # The short way ends with offline RL.
        one.name: (one.offline if short else one.last) if one.name in trained else None
        for one in DOMAINS.values()
    }
    merge: dict[str, Any] = {"unified": DISTILLED.name} if short else {}
    # Only where it differs from the defaults, which stay out of versions.
    if set(trained) != set(USUAL):
        merge["specialists"] = merged_of(trained)
    teachers = {domain: name for domain, name in wanted.items() if name != usual.get(domain)}
    return {"merge": merge, "distilled": {"teachers": teachers} if teachers else {}}


class TrainerSettings(Settings):
    """The whole configuration of training."""

    preset: Literal["nano", "2b", "8b", "30b-a3b"] = setting(
        "nano",
        "The model to train: nano from scratch on a laptop, the others by the name of their published weights. Other "
        "settings follow the preset of the checkpoint that a stage starts from.",
        in_version=ALWAYS,
    )
    shape: Shape = setting(Shape(), "Other sizes of nano.", in_version=ALWAYS)
    pixels: tuple[Whole, Whole] | None = setting(
        None,
        "[least, largest] area of a picture for a published preset, which its checkpoints remember; null: the "
        "preset's own.",
        in_version=ALWAYS,
    )
    seed: Whole = setting(0, "Of random weights.", in_version=ALWAYS)
    reading: Reading = setting(
        Reading(), "How screens are looked at: trained so, and remembered by the checkpoints.", in_version=ALWAYS
    )
    tokenizer_texts: Whole = setting(20_000, "Training texts that a tokenizer is learned on.", ge=1, in_version=ALWAYS)
    weights: str = setting(
        "",
        "The folder of a checkpoint of Vesper's that is the base, or of published weights (a published `preset` says "
        "architecture and limits, and sizes are the folder's own: 2B to 32B, UI-Venus, a fine-tune), a name on the hub "
        "of such weights, or nano_base for the one that nano comes with; empty: random, or a published preset's own. "
        "Its files count, not where they lie.",
        in_version=ALWAYS,
    )
    action_space: ActionSpace = setting(
        ACTION_SPACE,
        "Which actions the model is taught, and its replies may be: the deployment's, unless it is said here. "
        "Checkpoints remember it, and two spaces are neither merged nor distilled.",
    )
    history: HistoryConfig = setting(
        HistoryConfig(),
        "How the prompts of the corpus show the steps before: the deployment's, unless it is said here. Checkpoints "
        "remember it, and are played so.",
    )
    action_codec: ActionCodec = setting(
        "text",
        "How the actions of replies are written in tokens: text, as the corpus has them; compact, without names of "
        "arguments; tool_path, points as moves. Checkpoints remember it, and read their replies back.",
    )
    route: Literal["method", "successor"] = setting(
        "method",
        "From specialists to the agent: offline and online RL, then a merge; or the successor's short way, offline RL "
        "of each domain, then distillation, which sets `merge.unified` and `distilled.teachers` unless they are given.",
        in_version=NEVER,
    )
    domains: tuple[DomainName, ...] = setting(
        USUAL,
        "Whose specialists are trained, and merged or distilled: it sets `merge.specialists` and `distilled.teachers` "
        "unless they are given. Rows and tasks of computers train the specialist of the web unless `computer` is "
        "among them.",
        min_length=1,
    )
    device: str = setting(
        "cpu",
        "Where one process computes: cpu, cuda or cuda:<number>; under torchrun each rank has its own.",
        in_version=ALWAYS,
    )
    ranks: Whole = setting(
        1,
        "In how many processes mid-training and RL train, each on a GPU of its own if `device` is cuda; the graph "
        "starts them by torchrun. The number of ranks changes no gradient, and a run that torchrun began elsewhere is "
        "the same run.",
        ge=1,
        in_version=NEVER,
    )
    report_to: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = setting(
        ("tensorboard",),
        "Who follows a run: tensorboard (side files of the version), mlflow, wandb (files in $VESPER_HOME/tracking, "
        "unless $MLFLOW_TRACKING_URI or $WANDB_MODE say otherwise).",
        in_version=NEVER,
    )
    midtrain: MidtrainConfig = setting(MidtrainConfig(), "Mid-training.", in_version=ALWAYS)
    validation_share: Number = setting(
        0.08,
        "Share of the training rows, as whole screens and episodes, that is validated on and never trained on.",
        ge=0,
        le=1,
        in_version=ALWAYS,
    )
    validation_episodes: Whole = setting(
        0,
        "Whole episodes of each platform that are validated on at least, the shortest first, whatever the share says, "
        "up to half of those there are: from `offline.min_traces` of them on, trace success decides where RL stops.",
        ge=0,
    )
    validation_rows: Whole = setting(32, "Rows of these that mid-training validates on.", ge=0, in_version=ALWAYS)
    offline: OfflineSection = setting(OfflineSection(), "Offline RL of the specialists.", in_version=ALWAYS)
    online: OnlineSection = setting(OnlineSection(), "Online RL of the specialists that act.", in_version=ALWAYS)
    merge: MergeSettings = setting(MergeSettings(), "Several specialists into one agent.", in_version=ALWAYS)
    distilled: DistillSettings = setting(
        DistillSettings(), "Several specialists into one agent, by distillation on its own replies.", in_version=ALWAYS
    )
    evaluate: EvalConfig = setting(EvalConfig(), "Evaluations of checkpoints.", in_version=ALWAYS)
    suites: SuitesSection = setting(
        SuitesSection.parsed({}), "Suites that the merged agent is measured on.", in_version=ALWAYS
    )
    episodes: EpisodesSettings = setting(
        EpisodesSettings(), "Episodes of the merged agent to look at.", in_version=ALWAYS
    )
    staircase: StaircaseForm = setting(
        StaircaseForm(), "The staircase, which begins from weights of its own.", in_version=ALWAYS
    )
    worth: WorthSettings = setting(
        WorthSettings(), "Probes that measure what data is worth to the agent.", in_version=ALWAYS
    )

    @field_validator("domains")
    @classmethod
    def _each_once(cls, given: tuple[DomainName, ...]) -> tuple[DomainName, ...]:
        """In the order of the table, whichever they are said in: it is the same training."""
        # The table's order: merging is the same whichever way they are named.
        return tuple(name for name in DOMAINS if name in given)

    @model_validator(mode="after")
    def _contradictions(self) -> Self:
        if self.pixels is not None and not 0 < self.pixels[0] <= self.pixels[1]:
            raise ValueError(f"pixels: expected [least, largest], areas in pixels, found {list(self.pixels)}")
        if self.ranks > 1 and self.device not in ("cpu", "cuda"):
            raise ValueError(
                f"device: expected cpu or cuda with ranks {self.ranks}, for each rank has a GPU of its own, found "
                f"{self.device!r:.40}"
            )
        return self

    def of_stage(self, stage: str) -> dict[str, object]:
        """The settings that a stage depends on, as plain JSON values: they enter the version of what it makes."""
        part = self.version_part()
        # Settings of other specialists change nothing of this one.
        own = {*SPECIALISTS, *ONLINE}
        chosen = {name: part[name] for name in settings_of(stage) if name in part}
        for name in ("offline", "online"):
            if name in chosen:
                chosen[name] = {word: value for word, value in chosen[name].items() if word not in own}
        plain: dict[str, Any] = json.loads(canonical_json(chosen))
        return plain


if not TYPE_CHECKING:  # which knows the fields that are written down
    TrainerSettings = with_stages(TrainerSettings, STAGES)


def over(preset: TrainerSettings, given: Mapping[str, Any], stage: str = "", where: str = WHERE) -> TrainerSettings:
    """A preset's settings with what is given over them. A part that is given in part, as `{"grpo": {"beta": 0}}`, keeps
    the rest of it. Of a specialist's stage its own settings are then among those that all share, and win; what is given
    beats what the preset says.

    Raises `SettingsError` naming what is unknown, out of range or no settings where settings are expected.
    """
    fields = TrainerSettings.model_fields
    if unknown := sorted(set(given) - set(fields)):
        raise SettingsError(where, {(): f"unknown {unknown[0]!r:.60}; {nearest(unknown[0], fields)}"})
    base, said = preset.set_part(), given.get("domains")
    # Anything else is an error that `parsed` reports below.
    trained = [one for one in DOMAINS if one in said] if isinstance(said, list | tuple) else []
    # What a route stands for lies under what is given, so that it can be overridden.
    for name, value in _stood_for(given.get("route", preset.route), trained or preset.domains).items():
        base[name] = _over(base[name], value)
    merged = dict(base)
    for name, value in given.items():
        # Plain values are replaced; only settings are laid over each other.
        if not isinstance(fields[name].default, Settings):
            merged[name] = value
            continue
        if not isinstance(value, Mapping):
            raise SettingsError(where, {(name,): f"expected settings by name, found {value!r:.60}"})
        merged[name] = _over(merged.get(name, {}), value)
        for one in {"offline": SPECIALISTS, "online": ONLINE}.get(name, ()):
            if not isinstance(value.get(one, {}), Mapping):
                raise SettingsError(where, {(name, one): f"expected settings by name, found {value[one]!r:.60}"})
    # The whole tree first: what is wrong in it is reported with its own name.
    whole, checked = TrainerSettings.parsed(merged, where), set[str]()
    for name, section, own in (("offline", OfflineSection, SPECIALISTS), ("online", OnlineSection, ONLINE)):
        for one in own:  # also those of other stages: what is wrong is reported before anything trains
            alone = _of_one(base[name], given.get(name, {}), one, own)
            if str(alone) not in checked:  # most specialists have the same; as text, since True equals 1
                section.parsed(alone, f"{where}: {name}.{one}")
                checked.add(str(alone))
            if one == stage:
                whole = TrainerSettings.parsed({**merged, name: alone}, where)
    return whole


def _of_one(preset: Mapping[str, Any], given: Mapping[str, Any], one: str, own: tuple[str, ...]) -> dict[str, Any]:
    """The settings of one specialist: its own are among those that all share, and win; any given one beats those of
    the preset."""
    (common, mine), (given_common, given_mine) = (
        ({word: value for word, value in layer.items() if word not in own}, layer.get(one, {}))
        for layer in (preset, given)
    )
    # Preset's common, preset's own, given common, given own: each wins over the ones before.
    return _over(_over({**common, **mine}, given_common), given_mine)


def _over(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with what is given, parts of it (mappings) word by word."""
    parts = {
        word: {**base[word], **value}
        for word, value in given.items()
        if isinstance(value, Mapping) and isinstance(base.get(word), Mapping)
    }
    return {**base, **given, **parts}


def ranks_of(stage: str, settings: TrainerSettings) -> int:
    """In how many processes a stage trains: `ranks` where all ranks share its training, else 1."""
    return settings.ranks if stage in STAGES and STAGES[stage].shared else 1
