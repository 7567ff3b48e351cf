"""Every setting changes something: what is built of it, and the version of what the stages that depend on it make."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic.fields import FieldInfo

from schemas.ids import digest
from schemas.settings import ALWAYS, NEVER, Settings, SettingsError, marked
from trainer.settings.presets import PRESETS, configured
from trainer.settings.stages import ONLINE, SPECIALISTS, settings_of
from trainer.settings.tree import TrainerSettings, over
from trainer.stages.assets import STAGES

OWN = {*SPECIALISTS, *ONLINE}
SECTIONS = {"offline": SPECIALISTS, "online": ONLINE}
MEASURED = (*STAGES, "suites/fsm", "staircase/web", "worth/sources")
"""Stages whose versions are looked at."""
NANO = configured()
OTHERS: dict[str, Any] = {
    "preset": "8b",
    "pixels": [65_536, 1_048_576],
    "device": "cuda",
    "report_to": ["mlflow"],
    "midtrain.schedule": [[1.0, {"grounding": 1.0}]],
    **{f"{run}.learning_rate_scales": {"visual": 0.5} for run in ("midtrain", "offline", "online", "distilled")},
    "distilled.divergence": "sampled",
    "midtrain.trl": {"weight_decay": 0.1},
    **{f"{run}.trl": {"delta": 1.5} for run in ("offline", "online")},
    "midtrain.betas": [0.8, 0.9],
    "reading.window": [256, 320],
    "midtrain.sigma": [30, 10],
    "offline.semi_online": {"patches": 3},
    "offline.pass_band": {"tries": 4},
    **{f"{run}.grpo.critic": {"epochs": 2} for run in ("offline", "online")},
    "online.worlds": ["phone"],
    "online.world_options": {"phone": {"size": 1}},
    "online.edges": [3, 9],
    **{f"{run}.vllm.endpoints": ["http://a:8000"] for run in ("offline", "online", "distilled", "evaluate", "merge")},
    "shape.head_dim": {"head_dim": 64, "mrope_section": [12, 10, 10]},
    "shape.mrope_section": [4, 6, 6],
    "shape.heads": 12,
    "shape.kv_heads": 3,
    "shape.vision_hidden": 256,
    "shape.vision_heads": 8,
    "shape.deepstack": [0],
    "merge.density": [0.1],
    "merge.lambda": [0.5],
    "merge.weights": [1, 2, 3],
    "merge.specialists": ["offline_web"],
    "online.credit.options": {"gamma": 0.5},
    "online.platforms.oversampling": 2.0,
    "online.curriculum.options": {"mark": 0.5},
    **{f"{run}.grpo.kl_weight.options": {"target": 0.5} for run in ("offline", "online", "distilled")},
    "distilled.teachers.grounding": None,
    "distilled.teachers.mobile": "offline_mobile",
    "distilled.teachers.web": "offline_web",
    "distilled.teachers.computer": "offline_computer",
    "domains": ["mobile"],
    "worth.sigma": [30, 10],
    "worth.thresholds": [9],
}
"""Other values of settings for which none can be made up from their default."""
BESIDE: dict[str, dict[str, Any]] = {
    f"distilled.{name}": {"distilled": {"divergence": "sampled"}}
    for name in ("num_iterations", "grpo.beta", "grpo.entropy_coef")
} | {
    **{f"{run}.lora.rank": {run: {"trainable": ""}} for run in ("offline", "online")},
    "midtrain.lora.quantisation": {"midtrain": {"engine": "trl", "lora": {"rank": 4}}},
}
"""What must be said beside another value, which the preset's other settings contradict."""


def _fields(model: type[Settings], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Every setting below a model, with the names that lead to it; those of one specialist aside, which repeat all."""
    for name, field in model.model_fields.items():
        here = (*path, field.alias or name)
        inner = type(field.default)
        if issubclass(inner, Settings):
            yield from _fields(inner, here)
        elif name not in OWN:
            yield here, field


FIELDS = dict(_fields(TrainerSettings))
REFUSED = [("distilled", "grpo", "critic")]
"""What a stage has of settings that it shares with others, and may not be given."""


def _another(path: tuple[str, ...], field: FieldInfo) -> Any:
    """A value that the setting has neither by default nor in the usual preset."""
    if (named := ".".join(path)) in OTHERS:
        return OTHERS[named]
    if path[-1].endswith("_terms"):  # of one's own, by import path
        return {"brevity:short": {"weight": 0.5}}
    now, usual = field.get_default(call_default_factory=True, validated_data={"max_steps": 200}), over(NANO, {})
    if get_origin(field.annotation) is Literal:
        return next(one for one in get_args(field.annotation) if one not in (now, _value(usual, path)))
    if now is None:
        return next(one for one in (True, 7, "zoom") if _fits(_given(path, one)))
    if isinstance(now, bool):
        return not _value(usual, path)
    if isinstance(now, int):
        return now + 1
    if isinstance(now, float):
        return now * 0.5 + 0.125 if path[-1] != "standard_errors" else 3.0
    return "other" if isinstance(now, str) else pytest.fail(f"{named}: give another value in OTHERS")


def _fits(given: Mapping[str, Any]) -> bool:
    try:
        return bool(over(NANO, given))
    except SettingsError:
        return False


def _given(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    found: dict[str, Any] = value
    return found


def _value(settings: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        settings = getattr(settings, "lam" if name == "lambda" else name)
    return settings


@functools.cache
def _built(name: str = "") -> TrainerSettings:
    """The usual tree, or what must be said beside a setting over it."""
    return over(NANO, BESIDE.get(name, {}))


@functools.cache
def _usual(stage: str, name: str = "") -> str:
    return digest(over(NANO, BESIDE.get(name, {}), stage).of_stage(stage))


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    nested = {key: _both(first[key], second[key]) for key in first.keys() & second.keys()}
    return {**first, **second, **nested}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [path for path in FIELDS if path[0] not in ("route", "domains") and path not in REFUSED], ids=".".join
)
def test_each_setting_reaches_what_is_built_and_the_versions_that_it_is_marked_for(path: tuple[str, ...]) -> None:
    name = ".".join(path)
    field, usual = FIELDS[path], _built(name if name in BESIDE else "")
    another = _another(path, field)
    given = (
        {"shape": another} if isinstance(another, Mapping) and path == ("shape", "head_dim") else _given(path, another)
    )
    given = _both(given, BESIDE.get(name, {}))
    changed = over(NANO, given)
    assert _value(changed, path) != _value(usual, path), "what was given is what is built"
    for stage in MEASURED:
        depends = path[0] in settings_of(stage)
        # Of the other stages it is the same tree, as the test below says.
        own = over(NANO, given, stage) if stage in OWN else changed
        differs = digest(own.of_stage(stage)) != _usual(stage, name if name in BESIDE else "")
        assert differs == (depends and marked(field, "in_version") is not NEVER), stage


@pytest.mark.slow
@pytest.mark.parametrize("stage", [stage for stage in MEASURED if stage not in OWN])
def test_only_specialists_have_settings_of_their_own_among_those_that_all_share(stage: str) -> None:
    given = {section: {one: {"updates": 7} for one in names} for section, names in SECTIONS.items()}
    assert over(NANO, given, stage) == over(NANO, given)
    assert all(over(NANO, given, one) != over(NANO, given) for one in OWN)


@pytest.mark.slow
@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_each_setting_has_a_text(path: tuple[str, ...]) -> None:
    text = FIELDS[path].description or ""
    assert text.endswith((".", "…")) and text == " ".join(text.split())


@pytest.mark.slow
@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_a_value_that_cannot_be_is_told_with_file_setting_expected_and_found(path: tuple[str, ...]) -> None:
    impossible = (
        3 if path[-1] in ("world_options", "semi_online", "pass_band", "trl", "options", "critic") else {"no": "such"}
    )
    with pytest.raises(SettingsError, match=rf"^run\.json: {'.'.join(path)}\b.*expected .*, found ") as told:
        over(NANO, _given(path, impossible), where="run.json")
    assert "\n" not in str(told.value)
    if path[0] == "suites":  # below which the names of suites stand, which `suite_settings` knows
        return
    with pytest.raises(SettingsError, match=r"^run\.json: .*unknown '\w+_x'; (did you mean|known are) ") as told:
        over(NANO, _given((*path[:-1], f"{path[-1]}_x"), 1), where="run.json")
    assert path[-1] in str(told.value)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_whole_configuration(name: str) -> None:
    assert PRESETS[name]().preset == name
    assert over(configured(name), {}) == configured(name)
    with pytest.raises(ValueError, match="frozen"):
        configured(name).seed = 3  # type: ignore[misc]


def test_what_a_preset_sets_and_no_version_holds_stays_where_nothing_else_is_given() -> None:
    preset = PRESETS["nano"]().changed(report_to=("mlflow",))
    found = over(preset, {"midtrain": {"max_steps": 5}})
    assert found.report_to == ("mlflow",) and found.midtrain.max_steps == 5
    assert over(preset, {"report_to": ["wandb"]}).report_to == ("wandb",)
    assert found.version_part() == over(PRESETS["nano"](), {"midtrain": {"max_steps": 5}}).version_part()


def test_settings_that_contradict_each_other_are_refused() -> None:
    for given, told in (
        ({"ranks": 2, "device": "cuda:1"}, "device: expected cpu or cuda with ranks 2"),
        ({"pixels": [2, 1]}, r"pixels: expected \[least, largest\]"),
        ({"midtrain": {"max_steps": 3, "warmup_steps": 4}}, "midtrain: expected warmup_steps <= max_steps"),
        ({"offline": {"semi_online": {}, "align": True}}, "expected no align, difficulty or pass_band"),
        ({"offline": {"rewards": {"delta2": 200}}}, "offline.rewards: expected delta2 <= delta1"),
        ({"online": {"edges": [4, 2]}}, "online: expected edges"),
    ):
        with pytest.raises(SettingsError, match=told):
            over(NANO, given)


def test_only_the_settings_of_a_stage_are_its_own() -> None:
    assert settings_of("linear") == ("merge",)
    assert settings_of("evaluations/base") == ("device", "evaluate")
    always = {name for name, field in TrainerSettings.model_fields.items() if marked(field, "in_version") is ALWAYS}
    # came later: versions stay as they were
    where_set = {"action_space", "history", "action_codec", "validation_episodes"}
    assert always == set(TrainerSettings.model_fields) - {"ranks", "report_to", "route", "domains", *where_set}


def test_a_route_stands_for_other_settings_and_what_is_given_beats_it() -> None:
    usual, short = (over(NANO, {"route": route} if route else {}) for route in ("", "successor"))
    assert over(NANO, {"route": "method"}).of_stage("unified") == usual.of_stage("unified")
    assert usual.merge.unified == "ties" and "unified" not in usual.of_stage("unified")["merge"]
    assert short.merge.unified == "distilled" and short.merge.density == usual.merge.density
    assert short.distilled.teachers.names == ("offline_grounding", "offline_mobile", "offline_web")
    given = {"route": "successor", "merge": {"unified": "ties"}, "distilled": {"teachers": {"web": None}}}
    found = over(configured("8b"), given)
    assert found.merge.unified == "ties" and found.distilled.teachers.names == ("offline_grounding", "offline_mobile")
    with pytest.raises(SettingsError, match="route: expected method or successor"):
        over(NANO, {"route": "long"})


FOUR = ["computer", "grounding", "mobile", "web"]


def test_domains_say_whose_specialists_are_merged_or_teach_and_what_is_given_beats_them() -> None:
    usual, four = over(NANO, {}), over(NANO, {"domains": FOUR})
    assert over(NANO, {"domains": FOUR[::-1]}) == four, "in whichever order they are said"
    assert usual.merge.specialists == ("offline_grounding", "online_mobile", "online_web")
    assert four.merge.specialists == (*usual.merge.specialists, "online_computer")
    assert four.distilled.teachers.of_domains == {**usual.distilled.teachers.of_domains, "computer": "online_computer"}
    short = over(NANO, {"domains": FOUR, "route": "successor"})
    assert short.distilled.teachers.names == tuple(f"offline_{name}" for name in FOUR[1:]) + ("offline_computer",)
    two = over(configured("8b"), {"domains": ["web", "grounding"], "distilled": {"teachers": {"web": "offline_web"}}})
    assert two.merge.specialists == ("offline_grounding", "online_web")
    assert two.distilled.teachers.of_domains == {"grounding": "offline_grounding", "web": "offline_web"}
    named = over(NANO, {"domains": FOUR, "merge": {"specialists": ["offline_computer"]}})
    assert named.merge.specialists == ("offline_computer",)
    for wrong, told in (
        ([], "domains: expected at least 1 of them, found"),
        (["desktop"], "domains.0: expected grounding, mobile, web or computer, found 'desktop'"),
    ):
        with pytest.raises(SettingsError, match=f"^trainer: {told}"):
            over(NANO, {"domains": wrong})


def test_another_domain_makes_anew_what_its_rows_rode_in_and_what_is_made_of_it_and_nothing_else() -> None:
    def parts(given: Mapping[str, Any]) -> dict[str, str]:
        return {stage: digest(over(NANO, given, stage).of_stage(stage)) for stage in STAGES}

    usual, four = parts({}), parts({"domains": FOUR})
    changed = {stage for stage in STAGES if usual[stage] != four[stage]}
    assert changed == {"offline_web", "online_web", "linear", "unified", "distilled"}
    assert all("computer" not in str(over(NANO, {}, stage).of_stage(stage)) for stage in STAGES)
