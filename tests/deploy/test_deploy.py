"""What deploy/ says is true: files parse, commands and modules exist, every variable is one that something reads."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from composed import BY_COMPOSE, IMAGES, composed
from helm_chart import rendered

from dagster_project.settings.environment import PREFIX, Environment

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OF_OTHERS = {
    "DAGSTER_HOME",
    "HOME",
    "POSTGRES_USER",
    "POSTGRES_DB",
    "POSTGRES_PASSWORD",
    "DAGSTER_DISABLE_TELEMETRY",
    "HF_HUB_DISABLE_TELEMETRY",
    "DO_NOT_TRACK",
    "PYTHONUNBUFFERED",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "HF_TOKEN",
    "VLLM_API_KEY",
}
"""Variables that programs of others read."""


def _pods() -> Iterator[Any]:
    for _, one in rendered():
        if one["kind"] in ("Deployment", "StatefulSet"):
            yield one["spec"]["template"]["spec"]


def _commands() -> Iterator[list[str]]:
    """Every command that compose.yaml and the chart run, health checks too."""
    for service in composed()["services"].values():
        if "command" in service:
            yield service["command"]
        test = service.get("healthcheck", {}).get("test", [])
        if test and test[1] != "pg_isready":  # PostgreSQL's own image has it
            yield test[1:]
    for pod in _pods():
        for box in (*pod.get("initContainers", []), *pod["containers"]):
            yield box["args"]
            for probe in (box.get("livenessProbe", {}), box.get("readinessProbe", {})):
                if "exec" in probe:
                    yield probe["exec"]["command"]


def _distinct() -> list[list[str]]:
    return [list(words) for words in dict.fromkeys(tuple(command) for command in _commands())]


@pytest.mark.parametrize("words", _distinct(), ids=lambda words: " ".join(words)[:50])
def test_every_command_exists_with_its_options(words: list[str]) -> None:
    if words[0] == "python":
        if words[1] == "-m":
            assert importlib.util.find_spec(words[2]), words
        else:
            compile(words[2], "<deploy>", "exec")
        return
    scripts = {one.name for one in importlib.metadata.entry_points(group="console_scripts")}
    assert words[0] in scripts, f"{words[0]}: no such program"
    if words[0] == "vesper":
        from dagster_project import cli

        first = next((number for number, word in enumerate(words) if word.startswith("--")), len(words))
        with pytest.raises(SystemExit) as ended:
            cli.main([*words[1:first], "--help"])
        assert ended.value.code == 0
        with pytest.raises(SystemExit) as refused:  # an option that it doesn't know is an error of usage, code 2
            cli.main([*words[1:], "--no-such-option"])
        assert refused.value.code == 2
        return
    assert {word for word in words if word.startswith("-")} <= _options(words)


def _options(words: list[str]) -> set[str]:
    """Options of one of Dagster's programs, from its own definition."""
    import click

    known = {
        "dagster": "dagster._cli:create_dagster_cli",
        "dagster-daemon": "dagster._daemon.cli:create_dagster_daemon_cli",
    }
    module, _, name = known.get(words[0], "dagster_webserver.cli:dagster_webserver").partition(":")
    made = getattr(importlib.import_module(module), name)
    command = made if isinstance(made, click.Command) else made()
    for word in words[1:]:
        if isinstance(command, click.Group):
            assert word in command.commands, f"{words[0]}: no command {word}"
            command = command.commands[word]
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


def _environments() -> Iterator[str]:
    for service in composed()["services"].values():
        yield from service.get("environment", {})
    for _, one in rendered():
        if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("environment"):
            yield from one["data"]
    for pod in _pods():
        for box in pod["containers"]:
            yield from (entry["name"] for entry in box.get("env", []))
    told = (DEPLOY / "Dockerfile").read_text()
    yield from re.findall(r"^(?:ENV| {3,}) ?([A-Z_]+)=", told, re.MULTILINE)


def test_every_variable_is_one_that_the_code_reads() -> None:
    sources = [
        path.read_text()
        for name in ("pipelines", "quality", "generators", "trainer", "dagster_project")
        for path in (ROOT / name).rglob("*.py")
    ]
    named = {name for text in sources for name in re.findall(r'"(VESPER_[A-Z_]+)"', text)}
    named |= {f"{PREFIX}{name.upper()}" for name in Environment.model_fields}
    used = set(_environments())
    assert {"VESPER_HOME", "VESPER_POSTGRES_URL", "VESPER_GATEWAY_SECRET", "POSTGRES_PASSWORD"} <= used
    assert used <= named | OF_OTHERS, used - named - OF_OTHERS
    interpolated = set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text()))
    assert interpolated <= (known := named | BY_COMPOSE | IMAGES), interpolated - known


def test_nobody_runs_as_root_and_nothing_is_published_beyond_loopback() -> None:
    services = composed()["services"]
    for name, service in services.items():
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", [])), name
        if name != "postgres":  # its image changes to a user of its own
            assert service["user"].startswith("${VESPER_UID") and service["cap_drop"] == ["ALL"], name
            assert service["read_only"] and service["security_opt"] == ["no-new-privileges:true"], name
    for pod in _pods():
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
        for box in (*pod.get("initContainers", []), *pod["containers"]):
            said = box["securityContext"]
            assert said["capabilities"] == {"drop": ["ALL"]} and not said["allowPrivilegeEscalation"]
    told = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^USER (\d+)", told, re.MULTILINE)[-1] != "0"


def test_what_refers_to_something_refers_to_what_is_there() -> None:
    compose = composed()
    for name, service in compose["services"].items():
        assert set(service.get("depends_on", {})) <= set(compose["services"]), name
        assert set(service.get("secrets", [])) <= set(compose["secrets"]), name
    place = yaml.safe_load((DEPLOY / "workspace.yaml").read_text())["load_from"][0]["grpc_server"]
    assert place["host"] in compose["services"] and str(place["port"]) in compose["services"]["code"]["command"]
    told = (DEPLOY / "Dockerfile").read_text()
    for copied in re.findall(r"^COPY (.+) \S+$", told, re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split()), copied
    volumes = {
        one["metadata"]["name"] for _, one in rendered() if one["kind"] in ("ConfigMap", "PersistentVolumeClaim")
    }
    services = {one["metadata"]["name"] for _, one in rendered() if one["kind"] == "Service"}
    for pod in _pods():
        mounted = {
            mount["name"]
            for box in (*pod.get("initContainers", []), *pod["containers"])
            for mount in box["volumeMounts"]
        }
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        for volume in pod["volumes"]:
            name = volume.get("configMap", {}).get("name") or volume.get("persistentVolumeClaim", {}).get("claimName")
            assert name is None or name in volumes, name
    assert {"vesper-code", "vesper-authority", "vesper-node", "vesper-web"} <= services


# --- what containers are given ----------------------------------------------------------------------------------------
ELSEWHERE = {
    "VESPER_BROWSE_KEY": "the service browse alone has it",
    "VESPER_CODE_REVISION": "the image has it from its build",
    "VESPER_LINES": "the demo sets it",
    "VESPER_PAGES_ARCHIVE": "for a script that isn't in the image",
    "VESPER_RUN_SETTINGS": "the graph sets it for its own processes",
    "VESPER_SERVE_API_KEY": "for `vesper serve`, which isn't a part of the deployment",
    "VESPER_GATEWAY_SECRET": "the gateway's parts have files",
}
"""Variables of docs/running.md that compose.yaml doesn't pass on, and why."""


def _told() -> set[str]:
    """Our variables that docs/running.md lists."""
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    table = page[page.index("| variable | what |") :].partition("\n\n")[0]
    return {name for row in table.splitlines() for name in re.findall(r"`(VESPER_\w+)`", row.split(" | ")[0])}


def _given(service: str, settings: Mapping[str, str]) -> dict[str, str]:
    """What compose.yaml gives a service where .env and shell say `settings`: a name without a value is passed on, and
    left out where nothing says it; in a value `${NAME:-default}` and `${NAME:?message}` are replaced."""

    def put(match: re.Match[str]) -> str:
        said = settings.get(match[1], "")
        assert said or match[2] != ":?", f"{match[1]}: {match[3]}"
        return said or match[3]

    environment = composed()["services"][service]["environment"]
    found = {
        name: settings.get(name) if value is None else re.sub(r"\$\{(\w+)(:-|:\?)([^}]*)\}", put, str(value))
        for name, value in environment.items()
    }
    return {name: value for name, value in found.items() if value is not None}


def _of_chart(values: Mapping[str, Any] | None = None) -> dict[str, str]:
    """What the chart's pods get from its values."""
    maps = (one for _, one in rendered(values) if one["kind"] == "ConfigMap")
    [found] = [one["data"] for one in maps if one["metadata"]["name"].endswith("-environment")]
    return dict(found)


NEEDED = dict.fromkeys(BY_COMPOSE, "1")
"""What make_secrets.py writes."""
ENVIRONMENTS = {
    "compose": _given("code", NEEDED),
    "compose, each variable empty": _given("code", {**dict.fromkeys(_told(), ""), **NEEDED}),
    "chart": _of_chart(),
}


@pytest.mark.parametrize("given", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_graph_loads_with_what_containers_are_given(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is as without any of it: an empty text counts as not set."""
    from dagster_project import definitions
    from dagster_project.settings import deployment
    from dagster_project.stages.training import trainer_config

    for name in _told():
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        if name.startswith("VESPER_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    loaded = definitions.build(deployment.load())
    crons = {name: loaded.resolve_schedule_def(name).cron_schedule for name in ("nightly_refresh", "look_upstream")}
    default = Environment.model_fields
    assert crons == {
        "nightly_refresh": default["nightly_cron"].default,
        "look_upstream": default["upstream_cron"].default,
    }
    assert trainer_config() == {} and deployment.load().source("aitw").enabled is None
    judge = (loaded.resources or {})["judge"]
    assert judge.name == "rules" and judge.settings().base_url is None


def test_compose_passes_on_every_setting() -> None:
    """`deploy/.env` may hold any variable of docs/running.md."""
    said = {name: f"said {name}" for name in _told()} | NEEDED
    given = _given("code", said)
    assert _told() - set(given) == set(ELSEWHERE)
    fixed = {name for name in _told() & set(given) if given[name] != said[name]}
    assert fixed == {"VESPER_HOME", "VESPER_POSTGRES_URL", "VESPER_GATEWAY_URL"}
    services = composed()["services"]
    assert all(_given(name, said) == given for name in ("settings", "daemon", "web"))
    store = {name for name in given if name.startswith(("VESPER_STORE_", "VESPER_HOME"))}
    for page in ("review", "browse"):
        assert store <= set(_given(page, said)), "it reads the store, too"
    assert _given("browse", {**said, "VESPER_BROWSE_KEY": "k" * 24})["VESPER_BROWSE_KEY"] == "k" * 24
    assert services["postgres"]["environment"].keys() & _told() == set()


def test_the_chart_passes_on_all_of_its_environment_and_what_is_secret() -> None:
    values = {"environment": {"VESPER_TRAINER": '{"midtrain": {"max_steps": 2}}', "OTHER": "a: b # c", "HOME": "/root"}}
    found, plain = _of_chart(values), _of_chart()
    assert found["VESPER_TRAINER"] == values["environment"]["VESPER_TRAINER"] and found["OTHER"] == "a: b # c"
    assert found["HOME"] == "/tmp" and {**found, **plain} == found | {name: plain[name] for name in plain}
    assert set(found) == set(plain) | {"VESPER_TRAINER", "OTHER"}

    def sources(values: dict[str, Any]) -> dict[str, list[str]]:
        pods = {
            one["metadata"]["name"]: one["spec"]["template"]["spec"]
            for _, one in rendered(values)
            if one["kind"] == "Deployment"
        }
        return {
            name: [next(iter(entry.values()))["name"] for entry in box.get("envFrom", [])]
            for name, pod in pods.items()
            for box in pod["containers"]
        }

    assert set(map(tuple, sources({}).values())) == {("vesper-environment",)}
    secret = sources({"environmentSecret": "keys"})
    told = {name for name, given in secret.items() if given == ["vesper-environment", "keys"]}
    assert told == {"vesper-code", "vesper-review", "vesper-browse"}


def test_the_volume_is_of_the_clusters_default_class_unless_another_is_named() -> None:
    def claimed(values: dict[str, Any]) -> Any:
        [found] = [one for _, one in rendered(values) if one["kind"] == "PersistentVolumeClaim"]
        return found["spec"]

    assert "storageClassName" not in claimed({}), 'an empty text means "no class", which provisions nothing'
    assert claimed({"data": {"storageClass": "fast"}})["storageClassName"] == "fast"
    assert claimed({})["resources"]["requests"]["storage"] == "500Gi"


def test_the_code_location_gets_gpus_and_a_machine_that_has_them() -> None:
    def pods(values: dict[str, Any]) -> dict[str, Any]:
        return {
            one["metadata"]["name"].removeprefix("vesper-"): one["spec"]["template"]["spec"]
            for _, one in rendered(values)
            if one["kind"] in ("Deployment", "StatefulSet")
        }

    tainted = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    given = pods({"code": {"gpus": 8, "nodeSelector": {"gpu": "h100"}, "tolerations": tainted}})
    [box] = given["code"]["containers"]
    assert box["resources"]["limits"] == {"memory": "32Gi", "nvidia.com/gpu": 8}
    assert given["code"]["nodeSelector"] == {"gpu": "h100"}
    beside = {name for name, pod in given.items() if pod.get("tolerations") == tainted}
    assert beside == {"code", *(name for name, pod in given.items() if "affinity" in pod)}, "they run where it does"
    plain = pods({})["code"]
    assert plain["containers"][0]["resources"]["limits"] == {"memory": "32Gi"} and plain["nodeSelector"] == {}

    over = yaml.safe_load((DEPLOY / "compose.gpu.yaml").read_text())["services"]
    [device] = over["code"]["deploy"]["resources"]["reservations"]["devices"]
    assert set(over) <= set(composed()["services"]) and device["capabilities"] == ["gpu"]


# --- the image --------------------------------------------------------------------------------------------------------
def test_large_numbers_stay_whole_numbers() -> None:
    """Clusters that give each project users of its own number them from a thousand million on."""
    over = {"user": 1_000_660_000, "gateway": {"maxConnections": 2_000_000}}
    pods = [
        one["spec"]["template"]["spec"] for _, one in rendered(over) if one["kind"] in ("Deployment", "StatefulSet")
    ]
    assert pods and all(pod["securityContext"]["runAsUser"] == over["user"] for pod in pods)
    [told] = [
        box["args"][-1] for pod in pods for box in pod.get("initContainers", []) if "max_connections" in box["args"][-1]
    ]
    assert '"max_connections": 2000000,' in told
