"""Before a run costs anything: is what its assets need here? One line for each thing that isn't.

A stage names its needs (`GraphStage.needs`); `PROBES` says how each is looked for. A step of a run asks for itself and
for all of the run that is built from it (`factory`): a source without files fails alone, a judge that doesn't answer
fails everything that leads to a judgement, a full disk fails the run.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from dagster_project.preflight import training_memory
from dagster_project.stage_functions.generation import loop_config, places
from dagster_project.stages import sources
from dagster_project.stages.stage import GraphStage, StageWork
from dagster_project.stages.training import given_config, inputs, success_judge, trainer_worlds
from generators.devices.browser import BrowserMissing, find_chromium
from generators.execution.device_sources import DevicePlaces
from generators.execution.device_sources import missing as gateways_missing
from generators.worlds.desktop.session import find_missing
from pipelines import suites
from pipelines.engines.engine import EngineError
from pipelines.engines.run_parts import chosen_engine
from pipelines.extensions import find_part
from pipelines.extras import MissingExtra
from pipelines.store.free_space import free_bytes, sized
from quality.evidence.ocr_text import NoReader
from quality.evidence.reading import READERS
from quality.judges.registry import JUDGES, JudgeConfig, asks_a_model
from quality.model_client.keys import NO_KEY, key_for, key_withheld
from trainer.modeling.published_files import HUB_NAME
from trainer.stages.assets import BROWSER_WORLDS
from trainer.stages.settings import preset_from, stage_settings, weights_folder

TIMEOUT_S = 10.0
BROWSER_GROUNDS = ("fsm", "phone", "datasette", "django_admin", "dagster_ui")

Probe = Callable[[GraphStage, StageWork], list[str]]


OWN = ("files", "browser", "trainer", "devices")
"""Needs that aren't the same for all stages that have them."""
Known = dict[tuple[str, str], list[str]]


def missing(
    stages: Mapping[str, GraphStage], work: StageWork, key: str, chosen: Collection[str], known: Known | None = None
) -> list[str]:
    """What a stage, and those of `chosen` that are built from it, need and don't find; each line once. `known` keeps
    what was looked for already, so that a run asks a judge once and not for every step."""
    known = {} if known is None else known
    found: dict[str, None] = {}
    for name in [key, *_below(stages, key, chosen)]:
        # Whatever a stage needs, it needs room.
        for need in ("disk", *stages[name].needs):
            # Some needs are a stage's own; the others are looked for once.
            requested = (need, name if need in OWN else "")
            if requested not in known:
                known[requested] = PROBES[need](stages[name], work)
            # A dictionary for its order, each line once.
            found |= dict.fromkeys(known[requested])
    return list(found)


def _below(stages: Mapping[str, GraphStage], key: str, chosen: Collection[str]) -> list[str]:
    """Those of `chosen` that are built from a stage by way of others of them, in the graph's order."""
    reached = {key}
    for name, stage in stages.items():  # a stage comes after what it depends on
        if name in chosen and reached & set(stage.deps):
            reached.add(name)
    return [name for name in stages if name in reached and name != key]


# --- probes -----------------------------------------------------------------------------------------------------------
def disk(stage: GraphStage, work: StageWork) -> list[str]:
    """Free space in the store, as much as the deployment wants."""
    free, wanted = free_bytes(work.store.home), work.deployment.preflight.free_gb * 1e9
    if free >= wanted:
        return []
    return [
        f"disk: expected {sized(int(wanted))} free in {work.store.home} (preflight.free_gb of deployment.yaml), "
        f"found {sized(free)}; `vesper gc` lists what can go"
    ]


def files(stage: GraphStage, work: StageWork) -> list[str]:
    """Native files of a source, or what makes the embedded ones."""
    name = stage.key.partition("/")[2]
    if sources.follow(work.deployment, name) is not None:
        return []  # pulled when it is made
    folder = work.deployment.native_folder(name)
    if folder is not None:
        # Folders of a pull that was killed hold hidden files alone.
        there = folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
        if there:
            return []
        by_hand = name in suites.registry() or folder != work.deployment.raw_root / name  # where a pull puts them
        brought = "put them there by hand" if by_hand else f"`vesper sources pull {name}` brings them"
        return [f"{stage.key}: expected native files in {folder}, found none; {brought}"]
    if not work.deployment.embedded.enabled:
        return [
            f"{stage.key}: expected native files in {work.deployment.raw_root / name}, found none; put them there, "
            "or allow embedded data in deployment.yaml"
        ]
    # Embedded data that is there needs no browser any more.
    built = (work.store.home / "raw" / "_receipts" / f"{name}.json").is_file()
    return [] if built else browser(stage, work)


def engine(stage: GraphStage, work: StageWork) -> list[str]:
    """The engine of the stage's parts, and its cluster where it has one."""
    try:
        chosen_engine(work.deployment.engine.of(stage.key), ()).require()
    except (ValueError, MissingExtra, EngineError) as error:
        return [str(error)]
    return []


def judge(stage: GraphStage, work: StageWork) -> list[str]:
    """The judge in use: known, trained where it is trained, its endpoint answering where it asks one."""
    settings = work.judge
    try:
        find_part("judge", settings.name, JUDGES)
    except ValueError as error:
        return [f"{error} ($VESPER_JUDGE)"]
    # Before its weights: a name that nobody knows has none.
    if settings.name == "nano" and work.store.current("checkpoints/nano_judge") is None:
        return ["judge: nano isn't trained yet; materialise checkpoints/nano_judge, or use another ($VESPER_JUDGE)"]
    if (program := work.deployment.judge.reader_used) and (unread := _cannot_read(program)):
        return [unread]
    # Only a judge that asks a model has an endpoint.
    if not asks_a_model(JudgeConfig(settings.name)):
        return []
    if not settings.base_url or not settings.model:
        return [f"judge: {settings.name} needs an endpoint: set $VESPER_JUDGE_BASE_URL and $VESPER_JUDGE_MODEL"]
    return _endpoint(settings.base_url, settings.model)


def _cannot_read(program: str) -> str:
    """Why a program can't read here; empty if it can."""
    try:
        READERS[program][0]()
    except NoReader as missing:
        return f"judge: {missing}, or set judge.read to false in deployment.yaml"
    return ""


def _endpoint(base_url: str, model: str, said_in: str = "$VESPER_JUDGE_MODEL") -> list[str]:
    """Whether a server of the OpenAI protocol answers, lets us in, and serves the model. It is asked for its list of
    models, which costs nothing; a server without such a list has answered."""
    if not base_url.startswith(("http://", "https://")):
        return [f"judge: expected an http(s) URL in $VESPER_JUDGE_BASE_URL, found {base_url[:80]!r}"]
    # The key goes to its own host only.
    key = key_for(base_url)
    requested = urllib.request.Request(f"{base_url.rstrip('/')}/models")
    requested.add_unredirected_header("Authorization", f"Bearer {key}")  # elsewhere it would be a stranger's
    try:
        with urllib.request.urlopen(requested, timeout=TIMEOUT_S) as answer:
            # A list of models is short; a server may send anything.
            served = _names(answer.read(1 << 20))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (401, 403):
            state = "is refused" if key != NO_KEY else "isn't set"
            hint = f" ({withheld})" if (withheld := key_withheld(base_url)) else ""
            return [f"judge: {base_url} wants a key (HTTP {error.code}), and $VESPER_JUDGE_API_KEY {state}{hint}"]
        # Without a list of models the server has still answered.
        return [f"judge: {base_url} answers with HTTP {error.code}; is its server whole?"] if error.code >= 500 else []
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", str(error))
        return [f"judge: {base_url} doesn't answer ({str(reason)[:120]}); start its server, or use another judge"]
    # Some servers list nothing and serve whatever is asked for.
    if served and model not in served:
        return [f"judge: {base_url} serves {', '.join(sorted(served)[:5])}, not {model!r:.80} ({said_in})"]
    return []


def _names(body: bytes) -> set[str]:
    """Model names in the answer to /models; none where it isn't understood."""
    try:
        return {str(one["id"]) for one in json.loads(body)["data"]}
    except (ValueError, KeyError, TypeError):
        return set()


def browser(stage: GraphStage, work: StageWork) -> list[str]:
    """A Chromium. What was drawn once (a bench, a pool of tasks) is there, and isn't drawn again for nothing."""
    if stage.group in ("bench", "task_pool") and work.store.current(stage.key) is not None:
        return []
    try:
        find_chromium()
    except (BrowserMissing, ImportError) as error:
        return [f"browser: {error}"]
    return []


def ground(stage: GraphStage, work: StageWork) -> list[str]:
    """What the generation loop executes on: gateways that answer, and for what it opens here a browser, or the programs
    of a desktop."""
    try:
        name = loop_config(work.deployment.generation.loop).ground
    except ValueError as error:
        return [f"generation: {error}"]
    where = places(work.deployment)
    found = gateways_missing(where, [name])
    # Elsewhere the gateway's machine has the browser.
    if not where.local:
        return found
    if name in BROWSER_GROUNDS:
        return found + browser(stage, work)
    return found + (desktop(stage, work) if name == "desktop" else [])  # what one of your own needs, it says itself


def desktop(stage: GraphStage, work: StageWork) -> list[str]:
    """The packages of a desktop."""
    packages = find_missing()
    return [f"desktop: packages are missing: {' '.join(packages)}"] if packages else []


def devices(stage: GraphStage, work: StageWork) -> list[str]:
    """What online RL's rollouts run on: gateways of $VESPER_DEVICES that answer, for worlds here a browser, and the
    judge of their success where one was named."""
    try:
        worlds, model = trainer_worlds(stage.key), success_judge()
    except ValueError as error:
        return [f"trainer: {error}"]
    where = DevicePlaces.of()
    found = gateways_missing(where, worlds)
    if model and not (address := os.environ.get("VESPER_JUDGE_BASE_URL", "")):
        found.append(f"trainer: the success judge {model!r:.80} needs an endpoint: set $VESPER_JUDGE_BASE_URL")
    elif model:
        found += _endpoint(address, model, "online.success_judge of $VESPER_TRAINER")
    # Worlds of gateways need no browser here.
    return found + browser(stage, work) if where.local and set(worlds) & set(BROWSER_WORLDS) else found


def trainer(stage: GraphStage, work: StageWork) -> list[str]:
    """The trainer's settings: known, with specialists that there are, its preset's weights where they were said to be,
    and room for them to be trained on the device and the ranks that the stage gets."""
    try:
        config = given_config(work)
        settings = stage_settings("base", config)
        inputs(stage.key, config)
        chosen, weights = preset_from(settings), weights_folder(settings.weights)
        # a name on the hub is downloaded by the stage
        if weights and not (Path(weights) / "config.json").is_file() and not HUB_NAME.fullmatch(weights):
            raise ValueError(f"weights: expected a checkpoint's folder with config.json, found {weights[:120]!r}")
        # The preset that was named, else that of the base which is there.
        trained = chosen.name if "preset" in config else _preset_of_base(work) or chosen.name
        found = training_memory.missing(stage.key, trained, config)
    except (ValueError, TypeError) as error:
        return [f"trainer: {error}"]
    return [f"trainer: {found}"] if found else []


def _preset_of_base(work: StageWork) -> str:
    """That of the base which was made, by whomever and with which settings; "" if there is none."""
    base = work.store.current("checkpoints/base")
    if base is None:
        return ""
    said = [base.path(entry) for entry in base.files if entry.path.endswith("/preset.json")]
    return str(json.loads(said[0].read_text(encoding="utf-8"))["name"]) if said else ""


PROBES: dict[str, Probe] = {
    "disk": disk,
    "files": files,
    "judge": judge,
    "browser": browser,
    "ground": ground,
    "desktop": desktop,
    "trainer": trainer,
    "devices": devices,
    "engine": engine,
}
"""Need → what looks for it. A new need: a function and a line here."""
