"""Serves a run: one page, its events as they occur, and metrics. It is read-only: no request changes the join.

Away from the loopback address every path begins with a random token. On it, requests must name this machine, so that a
foreign page in the same browser cannot read figures under a name of its own.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
from collections.abc import AsyncIterator
from importlib import resources
from typing import Any

from streamjoin.errors import OptionError, StreamjoinError
from streamjoin.interrupts import Thread, await_end, start
from streamjoin.metrics import Reporting, collector
from streamjoin.monitor.address import NAMES, Address
from streamjoin.monitor.run import RUNNING, Run

LOOK = 0.2  # seconds between two polls for new samples
GRACE = 1  # seconds for open pages when the server ends
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
FILES = {
    "": ("index.html", "text/html"),
    "page.js": ("page.js", "text/javascript"),
    "page.css": ("page.css", "text/css"),
}


class Server:
    """A page for a run, from now until `close`."""

    def __init__(self, run: Run, address: Address, source: Reporting | None = None) -> None:
        self.run = run
        try:
            import plotly  # noqa: F401
            import starlette  # noqa: F401
            import uvicorn
        except ImportError as error:
            raise StreamjoinError(
                f"the live page needs {error.name}, which is not installed: pip install 'streamjoin[watch]'"
            ) from error
        self._socket = _listen(address)
        self.port = int(self._socket.getsockname()[1])
        self._token = "" if address.is_local else secrets.token_urlsafe(16)
        self.url = f"http://{address.shown}:{self.port}/{f'{self._token}/' if self._token else ''}"
        app = _application(run, self._token, source, address)
        config = uvicorn.Config(app, log_level="critical", access_log=False, timeout_graceful_shutdown=GRACE)
        self._server = uvicorn.Server(config)
        self._thread = Thread(lambda: self._server.run(sockets=[self._socket]), "streamjoin-watch")
        start([self._thread])

    def close(self) -> None:
        """Tells open pages how the run ended, and stops."""
        self.run.end()
        self._server.should_exit = True
        await_end([self._thread])
        self._socket.close()


def _listen(address: Address) -> socket.socket:
    try:
        family, kind, number, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, number)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(16)
    except OSError as error:
        raise OptionError(
            f"the live page cannot be served at {address.shown}:{address.port}: {error.strerror or error}; "
            "name another port, or leave it out for any that is free"
        ) from error
    return listening


def _application(run: Run, token: str, source: Reporting | None, address: Address) -> Any:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route

    async def answer(request: Request) -> Response:
        path = request.path_params["path"]
        if token:
            given, _, path = path.partition("/")
            if not hmac.compare_digest(given.encode(), token.encode()):
                return PlainTextResponse("This page needs the whole address that the program printed.\n", 403)
        if path in FILES:
            name, kind = FILES[path]
            return Response(_file(name), media_type=kind, headers=HEADERS)
        if path == "plotly.js":
            return Response(
                _plotly(), media_type="text/javascript", headers=HEADERS | {"Cache-Control": "max-age=3600"}
            )
        if path == "events":
            return StreamingResponse(_events(run, request), media_type="text/event-stream", headers=HEADERS)
        if path == "metrics" and source is not None:
            return Response(_metrics(source), media_type="text/plain; version=0.0.4", headers=HEADERS)
        return PlainTextResponse("There is nothing here.\n", 404)

    guards = [] if token else [Middleware(_OwnNames, names=(*NAMES, address.shown))]
    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET"])], middleware=guards)


class _OwnNames:
    """Refuses requests that do not name this machine."""

    def __init__(self, app: Any, names: tuple[str, ...]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"").decode("latin1")
            if host.rpartition(":")[0] not in self._names and host not in self._names:
                from starlette.responses import PlainTextResponse

                await PlainTextResponse("This page is served to this machine only.\n", 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _events(run: Run, request: Any) -> AsyncIterator[str]:
    """The head, the samples so far, each new sample, the current step, and how the run ended."""
    head, number, doing = None, 0, ""
    while True:
        if head != (now := run.head()):
            head = now
            yield _event("run", head)
        if doing != run.doing:
            doing = run.doing
            yield _event("note", run.activity())
        over = run.state != RUNNING  # before the samples are read: what was added earlier is among them
        samples, number = run.since(number)
        if samples:
            yield _event("samples", samples)
        if over:
            yield _event("end", run.outcome())
            return
        if await request.is_disconnected():
            return
        await asyncio.sleep(LOOK)


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data, default=str)}\n\n"


def _file(name: str) -> bytes:
    return resources.files("streamjoin.monitor").joinpath("page", name).read_bytes()


def _plotly() -> bytes:
    return resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()


def _metrics(source: Reporting) -> bytes:
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(collector(source))
    text: bytes = generate_latest(registry)
    return text
