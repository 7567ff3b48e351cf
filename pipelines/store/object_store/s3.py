"""Objects on S3 or what speaks like it: `create` and `replace` are conditional PUTs (`If-None-Match: *`, `If-Match`),
a read of what is known already is a conditional GET (`If-None-Match`), answered by 304 without a body.

Credentials, region and endpoint come from where botocore reads them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, profiles,
the machine's role). A store that leaves the conditions out of account is recognised when a home is bound to it (see
`binding`): then the two fall back to looking before and after.
"""

from typing import Any

from pipelines.store.object_store.objects import AT_ONCE, MISSING, Found, Objects

_GONE = frozenset({"NoSuchKey", "404", "NotFound"})


class S3Objects(Objects):
    """See `Objects`."""

    exclusive = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        # s3fs would try again within our own tries.
        self.fs.retries = 1

    def options(self) -> dict[str, object]:
        """A request is tried again by `Objects`, within its time; neither botocore nor s3fs needs to."""
        config = {
            "connect_timeout": 10,
            "read_timeout": self.timeout_s,
            # One connection for each request under way.
            "retries": {"max_attempts": 0},
            "max_pool_connections": AT_ONCE,
        }
        return {**super().options(), "config_kwargs": config}

    def read(self, name: str, known: Found | None = None) -> Found | None:
        """As `Objects`."""
        found = self._ask(f"reading {name}", self._get, name, known, missing=True)
        return None if found is MISSING else found

    async def _get(self, name: str, known: Found | None) -> Found:
        condition = {"IfNoneMatch": known.tag} if known is not None and known.tag else {}
        try:
            answer = await self.fs._call_s3("get_object", **self._place(name), **condition)
        except OSError as error:
            # 304: unchanged, and no body came.
            if known is not None and _status(error) == 304:
                return known
            raise
        async with answer["Body"] as body:
            data = await body.read()
        # A connection that was cut mid-way still gives what had come.
        if len(data) != answer["ContentLength"]:
            raise OSError(f"expected {answer['ContentLength']} bytes, found {len(data)}")
        return Found(data, str(answer.get("ETag", "")))

    def size(self, name: str) -> int | None:
        """As `Objects`, in one request."""
        found = self._ask(f"looking for {name}", self._head, name, missing=True)
        return None if found is MISSING else int(found["ContentLength"])

    async def _head(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.fs._call_s3("head_object", **self._place(name))
        return found

    def create(self, name: str, data: bytes) -> bool:
        """As `Objects`."""
        found = self._put_if(name, data, IfNoneMatch="*") if self.exclusive else None
        return super().create(name, data) if found is None else found

    def replace(self, name: str, data: bytes, known: Found | None) -> bool:
        """As `Objects`."""
        if known is None:
            return self.create(name, data)
        # Without a tag there is no condition to state.
        found = self._put_if(name, data, IfMatch=known.tag) if self.exclusive and known.tag else None
        return super().replace(name, data, known) if found is None else found

    def _put_if(self, name: str, data: bytes, **condition: str) -> bool | None:
        """A conditional PUT; None if the store knows none. One whose answer was lost and that was sent again finds its
        own bytes there."""
        done = self._ask(f"writing {name}", self._try_put, name, data, condition)
        if done is None:
            self.exclusive = False
            return None
        # The first PUT may have arrived and only its answer be lost: then the bytes there are ours.
        return True if done else self._is_ours(name, data)

    async def _try_put(self, name: str, data: bytes, condition: dict[str, str]) -> bool | None:
        try:
            await self.fs._call_s3("put_object", **self._place(name), Body=data, **condition)
        except OSError as error:  # 409: another such PUT is under way; 404: what was to be replaced has gone
            # 501: the store doesn't know the condition, so it is looked before and after from now on.
            if _status(error) == 501:
                return None
            if _status(error) in (404, 409, 412) and not self._is_no_store(error):
                return False
            raise
        return True

    def _place(self, name: str) -> dict[str, str]:
        bucket, key, _ = self.fs.split_path(self._at(name))
        return {"Bucket": bucket, "Key": key}

    def _is_no_store(self, error: BaseException) -> bool:
        code = _code(error)
        # A 404 whose code isn't that of a missing object means that the bucket is missing.
        return bool(code) and code not in _GONE and _status(error) == 404


def _answer(error: BaseException | None) -> dict[str, Any]:
    """What the server said, of an error that s3fs translated."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, dict):
            return response
        error = error.__cause__ or error.__context__
    return {}


def _status(error: BaseException) -> int:
    return int(_answer(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _code(error: BaseException) -> str:
    return str(_answer(error).get("Error", {}).get("Code", ""))
