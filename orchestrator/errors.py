"""Domain errors: a closed list of codes, fields and a message. No HTTP, no Django."""

from __future__ import annotations

from typing import Any


class OstinatoError(Exception):
    """Base of every refusal: `code` is stable, `message` says what to do, `fields` name the objects."""

    code = "ERROR"
    message = "The request was refused."
    retryable = False

    def __init__(self, message: str | None = None, **fields: Any) -> None:
        self.fields = fields
        self.message = message or self.message.format_map(_Fields(fields))
        super().__init__(self.message)


class _Fields(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return f"<{key}>"


class NotFound(OstinatoError):
    code = "NOT_FOUND"
    message = "{what} was not found."


class Invalid(OstinatoError):
    """Bad input; `problems` lists (path, message)."""

    code = "INVALID"
    message = "Validation failed, check below errors for detail."

    def __init__(self, message: str | None = None, problems: list[tuple[str, str]] | None = None, **fields: Any):
        self.problems = problems or []
        super().__init__(message, **fields)


class TooLarge(Invalid):
    """A payload over its limit."""

    code = "TOO_LARGE"


class Conflict(OstinatoError):
    code = "CONFLICT"


class IllegalState(OstinatoError):
    """The object's present state forbids the action."""

    code = "ILLEGAL_STATE"


class LeaseLost(OstinatoError):
    code = "LEASE_LOST"
    message = "Task {task_id} is no longer leased to this worker, or has ended; its result was not applied."


class IdempotencyMismatch(OstinatoError):
    code = "IDEMPOTENCY_MISMATCH"
    message = "The idempotency key {key} was used before with another request."


class StartInProgress(OstinatoError):
    code = "START_IN_PROGRESS"
    message = "Another start with idempotency key {key} has not committed yet; try again."
    retryable = True


class Forbidden(OstinatoError):
    code = "FORBIDDEN"
    message = "This credential may not do that."


class Unauthenticated(OstinatoError):
    code = "UNAUTHENTICATED"
    message = "Credentials are required."


class InvalidToken(Unauthenticated):
    """Clients answer it, as they do EXPIRED_TOKEN, with one refresh and one more try."""

    code = "INVALID_TOKEN"
    message = "The API key or token is not known here: it was mistyped, rotated or revoked."


class ExpiredToken(Unauthenticated):
    code = "EXPIRED_TOKEN"
    message = "The token has expired; exchange the API key at POST /api/token for a new one."


class LimitExceeded(OstinatoError):
    """Too much; another try makes sense after `retry_after` seconds."""

    code = "LIMIT_EXCEEDED"
    retryable = True

    def __init__(self, message: str | None = None, *, retry_after: float = 1, **fields: Any):
        self.retry_after = retry_after
        super().__init__(message, **fields)


class LockedOut(LimitExceeded):
    message = "There were too many wrong credentials; wait before the next try."


class PayloadLost(OstinatoError):
    """A payload kept outside the database is not there any more, or is not what was written."""

    code = "PAYLOAD_LOST"


class StoreUnavailable(OstinatoError):
    """The store of large payloads cannot be reached; nothing was changed."""

    code = "STORE_UNAVAILABLE"
    retryable = True


class ProgrammingError(RuntimeError):
    """Raised for misuse by code, never caught: fix the caller."""
