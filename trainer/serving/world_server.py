"""Worlds behind the protocol of OpenEnv (meta-pytorch, 0.10), for trainers that aren't ours.

    WS   /ws                     {"type": "reset" | "step" | "state" | "close", "data": …} in, one answer to each out;
                                 a connection is a session with a world of its own
    POST /reset /step, GET /state   the same for clients without a connection: one session that they share
    GET  /health /metadata /schema
    GET  /list_environments, /vesper/splits; POST /vesper/tasks /vesper/num_tasks /vesper/task /vesper/task_range

An action is {"action": text}: a reply as our agents give it, or an action alone, `Click(box=(500,250))`. What decides a
task stays here. Not there: MCP, and OpenEnv's web page.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from generators.tasks.task_spec import TaskSpec
from pipelines.http_guard import LOOPBACK, App, Guard
from trainer.serving.requests import RequestRefused, check_key, read_object
from trainer.serving.world_sessions import SessionError, SessionRules, WorldAnswer, WorldSession

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.websockets import WebSocket

NAME = "vesper"
DESCRIPTION = (
    "GUI tasks on phones, web pages and desktops: a screenshot and an instruction, one action a step in the frame "
    "0..1000, reward 1 when the task's own rule holds at the end."
)
MOST_MESSAGE = 1 << 20
"""Bytes of a message: a reply has a few thousand."""
_TEXT, _WHOLE = {"type": "string"}, {"type": "integer"}
_SCREEN = {
    "task_id": _TEXT,
    "instruction": _TEXT,
    "platform": _TEXT,
    "screenshot": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"},
    "size": {"type": "array", "items": _WHOLE},
    "prompt": _TEXT,
    "history": {"type": "array", "items": {"type": "object"}},
    "error": _TEXT,
    "ended": _TEXT,
    "why": _TEXT,
}
SCHEMA = {
    "action": {"type": "object", "properties": {"action": _TEXT}, "required": ["action"]},
    "observation": {"type": "object", "properties": _SCREEN, "required": list(_SCREEN)[:5]},
    "state": {"type": "object", "properties": {"episode_id": _TEXT, "task_id": _TEXT, "step_count": _WHOLE}},
}


class BadMessage(RequestRefused):
    """A message that isn't of the protocol; `code` is OpenEnv's word for why."""

    def __init__(self, message: str, code: str = "VALIDATION_ERROR") -> None:
        super().__init__(400, message, code=code)


class WorldServer:
    """The application over tasks by split. `sessions`: connections at a time; `key` is asked for where it isn't empty;
    `hosts` are the Host headers that are answered (empty: any). Raises `ValueError` where there is no task."""

    def __init__(
        self,
        tasks: Mapping[str, Sequence[TaskSpec]],
        rules: SessionRules,
        *,
        sessions: int = 4,
        key: str = "",
        hosts: tuple[str, ...] = LOOPBACK,
    ) -> None:
        if sessions < 1 or not any(tasks.values()):
            raise ValueError(
                f"worlds: expected 1 or more tasks and sessions, found {sum(map(len, tasks.values()))} and {sessions}"
            )
        self._tasks = {split: list(some) for split, some in tasks.items()}
        # by id over all splits: a client may name a task without saying which split it is of
        self._by_id = {task.task_id: task for some in self._tasks.values() for task in some}
        self._rules, self._most, self._key, self._hosts = rules, sessions, key, hosts
        self._open = 0
        self._shared: WorldSession | None = None
        self._turn = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None

    def app(self) -> App:
        """The ASGI application, behind the guard: no page reaches it, whatever name it gives this machine."""
        from starlette.applications import Starlette
        from starlette.routing import Route, WebSocketRoute

        gets: dict[str, Callable[[Mapping[str, Any]], object]] = {
            "/health": lambda _: {"status": "healthy"},
            "/metadata": lambda _: {"name": NAME, "description": DESCRIPTION},
            "/schema": lambda _: SCHEMA,
            "/list_environments": lambda _: [NAME],
            f"/{NAME}/splits": lambda _: [{"name": split, "type": split} for split in self._tasks],
        }
        posts: dict[str, Callable[[Mapping[str, Any]], object]] = {
            f"/{NAME}/tasks": lambda body: {"tasks": self._listed(body), "env_name": NAME},
            f"/{NAME}/num_tasks": lambda body: {"num_tasks": len(self._split(body))},
            f"/{NAME}/task": lambda body: {"task": _public(*self._at(body))},
            f"/{NAME}/task_range": lambda body: {
                "tasks": self._listed(body)[slice(_whole(body, "start"), _whole(body, "stop"))]
            },
        }
        routes: list[Any] = [Route(path, self._answering(made)) for path, made in gets.items()]
        routes += [Route(path, self._answering(made), methods=["POST"]) for path, made in posts.items()]
        routes += [Route(f"/{kind}", self._without_connection(kind), methods=["POST"]) for kind in ("reset", "step")]
        routes.append(Route("/state", self._without_connection("state")))
        routes.append(WebSocketRoute("/ws", self._session))
        return Guard(Starlette(routes=routes, lifespan=self._life), hosts=self._hosts, untyped=True)

    # -- tasks -----------------------------------------------------------------------------------------------------

    def _split(self, asked: Mapping[str, Any]) -> list[TaskSpec]:
        split = asked.get("split")
        if split is None and len(self._tasks) == 1:
            split = next(iter(self._tasks))
        if not isinstance(split, str) or split not in self._tasks:
            raise BadMessage(f"split: expected one of {', '.join(self._tasks)}, found {split!r:.60}")
        return self._tasks[split]

    def _at(self, asked: Mapping[str, Any]) -> tuple[int, TaskSpec]:
        tasks, index = self._split(asked), _whole(asked, "index")
        if index is None or not 0 <= index < len(tasks):
            raise BadMessage(f"index: expected 0 to {len(tasks) - 1}, found {asked.get('index')!r:.40}")
        return index, tasks[index]

    def _listed(self, asked: Mapping[str, Any]) -> list[dict[str, object]]:
        return [_public(index, task) for index, task in enumerate(self._split(asked))]

    def _asked_task(self, asked: Mapping[str, Any]) -> TaskSpec:
        """By `task_id`, by `index` of a `split`, or drawn by `seed`."""
        if (wanted := asked.get("task_id")) is not None:
            if wanted not in self._by_id:
                raise BadMessage(f"task_id: unknown {wanted!r:.60}")
            return self._by_id[wanted]
        if asked.get("index") is not None:
            return self._at(asked)[1]
        tasks = self._split(asked) if asked.get("split") is not None else list(self._by_id.values())
        seed = _whole(asked, "seed")
        # unseeded: the client left the choice to this server
        return (random.Random(seed) if seed is not None else random).choice(tasks)

    # -- over the wire ---------------------------------------------------------------------------------------------

    def _answering(self, made: Callable[[Mapping[str, Any]], object]) -> Any:
        from starlette.responses import JSONResponse

        async def answer(request: Request) -> Response:
            try:
                check_key(request.headers, self._key)
                asked = await read_object(request, MOST_MESSAGE) if request.method == "POST" else {}
                return JSONResponse(made(asked))
            except RequestRefused as refused:
                return JSONResponse({"detail": str(refused)}, refused.status)

        return answer

    async def _session(self, socket: WebSocket) -> None:
        import anyio
        from starlette.websockets import WebSocketDisconnect

        await socket.accept()
        try:
            check_key(socket.headers, self._key)
        except RequestRefused as refused:
            await socket.send_json(_error(str(refused), "SESSION_ERROR"))
            # policy violation, by the codes of WebSocket
            return await socket.close(1008)
        if self._open >= self._most:
            await socket.send_json(_error(f"all {self._most} sessions are taken", "CAPACITY_REACHED"))
            # try again later
            return await socket.close(1013)
        self._open += 1
        session = WorldSession(self._rules)
        try:
            while (answer := await self._read(session, await socket.receive_text())) is not None:
                await socket.send_json(answer)
            await socket.close()
        except WebSocketDisconnect:
            pass
        finally:
            # shielded, so that a client that breaks off doesn't leave a browser open behind it
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(session.close)
            self._open -= 1

    async def _read(self, session: WorldSession, text: str) -> dict[str, Any] | None:
        """The answer to a message; None to a `close`."""
        try:
            kind, data = read_message(text)
        except BadMessage as bad:
            return _error(str(bad), bad.code)
        return None if kind == "close" else await self._reply(session, kind, data)

    async def _reply(self, session: WorldSession, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        from anyio import to_thread

        try:
            if kind == "state":
                return {"type": "state", "data": dict(vars(session.state))}
            if kind == "step":
                reply = data.get("action")
                if not isinstance(reply, str):
                    raise BadMessage(f"action: expected text, found {type(reply).__name__}")
                return _observed(await to_thread.run_sync(session.step, reply))
            task = self._asked_task(data)
            return _observed(await to_thread.run_sync(session.reset, task, str(data.get("episode_id") or "")))
        except BadMessage as bad:
            return _error(str(bad), bad.code)
        except SessionError as failed:
            return _error(str(failed), "EXECUTION_ERROR")

    # -- without a connection --------------------------------------------------------------------------------------

    def _without_connection(self, kind: str) -> Any:
        """What answers a request of OpenEnv's HTTP form: `action` of a step is an object, as in its messages."""
        from starlette.responses import JSONResponse

        async def answer(request: Request) -> Response:
            try:
                check_key(request.headers, self._key)
                asked = await read_object(request, MOST_MESSAGE) if request.method == "POST" else {}
                given = asked.get("action") if kind == "step" else asked
                if not isinstance(given, dict):
                    raise BadMessage('action: expected an object, {"action": text}')
                # one after the other: they share a world, and its session takes one call at a time
                async with self._turn:
                    found = await self._reply(self._shared_session(), kind, given)
                    self._count_idle()
            except RequestRefused as refused:
                return JSONResponse({"detail": str(refused)}, refused.status)
            if found["type"] == "error":
                status = 409 if found["data"]["code"] == "EXECUTION_ERROR" else 400
                return JSONResponse({"detail": found["data"]["message"]}, status)
            return JSONResponse(found["data"])

        return answer

    def _shared_session(self) -> WorldSession:
        """Opened by the first who asks. Raises `RequestRefused` (503) where all sessions are taken."""
        if self._shared is None:
            if self._open >= self._most:
                raise RequestRefused(503, f"all {self._most} sessions are taken", code="capacity_reached")
            self._open += 1
            self._shared = WorldSession(self._rules)
        return self._shared

    def _count_idle(self) -> None:
        """Give the shared session back once nobody has asked for as long as an episode may wait."""
        if self._idle is not None:
            self._idle.cancel()
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(self._rules.idle_s, lambda: loop.create_task(self._give_back()))

    async def _give_back(self) -> None:
        from anyio import to_thread

        async with self._turn:
            session, self._shared = self._shared, None
            if session is not None:
                await to_thread.run_sync(session.close)
                self._open -= 1

    @asynccontextmanager
    async def _life(self, _: object) -> AsyncIterator[None]:
        """Of the application: its end closes the shared world."""
        yield
        if self._idle is not None:
            self._idle.cancel()
        await self._give_back()


def read_message(text: str) -> tuple[str, dict[str, Any]]:
    """(type, data) of a client's message. Raises `BadMessage`."""
    if len(text) > MOST_MESSAGE:
        raise BadMessage(f"message: expected at most {MOST_MESSAGE} characters, found {len(text)}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BadMessage("message: expected JSON", "INVALID_JSON") from None
    if not isinstance(found, dict) or not isinstance(data := found.get("data", {}), dict):
        raise BadMessage("message: expected an object with `type`, and `data` as an object")
    kind = found.get("type")
    if kind not in ("reset", "step", "state", "close"):
        raise BadMessage(f"type: expected reset, step, state or close, found {kind!r:.40}", "UNKNOWN_TYPE")
    return kind, data


def _observed(step: WorldAnswer) -> dict[str, Any]:
    return {"type": "observation", "data": dict(vars(step))}


def _error(message: str, code: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message[:500], "code": code}}


def _public(index: int, task: TaskSpec) -> dict[str, object]:
    """What a client may know of a task: neither the state it begins from nor the rule that decides it."""
    return {
        "index": index,
        "task_id": task.task_id,
        "instruction": task.instruction,
        "platform": task.platform,
        "world": task.world,
        "stratum": task.stratum,
        "expected_steps": task.expected_steps,
    }


def _whole(asked: Mapping[str, Any], name: str) -> int | None:
    value = asked.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise BadMessage(f"{name}: expected a whole number, found {value!r:.40}")
    return value
