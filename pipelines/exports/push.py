"""An export put into a repository of a hub, by `huggingface_hub` as it is: $HF_ENDPOINT says where, $HF_TOKEN who."""

from pathlib import Path
from typing import Literal

from pipelines.exports.folder import RECEIPTS


def push(folder: Path, name: str, kind: Literal["dataset", "model"]) -> str:
    """Upload all of an export but its receipts → the address of the commit. A new repository is private: who publishes
    what came under many licences decides that by hand. Raises `ValueError` if the hub refuses it or is not there."""
    import httpx2
    from huggingface_hub import HfApi  # it takes a second to load, which only a push needs
    from huggingface_hub.errors import HFValidationError

    api = HfApi()
    try:
        repo = api.create_repo(name, repo_type=kind, private=True, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo.repo_id,
            folder_path=folder,
            repo_type=kind,
            ignore_patterns=[f"{RECEIPTS}/*"],
            commit_message="Export of Vesper",
        )
    except (httpx2.HTTPError, httpx2.InvalidURL, HFValidationError, OSError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise ValueError(f"--push {name}: expected {api.endpoint} to take the export, found: {said}") from error
    return str(commit.commit_url)
