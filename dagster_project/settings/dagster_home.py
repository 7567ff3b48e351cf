"""$DAGSTER_HOME: the history that `vesper demo` writes and `make dev` shows; in PostgreSQL with $VESPER_POSTGRES_URL.

`vesper dagster-home` makes the folder and prints it, the first step of every deployment.
"""

import importlib.util
import os
from pathlib import Path

from dagster_project.settings import deployment
from pipelines.extras import install_line
from pipelines.whole_files import whole_file

TEMPLATE = Path(__file__).parents[1] / "dagster.yaml"
POSTGRES = Path(__file__).parents[1] / "dagster-postgres.yaml"
POSTGRES_URL = "VESPER_POSTGRES_URL"
DRIVER = "postgresql+psycopg2"
WHOLE_CORPUS = "vesper/whole_corpus"
"""Tag of a run, in that history, of named assets that are the whole corpus but for what only proves things."""


def prepare(home: Path | None = None) -> Path:
    """Make $VESPER_HOME/dagster with the shipped settings; set the environment.

    An edited copy of the settings is left alone, but for one thing: if $VESPER_POSTGRES_URL is set and the copy names
    no storage, the storage is added at its end. Raises `DeploymentError` if what PostgreSQL needs isn't there.
    """
    folder = (home or deployment.home()) / "dagster"
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "dagster.yaml"
    if not settings.exists():
        _write(settings, TEMPLATE.read_text(encoding="utf-8"))
    if os.environ.get(POSTGRES_URL):
        _use_postgres(settings)
    os.environ["DAGSTER_HOME"] = str(folder)
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    return folder


def _use_postgres(settings: Path) -> None:
    import yaml

    if importlib.util.find_spec("dagster_postgres") is None:
        raise deployment.DeploymentError(
            f"{POSTGRES_URL} is set, but dagster-postgres isn't installed: {install_line('production')}"
        )
    scheme, _, rest = os.environ[POSTGRES_URL].partition("://")
    if scheme != DRIVER or not rest:
        raise deployment.DeploymentError(
            f"{POSTGRES_URL}: expected {DRIVER}://USER:PASSWORD@HOST:PORT/DATABASE, found the scheme {scheme[:30]!r} "
            "(without a driver's name SQLAlchemy 2.1 takes another driver than Dagster's)"
        )
    text = settings.read_text(encoding="utf-8")
    said = yaml.safe_load(text) or {}
    if "storage" in said:
        storage = said["storage"]
        if not isinstance(storage, dict) or "postgres" not in storage:
            # Adding ours would silently move runs to another database.
            raise deployment.DeploymentError(
                f"{POSTGRES_URL} is set, but {settings} names another storage: take out one of the two"
            )
        return
    added = POSTGRES.read_text(encoding="utf-8")
    if "run_launcher" in said:  # a deployment's own
        added = added.partition("\n# Asks code locations")[0] + "\n"
    _write(settings, text + added)


def _write(path: Path, text: str) -> None:
    """Whole or not at all: several processes of a deployment may begin at once."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
