"""The stand-in for the hub, which takes uploads too: repositories made, large files put by their digest, commits."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import unquote, urlsplit

from hub import LFS_FROM_BYTES, Hub, _Handler, serve

_CALL = re.compile(r"/api/(?:datasets|models)/([^/]+/[^/]+)/(preupload|commit)/main$")
_LARGE = re.compile(r"/(?:datasets/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch$")


class HubTakingUploads(Hub):
    """As `Hub`; `large` holds what was put by its digest, `made` what repositories were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.large: dict[str, bytes] = {}
        self.made: list[dict[str, Any]] = []
        self.refuses = ""
        """What it answers to whoever makes a repository; "" if it lets them."""


def serve_uploads(hub: HubTakingUploads) -> AbstractContextManager[str]:
    """As `hub.serve`."""
    return serve(hub, _Uploads)


class _Uploads(_Handler):
    shared: HubTakingUploads

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path)
        posted = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path == "/api/repos/create":
            self._create(json.loads(posted))
        elif path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif (call := _CALL.match(path)) is not None and call[2] == "preupload":
            listed = json.loads(posted)["files"]
            self._json({"files": [self._mode(one["path"], one["size"]) for one in listed]})
        elif call is not None:
            self._commit(call[1], posted)
        elif _LARGE.match(path) is not None:
            asked = json.loads(posted)["objects"]
            put = [{**one, "actions": {"upload": {"href": f"{self.shared.url}/large/{one['oid']}"}}} for one in asked]
            self._json({"transfer": "basic", "objects": put})
        else:
            self.shared.requests.append(f"POST {path}")
            self._answer(body=True, posted=posted)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        oid = self.path.rpartition("/")[2]
        assert hashlib.sha256(data).hexdigest() == oid, "a large file isn't what its digest says"
        self.shared.large[oid] = data
        self._json({})

    def _create(self, asked: dict[str, Any]) -> None:
        if self.shared.refuses:
            self._error(403, self.shared.refuses)
            return
        name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
        self.shared.made.append(asked)
        self.shared.commit(name, {})
        self._json({"url": f"{self.shared.url}/datasets/{name}", "name": name, "id": name})

    def _mode(self, path: str, size: int) -> dict[str, Any]:
        return {"path": path, "uploadMode": "lfs" if size >= LFS_FROM_BYTES else "regular", "shouldIgnore": False}

    def _commit(self, repo: str, posted: bytes) -> None:
        files = dict(self.shared.repositories[repo][-1][1])
        for line in map(json.loads, posted.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.shared.large[value["oid"]]
        sha = self.shared.commit(repo, files)
        self._json({"success": True, "commitOid": sha, "commitUrl": f"{self.shared.url}/{repo}/commit/{sha}"})
