"""The judges by name, and what it takes to build one.

A new judge is one file and one line in `JUDGES`; `tests/quality/judges/test_judge_contract.py` then runs over it. One
that stands outside this tree is a function `JudgeConfig -> Judge`, named as `pipelines.extensions` says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pipelines.extensions import find_part, is_outside
from quality.evidence.reading import reader_beside
from quality.judges.cascade import CascadeConfig, CascadeJudge
from quality.judges.ensemble import EnsembleJudge, VotingRule
from quality.judges.judge import Judge
from quality.judges.keypoint_judge import KeypointJudge
from quality.judges.keypoints import KeypointConfig
from quality.judges.nano.judge import NanoJudge
from quality.judges.openai_judge import OpenAIJudge
from quality.judges.process_judge import ProcessJudge
from quality.judges.reading import ReadingJudge
from quality.judges.rules import RulesJudge
from quality.judges.thoughts import ThoughtJudge
from quality.model_client.client import ModelClient

T = TypeVar("T")


@dataclass(frozen=True)
class JudgeConfig:
    """What a judge is built from; each uses what it needs.

    `second_model` (at `second_base_url`, else `base_url`) gives the cascade's second opinions. `members` and `weights`
    are an ensemble's; its member `second` is the openai judge with the second model. `nano` is the folder of a trained
    judge. With `read`, a program of `READERS`, it also gets what that reads on screens whose source lists nothing; with
    `thoughts` a step whose thought contradicts its action scores low, with `process` a run that leaves out what its
    goal names. `settings` holds the judge's own options: keywords of `CascadeConfig` or `KeypointConfig`, an ensemble's
    `quorum`. `client` holds keyword options of `ModelClient`.
    """

    name: str = "rules"
    base_url: str | None = None
    model: str | None = None
    second_base_url: str | None = None
    second_model: str | None = None
    members: tuple[str, ...] = ("rules", "openai")
    weights: tuple[float, ...] = ()
    cache: Path | None = None
    nano: Path | None = None
    read: str = ""
    thoughts: bool = False
    process: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)


def _client(config: JudgeConfig, **defaults: object) -> ModelClient:
    """A client of the config's endpoint. Raises `ValueError` if none is given."""

    base_url, model = endpoint_of(config)
    options = {**defaults, **config.client}
    return build_member(config, "client", lambda: ModelClient(base_url, model, config.cache, **options))


def endpoint_of(config: JudgeConfig) -> tuple[str, str]:
    """(base URL, model) of the config. Raises `ValueError` if either is missing."""
    if not config.base_url or not config.model:
        raise ValueError(
            f"judge {config.name} needs --base-url (e.g. http://127.0.0.1:8000/v1) and --model; "
            f"found {config.base_url!r} and {config.model!r}"
        )
    return config.base_url, config.model


def _second(config: JudgeConfig) -> JudgeConfig:
    """The config with the second model in the place of the first. Raises `ValueError` if there is none."""
    if not config.second_model:
        raise ValueError(f"judge {config.name}: member second needs a second model, found {config.second_model!r}")
    return replace(config, base_url=config.second_base_url or config.base_url, model=config.second_model)


def build_member(config: JudgeConfig, what: str, make: Callable[[], T]) -> T:
    """What `make` makes of options. Raises `ValueError` for an option that it doesn't have."""
    try:
        return make()
    except TypeError as error:
        # Python's own words about the option, without the name of the class.
        said = str(error).partition("() ")[2] or str(error)
        raise ValueError(f"judge {config.name}: {what}: {said}") from None


def _rules(config: JudgeConfig) -> Judge:
    return RulesJudge()


def _process(config: JudgeConfig) -> Judge:
    return ProcessJudge(RulesJudge(), "process")


def _openai(config: JudgeConfig) -> Judge:
    base_url, model = endpoint_of(config)
    return build_member(config, "client", lambda: OpenAIJudge(base_url, model, config.cache, **config.client))


def _ensemble(config: JudgeConfig) -> Judge:
    if "ensemble" in config.members:
        raise ValueError("judge ensemble: members: expected other judges, found 'ensemble'")
    plain = replace(config, settings={}, read="", thoughts=False, process=False)  # the ensemble does it for all
    members = [
        build_judge(replace(_second(plain), name="openai") if member == "second" else replace(plain, name=member))
        for member in config.members
    ]
    rule = build_member(config, "settings", lambda: VotingRule(weights=config.weights, **config.settings))
    return EnsembleJudge(members, rule)


def _cascade(config: JudgeConfig) -> Judge:
    settings = build_member(config, "settings", lambda: CascadeConfig(**config.settings))
    second = _client(_second(config)) if config.second_model else None
    return CascadeJudge(RulesJudge(), _client(config), second, settings)


def _keypoints(config: JudgeConfig) -> Judge:
    # A window answers for up to ten statements, and a cut answer is none.
    settings = build_member(config, "settings", lambda: KeypointConfig(**config.settings))
    return KeypointJudge(_client(config, max_tokens=800), settings)


def _nano(config: JudgeConfig) -> Judge:
    if config.nano is None:
        raise ValueError(
            "judge nano: expected a trained judge (--nano DIR), found none; `vesper judge train` makes one"
        )
    return NanoJudge(config.nano)


JUDGES: dict[str, Callable[[JudgeConfig], Judge]] = {
    "rules": _rules,
    "process": _process,
    "openai": _openai,
    "ensemble": _ensemble,
    "cascade": _cascade,
    "keypoints": _keypoints,
    "nano": _nano,
}
"""Judges by name. Those in `OFFLINE` need no endpoint; an ensemble needs one if any of its members does."""
OFFLINE = frozenset(("rules", "process", "nano"))


def build_judge(config: JudgeConfig) -> Judge:
    """A judge from its config. Raises `ValueError` for an unknown name, a missing endpoint, a wrong option, or where it
    is to read and can't."""
    judge = find_part("judge", config.name, JUDGES)(config)
    if config.process and config.name != "process":
        judge = ProcessJudge(judge)
    if config.thoughts:
        judge = ThoughtJudge(judge)
    # outermost: what is read on screens is there for the thoughts' targets, too
    return ReadingJudge(judge, reader_beside(config.cache, config.read)) if config.read else judge


_built: dict[str, Judge] = {}


def judge_of(config: JudgeConfig) -> Judge:
    """The same, but a worker's next part gets the judge that its last one had."""
    key = repr(config)
    if key not in _built:
        # One judge at a time: a worker's parts are of one stage, and judges hold models.
        _built.clear()
        _built[key] = build_judge(config)
    return _built[key]


def asks_a_model(config: JudgeConfig) -> bool:
    """Whether the judge asks a model; one of your own does where it is given an endpoint."""
    if config.name == "ensemble":
        return any(asks_a_model(replace(config, name=member)) for member in config.members)
    if is_outside(config.name):
        return config.base_url is not None
    return config.name not in OFFLINE


def requests_sent(judge: Judge) -> int:
    """Requests that a judge has sent since it was made, 0 for one that asks no model."""
    asker = judge if hasattr(judge, "requests_sent") else getattr(judge, "client", None)
    return int(getattr(asker, "requests_sent", 0))


def report_of(judge: Judge) -> dict[str, object]:
    """What a judge has to say of its work besides verdicts (a cascade: calls saved); empty for most."""
    return dict(getattr(judge, "report", {}))
