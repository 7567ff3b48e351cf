"""The environment as settings: variables `VESPER_*` that go over `deployment.yaml`, and those that only they say.

Containers are given empty texts for what nobody set: an empty variable is as if it weren't there.
"""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from schemas.settings import SettingsError, problems, setting

PREFIX = "VESPER_"
ELSEWHERE = {
    "HOME": "The store, and what lies beside it: by default `.vesper` in the current folder.",
    "STORE_URL": "The object store that the home is a verified copy of (docs/store.md).",
    "STORE_TIMEOUT_S": "Seconds that a request to the object store may take; not set: 60.",
    "CODE_REVISION": "The commit that manifests name, where the code is no git checkout.",
    "POSTGRES_URL": "The database of Dagster's history; not set: SQLite in the home.",
    "SOURCES": "Folders with adapters of your own, as PATH lists them (docs/add-a-dataset.md).",
    "STAGES": "Stages of the trainer of your own (docs/add-a-trainer-stage.md).",
    "WEB_HOSTS": "Names under which a proxy shows the pages of `vesper web`.",
    "BROWSE_KEY": "The token in the address of `vesper browse`, for links that last; not set: a new one each start.",
    "BROWSER": "The Chromium to start; not set: one on PATH, else Playwright's own.",
    "JUDGE_API_KEY": "The key of the judge's endpoint.",
    "SERVE_API_KEY": "The key that `vesper serve` asks for; without one it listens on the loopback only.",
    "DEVICES": "Where tasks are executed, as `generation.device` says it.",
    "SITE_URL": "Where leased browsers find the sites' page, as `generation.site_url` says it.",
    "GATEWAY_URL": "The authority that `vesper devices` asks.",
    "GATEWAY_KEY": "The key of its clients.",
    "GATEWAY_SECRET": "What the authority and its nodes sign tokens with.",
    "VLLM_ENDPOINTS": "vLLM servers that online RL samples from, with commas between them.",
    "VLLM_WEIGHTS_DIR": "The folder by which they take new weights.",
    "LINES": "Whether progress is printed as lines where there is no terminal for bars.",
}
"""Variables without their prefix that are read where they are needed, below this room."""


class Environment(BaseSettings):
    """Variables of the environment, without their prefix."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="ignore")

    deployment: Path | None = setting(None, "The deployment's settings; not set: the file that Vesper ships.")
    embedded_size: str | None = setting(None, "How much embedded data: `embedded.size` of the deployment.")
    trainer: Annotated[dict[str, Any], NoDecode] = setting({}, "JSON of the trainer's settings, over the deployment's.")
    run_settings: Annotated[dict[str, Any], NoDecode] = setting(
        {}, "JSON of the deployment's settings, over it and all else: what a run of the graph gives its own processes."
    )
    judge: str = setting("rules", "The judge of the graph: rules, nano, openai, or a path to one of your own.")
    judge_base_url: str = setting("", "The endpoint of a model that judges.")
    judge_model: str = setting("", "Its name there.")
    nightly_cron: str = setting("0 2 * * *", "When sources are refreshed.")
    upstream_cron: str = setting("0 * * * *", "When the hub is asked for new revisions.")
    alert_webhook: str = setting("", "`alerts.webhook` of the deployment, where the URL is a secret.", repr=False)
    alert_smtp_password: str = setting("", "The password of `alerts.email.user`.", repr=False)

    @field_validator("trainer", "run_settings", mode="before")
    @classmethod
    def _json(cls, text: object) -> Any:
        if not isinstance(text, str):
            return text
        try:
            found = json.loads(text)
        except ValueError:
            raise ValueError(f"expected JSON, found {text[:60]!r}") from None
        if not isinstance(found, dict):
            raise ValueError(f"expected a JSON object, found {text[:60]!r}")
        return found

    @classmethod
    def read(cls) -> "Environment":
        """The present environment. Raises `SettingsError` that names the variable."""
        try:
            return cls()
        except ValidationError as error:
            # By the variable's name, which is what the person can change.
            found = {(f"{PREFIX}{path[0].upper()}", *path[1:]): said for path, said in problems(cls, error).items()}
            raise SettingsError("", found) from None

    def over_deployment(self) -> dict[str, object]:
        """What of the deployment's settings the environment says."""
        size = {"embedded": {"size": self.embedded_size}} if self.embedded_size else {}
        return {**size, **({"trainer": self.trainer} if self.trainer else {})}
