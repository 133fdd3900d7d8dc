"""The library's settings: `settings.OSTINATO` read through one frozen dataclass."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from environ import Env


@dataclass(frozen=True, slots=True)
class Conf:
    """Every tunable with its unit; an unknown key in `settings.OSTINATO` is a check error."""

    DATABASE: str = "default"
    """Alias of the database that holds the engine's tables."""
    DIRECT_URL: str = ""
    """URL for LISTEN when the main connection goes through a pooler; empty uses the main one."""
    DEMO_OPEN: bool = False
    """Requests from loopback act in the demo namespace without a key."""
    DEFAULT_NAMESPACE: str = "default"
    TOKEN_SECONDS: int = 3600
    """Life of a token that an API key was exchanged for."""
    KEY_CACHE_SECONDS: float = 5.0
    """How long a process may not know that a key was revoked."""
    LOCKOUT_FAILURES: int = 10
    """Wrong secrets of one API key, or passwords of one user, after which it is locked out; 0 never does."""
    LOCKOUT_ADDRESS_FAILURES: int = 50
    """The same of one address (of version 6: a /64 network), whatever it tries."""
    LOCKOUT_WINDOW_SECONDS: float = 300.0
    """Failures add up for this long."""
    LOCKOUT_SECONDS: float = 300.0
    """How long a lock-out lasts."""
    PROXIES: str = ""
    """Networks of the proxies whose X-Forwarded-For is believed, as 10.0.0.0/8, ::1; empty believes nobody's."""
    KEY_REQUESTS_PER_MINUTE: int = 0
    """Requests of one API key, or to one webhook, that each web process answers in a minute, at most; 0 counts none."""
    SECRET_KEYS: str = ""
    """Base64 of 32 bytes for each key that seals secrets, the newest first; empty derives one from SECRET_KEY."""
    REQUIRE_OWNER_EMAIL: bool = False
    HTTP_ALLOW_PRIVATE: bool = False
    """HTTP tasks may reach loopback and private addresses (off: refused)."""
    DECIDE_BATCH: int = 50
    """Runs evaluated in one transaction."""
    DECIDE_BATCH_SECONDS: float = 0.02
    """Target time from claim to commit; larger batches are cut."""
    DECIDE_MAX_SKIP_SECONDS: float = 0.05
    """A request older than this is claimed by a blocking claim that holds nothing else."""
    DECIDE_MAX_ATTEMPTS: int = 10
    """A run whose pass failed this often is quarantined."""
    LEASE_SECONDS: int = 60
    MAX_REDELIVERIES: int = 3
    """Times an expired lease hands the same attempt out again before it ends TIMED_OUT."""
    LIMITS_CACHE_SECONDS: float = 1.0
    """How long a process may not know of a limit that another one registered."""
    SEMAPHORE_TURN_SECONDS: float = 10.0
    """A queue keeps its turn at a semaphore this long after it was polled in vain."""
    OUTBOX_BATCH: int = 50
    OUTBOX_LEASE_SECONDS: int = 60
    OUTBOX_MAX_ATTEMPTS: int = 10
    SCRIPT_SECONDS: float = 1.0
    SCRIPT_BYTES: int = 32 * 1024 * 1024
    TASK_PAYLOAD_MAX_BYTES: int = 10 * 1024 * 1024
    """A task whose input or output is larger fails for good, and neither is stored."""
    WORKFLOW_PAYLOAD_MAX_BYTES: int = 10 * 1024 * 1024
    """A start whose input is larger is refused; a run whose output is larger fails without it."""
    VARIABLES_MAX_BYTES: int = 256 * 1024
    """What a run's variables may take: every pass reads them."""
    OFFLOAD_BYTES: int = 256 * 1024
    """An input or output with more bytes of JSON is kept in a store instead of its row; 0 keeps all in the rows."""
    OFFLOAD_STORE: str = "fs"
    """Where such payloads go: fs (a folder) or s3; without the settings of that store they stay in the rows."""
    OFFLOAD_DIR: str = ""
    """The folder of the store fs: the same for every process of every host. `up` has one in its data folder."""
    OFFLOAD_S3_BUCKET: str = ""
    OFFLOAD_S3_PREFIX: str = ""
    """What the names of all objects in the bucket begin with."""
    OFFLOAD_S3_ENDPOINT: str = ""
    """URL of a server that speaks S3; empty is Amazon's. Region and credentials are boto3's own settings."""
    MESSAGES_MAX: int = 1000
    """Messages that may wait in a run to be pulled; one more is refused."""
    SEARCH_SECONDS: float = 10.0
    """A search that looks longer is stopped and refused."""
    STUCK_SECONDS: float = 300.0
    """Idle time after which the sweeper looks at a run."""
    RETENTION_COMPLETED_DAYS: int = 365
    """How long a run that completed is kept after its end; 0 keeps it for ever."""
    RETENTION_FAILED_DAYS: int = 365
    """The same for one that failed, timed out or was terminated. A run that has not ended is always kept."""
    RETENTION_KEY_DAYS: int = 365
    """How long an idempotency key is kept at least; it also outlives its run. 0 keeps it for ever."""
    RETENTION_DEAD_LETTER_DAYS: int = 30
    """How long an effect that could not be delivered is kept at least, to be replayed; those that a run waits for are
    kept as long as it does. 0 keeps them for ever."""
    RETENTION_AUDIT_DAYS: int = 2555
    RETENTION_POLL_DAYS: int = 30
    """How long a worker that no longer polls is remembered."""
    MAX_DEPTH: int = 32
    """Sub-workflows deeper than this are refused."""
    START_LOCK_SECONDS: float = 5.0
    """How long a start joined to a caller's transaction waits for another start of the same key."""


@lru_cache(maxsize=1)
def conf() -> Conf:
    """The settings in force."""
    return Conf(**getattr(settings, "OSTINATO", {}))


def from_environment(env: Env, prefix: str = "OSTINATO_") -> dict[str, Any]:
    """The keys that environment variables set, each read as the type of its default; raises ImproperlyConfigured."""
    found = {}
    for key in fields(Conf):
        if prefix + key.name in env.ENVIRON:
            try:
                found[key.name] = env.get_value(prefix + key.name, cast=type(key.default))
            except ValueError as error:
                raise ImproperlyConfigured(f"{prefix}{key.name}: expected {key.type}, got {error}") from None
    return found


def unknown_keys(given: dict[str, Any]) -> list[str]:
    """Keys of `settings.OSTINATO` that mean nothing."""
    known = {f.name for f in fields(Conf)}
    return sorted(set(given) - known)


def _reset(*, setting: str, **_: Any) -> None:
    if setting == "OSTINATO":
        conf.cache_clear()


setting_changed.connect(_reset)
