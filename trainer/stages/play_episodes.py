"""`episodes/unified`: the merged agent plays in a real browser until one episode is solved and one failed.

Both are there to look at (an animated picture, a sheet, the steps as JSON); how good the agent is, suites measure.
"""

from collections.abc import Mapping, Sequence

from generators.execution.episode_film import FilmedEpisode
from generators.execution.limits import AttemptLimits
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import Manifest
from schemas.ids import canonical_json, digest
from trainer.modeling.checkpoint import read_preset
from trainer.runtime.tracking import OnEvent
from trainer.serving.checkpoint_policy import checkpoint_policies
from trainer.stages.assets import checkpoint_folder
from trainer.stages.episodes import AGENT, ASSET, BOTH, CODE_VERSION, PLAYED, SHOWN
from trainer.stages.settings import stage_settings
from trainer.suites.play import most_telling, opener, play, tasks_of

SIMPLE = {
    "miniwob": (
        "click-tab",
        "click-button",
        "click-test-2",
        "click-dialog-2",
        "click-link",
        "focus-text-2",
        "click-button-sequence",
        "click-option",
    )
}
"""World → the families that are played: tasks of a few steps, which a person takes in at a glance. All, if none are
named here."""
LIMITS = AttemptLimits(step_factor=1.0, step_extra=3)
"""Tighter than where success is measured: who is lost goes on clicking, and there is nothing to see in that."""


def build_episodes(
    store: Store, config: Mapping[str, object] | None = None, on_event: OnEvent | None = None
) -> Manifest:
    """Make `episodes/unified` of the current agent, unless equal inputs made it before. `config`: the trainer's whole
    configuration. Raises `StoreError` without an agent, `ValueError` for a setting, `InfrastructureFailure` where the
    browser fails again and again."""
    # Only its settings and the agent decide what is played.
    asked = stage_settings(ASSET, config or {})
    agent = store.require(AGENT)
    settings = asked.of_stage(ASSET)
    spec = PartSpec("episodes", digest([ASSET, CODE_VERSION, settings, agent.data_version]))
    inputs = {AGENT: agent.version}
    with store.build(ASSET, code_version=CODE_VERSION, config=settings, inputs=inputs, parts=[spec]) as build:

        def write(out: PartWriter) -> dict[str, object]:
            folder, wanted = checkpoint_folder(agent), asked.episodes
            tasks = tasks_of(wanted.world, wanted.attempts, wanted.seed, SIMPLE.get(wanted.world, ()))
            played = play(
                tasks,
                opener(tasks[0], "nano" if read_preset(folder).name == "nano" else "full"),
                checkpoint_policies(folder, device=asked.device),
                # Stops as soon as one of each kind was seen.
                lambda found: {one.verdict for one in found} >= set(SHOWN),
                limits=LIMITS,
                on_episode=lambda one: _report(one, on_event),
            )
            for name, episode in most_telling(played).items():
                if name in SHOWN:
                    _put(out, name, episode)
            return counts_of(played)

        counts = build.run_part(spec, write).counts
        solved, failed = counts["solved"], counts["failed"]
        found = f"{solved} solved, {failed} failed of {counts['records']}"
        checks = [
            PLAYED.check(solved + failed > 0, solved + failed, 1),
            BOTH.check(solved > 0 and failed > 0, found, "one of each"),
        ]
        return build.commit(counts=counts, checks=checks)


def counts_of(played: Sequence[FilmedEpisode]) -> dict[str, object]:
    """Episodes by how they were decided, and their actions. They end with the first of either kind: no success rate."""
    verdicts = [one.verdict for one in played]
    return {
        "records": len(played),
        "solved": verdicts.count("solved"),
        "failed": verdicts.count("failed"),
        "not counted": verdicts.count("not counted"),
        "actions": sum(len(one.done.actions) for one in played),
    }


def _put(out: PartWriter, name: str, episode: FilmedEpisode) -> None:
    out.bytes(f"{name}.webp", episode.animation())
    out.bytes(f"{name}.png", episode.sheet())
    out.bytes(f"{name}.json", (canonical_json(episode.plain(timings=False)) + "\n").encode())


def _report(episode: FilmedEpisode, on_event: OnEvent | None) -> None:
    if on_event is not None:
        task = episode.done.contract.target
        on_event({"kind": "episode", "task": task, "verdict": episode.verdict, "why": episode.why})
