"""The engine `beam`: parts on any runner of Apache Beam, by its flags (`options`).

Beam carries the arguments of parts only (`Create | Map`): no payload, no picture passes through it. Without flags its
FnApiRunner works in this process, with `workers` in as many of its own; with `--runner=DaskRunner` a part is a task of
the cluster at `--dask_client_address`.
"""

import functools
import logging
from collections.abc import Callable, Sequence

from pipelines.engines.engine import EngineError, call, connect_to
from pipelines.engines.settings import EngineChoice
from pipelines.extras import telling_extras

DASK_RUNNER = "apache_beam.runners.dask.dask_runner.DaskRunner"
DASK_ADDRESS = "--dask_client_address="


class Beam:
    """See the module. Raises `ValueError` for an option that is no flag."""

    def __init__(self, choice: EngineChoice) -> None:
        if wrong := [option for option in choice.options if not option.startswith("--")]:
            raise ValueError(f'engine beam: expected flags such as "--runner=DaskRunner", found {wrong[0][:80]!r}')
        self._flags = flags(choice.options, choice.workers)

    def require(self) -> None:
        """See `PartsEngine`; of clusters Dask's alone is asked."""
        for address in (one.removeprefix(DASK_ADDRESS) for one in self._flags if one.startswith(DASK_ADDRESS)):
            try:
                connect_to(address)
            except (OSError, ValueError) as error:
                raise EngineError(
                    f"engine: no Dask scheduler answers at {address[:120]} ({str(error)[:120]}); start it, or take it "
                    "out of engine.options in deployment.yaml"
                ) from error

    def map(self, function: str, arguments: Sequence[object], ended: Callable[[int], None]) -> None:
        """See `PartsEngine`; which calls ended is known when all have."""
        logging.getLogger("apache_beam").setLevel(logging.ERROR)  # it names the clouds whose libraries aren't here
        logging.getLogger("apache_beam.options").setLevel(logging.WARNING)  # and the flags that it doesn't know
        with telling_extras():
            import apache_beam as beam
            from apache_beam.options.pipeline_options import PipelineOptions
        pipeline = beam.Pipeline(options=PipelineOptions(self._flags))
        # No reshuffle: it would wait for all elements before the first is run.
        _ = pipeline | beam.Create(arguments, reshuffle=False) | beam.Map(functools.partial(call, function))
        result = pipeline.run()
        result.wait_until_finish()
        if hasattr(result, "client"):  # Dask's, which would otherwise try to reach its cluster for ever
            result.client.close()
        # Beam tells no progress while it runs, so parts end all at once for whoever counts them.
        for place in range(len(arguments)):
            ended(place)


def flags(options: Sequence[str], workers: int | None) -> list[str]:
    """Flags for Beam: always a runner, as the default one first tries to download a Prism binary; Dask by its short
    name, and one part a task, where its runner would put 128 into one."""
    chosen = [f"--runner={DASK_RUNNER}" if option == "--runner=DaskRunner" else option for option in options]
    if f"--runner={DASK_RUNNER}" in chosen:
        sized = any(one.startswith(("--dask_partition_size", "--dask_npartitions")) for one in chosen)
        return chosen if sized else [*chosen, "--dask_partition_size=1"]
    if any(one.startswith("--runner") for one in chosen):
        return chosen
    # Beam's default mode runs its workers as threads of this process, which share one interpreter's lock.
    here = [f"--direct_num_workers={workers}", "--direct_running_mode=multi_processing"] if workers else []
    return ["--runner=FnApiRunner", *here, *chosen]
