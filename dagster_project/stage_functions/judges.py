"""What the stages of `stages.judges` run."""

from dagster_project.stages.stage import StageWork
from generators.proving.judge_bench import stages
from pipelines.store.manifest import Manifest


def bench(work: StageWork) -> Manifest:
    """Build the judge bench, of pages of the web too where the store has some."""
    pages = work.store.home / "pages" / "tabler"
    return stages.build_bench(work.store, pages=pages if pages.is_dir() else None)


def nano(work: StageWork) -> Manifest:
    """Train the nano judge on the bench."""
    return stages.train_judge(work.store, read=work.deployment.judge.reader_used)


def measured(name: str, work: StageWork) -> Manifest:
    """Measure a judge on what of the bench is held out."""
    return stages.measure_judge(work.store, name, work.deployment.judge.reader_used)
