"""Request bodies, read whole before anything runs: chunked ones have no length to believe."""

from __future__ import annotations

import tempfile
from typing import IO

from orchestrator.web.lifespan import Receive

IN_MEMORY_BYTES = 1024 * 1024
MAX_BYTES = 128 * 1024 * 1024


class BodyTooLarge(Exception):
    """The client sent more than the server keeps."""


async def read(receive: Receive, limit: int = MAX_BYTES) -> bytes | None:
    """The whole body; None when the client left before its end."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


async def spool(receive: Receive, limit: int = MAX_BYTES) -> tuple[IO[bytes], int] | None:
    """The whole body as a file (on disk when large) and its size; None when the client left."""
    spooled = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115
    size = 0
    try:
        while True:
            message = await receive()
            if message["type"] != "http.request":
                spooled.close()
                return None
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise BodyTooLarge
            spooled.write(chunk)
            if not message.get("more_body", False):
                spooled.seek(0)
                return spooled, size
    except BaseException:
        spooled.close()
        raise
