"""One port: websockets to Channels, hot paths to the native routes, everything else to Django.

Import this through a server (`manage.py run_web`, or any ASGI server that speaks lifespan).
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orchestrator.settings")

from django.core.wsgi import get_wsgi_application

django_handler = get_wsgi_application()

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator

from dispatch.native.handlers import Workers
from orchestrator.web.lifespan import Message, Receive, Send, lifespan
from orchestrator.web.native import Request, Route, router
from orchestrator.web.wsgi_bridge import DjangoInThreads

_THREADS = int(os.environ.get("OSTINATO_WEB_THREADS", "8"))


class Application:
    """Chooses by protocol and path; the order is websocket, native, Django."""

    def __init__(self) -> None:
        self._django = DjangoInThreads(django_handler, threads=_THREADS)
        self._websockets = _websockets()
        lifespan.on_shutdown(self._django.close)
        Workers().add_to(router)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """The ASGI callable."""
        kind = scope["type"]
        if kind == "http":
            found = router.match(scope["method"], scope["path"])
            if found is None or not _accepted(found[0], scope, receive):
                await self._django(scope, receive, send)
            else:
                await router.answer(*found, scope, receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        elif kind == "lifespan":
            await lifespan(scope, receive, send)

    async def _websocket(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            await self._websockets(scope, receive, send)
        except ValueError as error:
            if not str(error).startswith("No route found"):
                raise
            await send({"type": "websocket.close", "code": 4404})


def _accepted(route: Route, scope: Message, receive: Receive) -> bool:
    return route.accepts is None or route.accepts(Request(scope, receive))


def _websockets() -> Any:
    """The consumers' routes behind session login and an Origin check."""
    patterns: list[Any] = []
    if find_spec("workflows.routing") is not None:
        from workflows.routing import websocket_urlpatterns

        patterns = list(websocket_urlpatterns)
    return AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(patterns)))


application = Application()
