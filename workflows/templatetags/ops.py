"""How the operator's pages show statuses, times, durations and events."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()
_NONE = "\N{EN DASH}"

_FAMILIES = {
    "COMPLETED": "done",
    "SKIPPED": "done",
    "RUNNING": "active",
    "IN_PROGRESS": "active",
    "SCHEDULED": "waiting",
    "PAUSED": "attention",
    "COMPLETED_WITH_ERRORS": "attention",
    "FAILED": "failed",
    "FAILED_WITH_TERMINAL_ERROR": "failed",
    "TIMED_OUT": "failed",
    "TERMINATED": "stopped",
    "CANCELED": "stopped",
}
# Told apart by shape as well as by colour; the word stands beside it.
_SHAPES = {
    "done": '<circle cx="8" cy="8" r="7" fill="none"/><path d="M4.8 8.3 7 10.5l4.3-4.8" fill="none"/>',
    "active": '<circle cx="8" cy="8" r="6.6" fill="none"/><path d="M8 3.6a4.4 4.4 0 0 1 0 8.8z" stroke="none"/>',
    "waiting": '<circle cx="8" cy="8" r="6.6" fill="none"/><path d="M8 4.4V8l2.6 1.6" fill="none"/>',
    "attention": '<path d="M8 1.8 14.8 14H1.2z" fill="none"/><path d="M8 6.4v3.4M8 11.4v.9" fill="none"/>',
    "failed": (
        '<path d="M5.2 1.2h5.6l4 4v5.6l-4 4H5.2l-4-4V5.2z" fill="none"/><path d="m5.4 5.4 5.2 5.2m0-5.2-5.2 5.2"/>'
    ),
    "stopped": '<rect x="2.2" y="2.2" width="11.6" height="11.6" rx="1.5" fill="none"/><path d="M5.5 8h5"/>',
    "unknown": '<circle cx="8" cy="8" r="6.6" fill="none"/>',
}


@register.filter
def family(status: str) -> str:
    """The colour family of a status; one that nobody knows is neutral."""
    return _FAMILIES.get(status, "unknown")


@register.simple_tag
def badge(status: str) -> SafeString:
    """A status as shape, word and colour."""
    kind = family(status)
    shape = mark_safe(_SHAPES[kind])  # noqa: S308
    word = status.replace("_", " ").capitalize()
    return format_html(
        '<span class="badge {}" data-status="{}"><svg viewBox="0 0 16 16" aria-hidden="true">{}</svg>{}</span>',
        kind, status, shape, word,
    )  # fmt: skip


@register.simple_tag
def stamp(moment: datetime | None, *, full: bool = False) -> SafeString | str:
    """A moment in UTC; the date and the epoch are one hover away."""
    if moment is None:
        return _NONE
    utc = moment.astimezone(UTC)
    shown = f"{utc:%Y-%m-%d %H:%M:%S}" if full else f"{utc:%H:%M:%S}.{utc.microsecond // 1000:03d}"
    title = f"{utc:%Y-%m-%d %H:%M:%S}.{utc.microsecond // 1000:03d} UTC · {int(utc.timestamp() * 1000)}"
    return format_html('<time datetime="{}" title="{}">{}</time>', utc.isoformat(), title, shown)


@register.simple_tag
def duration(start: datetime | None, end: datetime | None, now: datetime | None = None) -> str:
    """Time between two moments (to `now` while it lasts), never negative."""
    until = end or now
    if start is None or until is None:
        return _NONE
    seconds = max((until - start).total_seconds(), 0.0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = timedelta(seconds=int(seconds))
    hours, rest = divmod(whole.seconds, 3600)
    minutes, left = divmod(rest, 60)
    parts = [(whole.days, "d"), (hours, "h"), (minutes, "min"), (left, "s")]
    return " ".join(f"{n} {unit}" for n, unit in [p for p in parts if p[0]][:2])


@register.simple_tag
def bar(run: Any, task: Any, now: datetime) -> SafeString:
    """A task on the run's time axis: waiting is thin, working is solid."""
    start, end = run.created_at, run.ended_at or now
    span = max((end - start).total_seconds(), 0.001)

    def at(moment: datetime) -> float:
        return round(min(max((moment - start).total_seconds() / span, 0), 1) * 1000, 1)

    scheduled = at(task.scheduled_at)
    ended = at(task.ended_at or end)
    started = at(task.started_at) if task.started_at else ended
    worked = max(ended - started, 4) if task.started_at else 0
    return format_html(
        '<svg class="bar {}" viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="wait" x="{}" y="5" width="{}" height="2"/>'
        '<rect x="{}" y="1" width="{}" height="10" rx="2"/></svg>',
        family(task.status), scheduled, max(started - scheduled, 0), started, worked,
    )  # fmt: skip


@register.filter
def summary(data: Any) -> str:
    """An event's data on one line; the live rows are written the same way by history.js."""
    if not isinstance(data, dict):
        return ""
    shown = [(key, value) for key, value in data.items() if value is False or value not in (None, "", [], {})]
    return " · ".join(f"{key}: {_text(key, value)}" for key, value in shown if (key, value) != ("attempt", 0))


def _text(key: str, value: Any) -> str:
    # People count attempts from one.
    if key == "attempt" and isinstance(value, int):
        return str(value + 1)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@register.filter
def kind(event_type: str) -> str:
    """The colour family of an event."""
    last = event_type.rpartition(".")[2]
    return {
        "completed": "done", "skipped": "done", "scheduled": "waiting", "started": "active", "paused": "attention",
        "alert": "attention", "late_result_refused": "attention", "failed": "failed", "timed_out": "failed",
        "terminated": "stopped", "canceled": "stopped", "compensating": "attention", "swept": "attention",
        "stuck": "attention",
    }.get(last, "unknown")  # fmt: skip


@register.filter
def clipped(text: str | None, limit: int) -> bool:
    """Whether a preview holds less than the whole."""
    return text is not None and len(text) > limit
