"""Settings of on-policy distillation from several teachers (docs/method.md §8, `trainer.distill`)."""

from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from schemas.settings import ALWAYS, WHERE_SET, Flag, Number, Settings, Whole, other_default, setting
from trainer.settings.domains import DOMAINS, Domain, DomainName
from trainer.settings.grpo import LearnerConfig, RepliesConfig
from trainer.settings.offline import OfflineConfig, OfflineSettings
from trainer.settings.own import with_fields
from trainer.settings.rewards import RewardConfig
from trainer.settings.stages import Specialist


class Teachers(Settings):
    """Domain → the specialist that teaches it; null: nobody, and the domain isn't asked about."""

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        # An empty course of distillation would only copy the student.
        if not self.of_domains:
            raise ValueError("expected a teacher of one domain at least, found none")
        return self

    @property
    def of_domains(self) -> dict[DomainName, str]:
        """Domain → its teacher, of those that are taught."""
        found: dict[DomainName, str | None] = {domain: getattr(self, domain) for domain in DOMAINS}
        return {domain: name for domain, name in found.items() if name is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """The teachers, each once."""
        return tuple(dict.fromkeys(self.of_domains.values()))


def _teacher(domain: Domain) -> tuple[object, object]:
    """Type and field; one that nobody teaches by default enters versions where it is set."""
    text, usual = f"Who teaches {domain.learns}.", domain.last if domain.by_default else None
    return Specialist | None, setting(usual, text, in_version=ALWAYS if domain.by_default else WHERE_SET)


if not TYPE_CHECKING:  # which knows the fields that are written down
    Teachers = with_fields(Teachers, {name: _teacher(one) for name, one in DOMAINS.items()})


class SpanPushes(Settings):
    """How hard a reply's tokens are pushed towards the teacher, by what is wrong with its action."""

    wrong_type: Number = setting(1.0, "The type's tokens where the type is wrong; its parameters are masked.", ge=0)
    wrong_parameters: Number = setting(1.0, "The parameters' tokens where the type is right and they are not.", ge=0)
    unreadable: Number = setting(1.0, "All tokens of a reply in which no action or point is found.", ge=0)
    right: Number = setting(0.0, "The action's tokens where all is right.", ge=0)
    rest: Number = setting(0.0, "The tokens outside of the action: tags, thought and conclusion.", ge=0)


class DistillSettings(LearnerConfig, RepliesConfig):
    """`distilled`: one agent from several teachers, by their judgement of its own replies."""

    teachers: Teachers = setting(Teachers(), "Whose checkpoints teach what; one may teach several.", in_version=ALWAYS)
    objective: Literal["action_spans", "hindsight"] = setting(
        "action_spans",
        "What is pushed: by the action's spans (UI-Venus-2.0), or all of a reply, towards a teacher that reads a hint "
        "from what followed (OpenClaw-RL).",
        in_version=ALWAYS,
    )
    divergence: Literal["sampled", "full"] = setting(
        "sampled",
        "Reverse KL: of the sampled tokens, as advantages of a policy gradient, or of the whole vocabulary.",
        in_version=ALWAYS,
    )
    told_type: Flag = setting(True, "The teacher is told the true type of action where the reply's is wrong.")
    pushes: SpanPushes = setting(SpanPushes(), "Weights of tokens under `action_spans`.")
    updates: Whole = setting(16, "Updates.", ge=1, in_version=ALWAYS)
    prompts: Whole = setting(16, "Prompts of each domain in an update.", ge=1, in_version=ALWAYS)
    num_generations: Whole = setting(1, "Replies to a prompt.", ge=1)
    learning_rate: Number = other_default(LearnerConfig, "learning_rate", 3e-4)
    micro_batch: Whole = other_default(LearnerConfig, "micro_batch", 64)
    train_limit: Whole = other_default(OfflineSettings, "train_limit", 2000)
    validation_limit: Whole = setting(48, "Tasks of each domain on which the peak is looked for.")
    validation_samples: Whole = other_default(OfflineSettings, "validation_samples", 1)
    held_out_limit: Whole = setting(64, "Tasks of each domain of the report before and after.", in_version=ALWAYS)
    held_out_samples: Whole = other_default(OfflineSettings, "held_out_samples", 1)
    eval_steps: Whole = setting(4, "Updates between two looks for the peak.", ge=1, in_version=ALWAYS)
    keep: Literal["peak", "last"] = setting("peak", "Which weights the run ends with.")
    save_steps: Whole = setting(4, "Updates between two saved states to go on from.", ge=1)
    keep_teachers: Flag = setting(
        True, "Hold all teachers in memory; false: one at a time, loaded in each update for its replies."
    )
    seed: Whole = setting(0, "Of the order of the prompts and of the replies.")
    threads: Whole = setting(2, "CPU threads; results are the same for one number of them only.")
    rewards: RewardConfig = setting(RewardConfig(), "When a reply is right.")

    @model_validator(mode="after")
    def _contradictions(self) -> Self:
        if self.grpo.critic:
            raise ValueError("expected no grpo.critic: a teacher says what each token is worth")
        # The whole vocabulary has no ratio to clip and no sampled entropy.
        if self.divergence == "full" and (self.num_iterations > 1 or self.grpo.beta or self.grpo.entropy_coef):
            raise ValueError(
                "expected num_iterations 1, grpo.beta 0 and grpo.entropy_coef 0 with divergence full, found "
                f"{self.num_iterations}, {self.grpo.beta} and {self.grpo.entropy_coef}"
            )
        return self

    def of_domain(self, domain: DomainName) -> OfflineConfig:
        """The same run as one of offline RL, for what chooses rows."""
        # Settings of the same name mean the same in both.
        common = set(OfflineSettings.model_fields) & set(type(self).model_fields) - set(LearnerConfig.model_fields)
        given = {name: getattr(self, name) for name in common if name != "num_generations"}
        return OfflineConfig(**given, domain=domain, min_traces=0)
