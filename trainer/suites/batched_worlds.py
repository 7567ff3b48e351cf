"""Episodes of a checkpoint in several worlds at once, whose replies are made in batches: for `trainer.suites.worlds`.

The workers and the reply engine are those of online RL, in lockstep: the engine answers once every running episode
waits, so who stands in a batch depends on contracts, seeds and the number of workers alone, and so do the replies. A
batch of eight costs a nano model half of eight replies made one by one. Several workers form two pools, so that worlds
and model both have work. Episodes are made in chunks, and a chunk's records are on the disk before the next begins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.execution.execute import BAD_START
from generators.execution.limits import AttemptLimits
from generators.tasks.task_spec import TaskSpec

if TYPE_CHECKING:
    from generators.execution.device_pool import DevicePool
    from trainer.modeling.checkpoint import Checkpoint
    from trainer.online.rollouts import Rollout, RolloutJob
    from trainer.online.workers import RolloutWorkers

CHUNK = 24
"""Episodes a worker between two writes."""
SPLIT = 4
"""Workers from which on there are two pools."""
LOOK_S = 0.1
LARGEST = 200_000_000
"""Parameters of a model of which the engine may hold a second copy; larger ones are served."""


def fits(checkpoint: Any) -> bool:
    """Whether a loaded checkpoint is small enough for this."""
    return sum(parameter.numel() for parameter in checkpoint.model.parameters()) <= LARGEST


def run_batched(
    checkpoint: Checkpoint,
    contracts: Sequence[TaskSpec],
    seeds: Sequence[int],
    pool: DevicePool,
    file: Path,
    *,
    temperature: float,
    limits: AttemptLimits,
    workers: int,
    thinking: bool,
    max_new_tokens: int,
    record: Callable[[RolloutJob, Rollout], dict[str, Any]],
    on_record: Callable[[dict[str, Any], int], None],
) -> list[dict[str, object]]:
    """`record`s of every contract with every seed, in the order of (task, seed). `file` keeps them; what it holds isn't
    made again. `on_record` is called with each as it ends, and with how many there are. Raises what ended the run."""
    from trainer.online.rollouts import RolloutJob

    # Sorted, so that batches (and replies with them) don't depend on the caller's order.
    ordered = sorted(contracts, key=lambda contract: contract.task_id)
    jobs = [
        RolloutJob(contract, contract.task_id, place, seed, greedy=temperature == 0)
        for contract in ordered
        for place, seed in enumerate(seeds)
    ]
    if len({job.key for job in jobs}) < len(jobs):
        raise ValueError("world success: expected each contract once, found one of them again")
    chunks = [jobs[start : start + CHUNK * workers] for start in range(0, len(jobs), CHUNK * workers)]
    # chunks are whole: their records are taken as they are, in the order in which they were made
    done_chunks = list(_kept(file, len(chunks)))
    for number, records in enumerate(done_chunks):
        for one in records:
            on_record(one, sum(map(len, done_chunks[:number])) + records.index(one) + 1)
    if len(done_chunks) < len(chunks):
        # Temperature 1 where it is greedy: greedy jobs say so themselves, and 0 can't be divided by.
        with _halves(checkpoint, pool, limits, workers, temperature or 1.0, thinking, max_new_tokens) as halves:
            for chunk in chunks[len(done_chunks) :]:
                before = sum(map(len, done_chunks))
                ended: dict[str, dict[str, Any]] = {}
                for job, rollout in _rollouts(halves, chunk):
                    ended[job.key] = record(job, rollout)
                    on_record(ended[job.key], before + len(ended))
                # in the order of the chunk, whichever episode ended first
                done_chunks.append([ended[job.key] for job in chunk])
                _keep(file, done_chunks[-1])
    return [one for records in done_chunks for one in records]


@contextmanager
def _halves(
    checkpoint: Checkpoint,
    pool: DevicePool,
    limits: AttemptLimits,
    workers: int,
    temperature: float,
    thinking: bool,
    max_new_tokens: int,
) -> Iterator[list[RolloutWorkers]]:
    """Two halves of the workers, each with an engine: one acts while the other's replies are made. One pool of a
    few."""
    import torch

    from trainer.modeling.seen_pictures import SeenPictures
    from trainer.online.engine import ReplyEngine
    from trainer.online.workers import RolloutWorkers

    sizes = [workers] if workers < SPLIT else [workers - workers // 2, workers // 2]
    # halves work at the same time, so they share the threads
    threads = max(1, torch.get_num_threads() // len(sizes))
    # both engines hold one tower, so one of them may use what the other has seen
    pictures = SeenPictures()
    with ExitStack() as stack:
        halves = []
        for size in sizes:
            engine = stack.enter_context(
                ReplyEngine(
                    checkpoint.model,
                    checkpoint.processor.apart(),
                    temperature=temperature,
                    lockstep=True,
                    threads=threads,
                    max_new_tokens=max_new_tokens,
                    pictures=pictures,
                )
            )
            halves.append(
                stack.enter_context(RolloutWorkers(checkpoint, engine, pool, limits, workers=size, thinking=thinking))
            )
        yield halves


def _rollouts(halves: Sequence[RolloutWorkers], jobs: Sequence[RolloutJob]) -> Iterator[tuple[RolloutJob, Rollout]]:
    """The rollouts of jobs that are dealt out to the halves, as they end. Raises what ended a half's run."""
    by_key = {job.key: job for job in jobs}
    left = [0] * len(halves)
    # In turn, so that neither half gets all episodes of a slow task.
    for number, half in enumerate(halves):
        dealt = jobs[number :: len(halves)]
        half.submit(dealt)
        left[number] = len(dealt)
    while any(left):
        for number, half in enumerate(halves):
            for rollout in half.wait(LOOK_S) if left[number] else ():
                left[number] -= 1
                yield by_key[rollout.key], rollout


def why_lost(failure: str) -> str:
    """A lost rollout's reason, by the kinds that `worlds.outcome` distinguishes."""
    # By the prefix that the workers write; anything else is a device's or the server's.
    if failure.startswith(BAD_START):
        return f"refused start: {failure}"
    if failure.startswith("evaluator: "):
        return f"undecided: {failure.removeprefix('evaluator: ')}"
    return f"infrastructure: {failure}"


def _keep(file: Path, records: Sequence[dict[str, object]]) -> None:
    with file.open("ab") as stream:
        stream.write(json.dumps(records).encode("ascii") + b"\n")
        stream.flush()
        # on the disk before the next chunk begins
        os.fsync(stream.fileno())


def _kept(file: Path, most: int) -> Iterator[list[dict[str, Any]]]:
    """The chunks that are on the disk whole; a torn last one is cut off."""
    if not file.exists():
        return
    data = file.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        # a kill in the middle of a write leaves a line without its end
        os.truncate(file, whole)
    lines = data[:whole].splitlines()
    if len(lines) > most:
        raise ValueError(f"{file}: expected at most {most} chunks of episodes, found {len(lines)}; give another folder")
    yield from map(json.loads, lines)
