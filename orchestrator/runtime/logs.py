"""Structured logs: one line an event, readable on a terminal or JSON (`OSTINATO_LOG=json`)."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import structlog

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure_logs(level: str | None = None) -> None:
    """Send structlog and the standard library's loggers to standard error in one format."""
    as_json = os.environ.get("OSTINATO_LOG", "") == "json"
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.processors.StackInfoRenderer(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    render: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [_short_time, _console()]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level or os.environ.get("OSTINATO_LOG_LEVEL", "INFO"))
    for noisy in ("django.request", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.ERROR)


def _console() -> structlog.dev.ConsoleRenderer:
    """Plain tracebacks: with every local variable they would show inputs and secrets, and take seconds to format."""
    return structlog.dev.ConsoleRenderer(
        colors=_colours(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
    )


def _short_time(logger: Any, name: str, event: Any) -> Any:
    event["timestamp"] = event["timestamp"][11:23]
    return event


def _colours() -> bool:
    return sys.stderr.isatty() or os.environ.get("FORCE_COLOR", "") not in ("", "0")
