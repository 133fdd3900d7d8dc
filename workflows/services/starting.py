"""Starts of runs: idempotent, and joined to the caller's transaction where there is one. [INV-6b]"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any
from uuid import UUID

from django.db import OperationalError
from psycopg.errors import LockNotAvailable

from orchestrator.conf import conf
from orchestrator.db import json
from orchestrator.db.hints import ADMISSION, DECIDE, hint
from orchestrator.db.ids import new_id
from orchestrator.db.sql import batch
from orchestrator.db.transactions import in_transaction, joined, savepoint
from orchestrator.errors import Conflict, IdempotencyMismatch, Invalid, StartInProgress
from workflows import payloads
from workflows.engine.attributes import extract
from workflows.engine.state import WorkflowStatus
from workflows.managers.execution import NewExecution
from workflows.managers.history import NewEvent
from workflows.models import Admission, DecideQueue, Execution, HistoryEvent, IdempotencyKey
from workflows.services import admission
from workflows.services.deadlines import arm_deadline
from workflows.services.definitions import check
from workflows.services.revisions import blueprint_for, resolve_revision

STRATEGIES = ("FAIL", "RETURN_EXISTING", "FAIL_ON_RUNNING")
USER = "user"
FAILURE = "failure"
MOST_VERSION = 2**31 - 1
_MOST_OFF_SECONDS = 3600
"""Between the time in an id that a caller gives to a run, and now."""


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What to start. `scope` separates the engine's idempotency keys from the users'; `workflow_id` is a UUIDv7 of now;
    `masked` are names that the run masks because what started it does."""

    name: str
    version: int | None = None
    input: dict[str, Any] = field(default_factory=dict)
    namespace: str = "default"
    correlation_id: str | None = None
    priority: int = 0
    idempotency_key: str | None = None
    idempotency_strategy: str = "FAIL"
    task_to_domain: dict[str, str] = field(default_factory=dict)
    definition: dict[str, Any] | None = None
    created_by: str | None = None
    workflow_id: UUID | None = None
    parent_workflow_id: UUID | None = None
    parent_task_id: UUID | None = None
    depth: int = 0
    scope: str = USER
    masked: frozenset[str] = frozenset()


def start_workflow(name: str, input: dict[str, Any] | None = None, **options: Any) -> UUID:
    """Start a workflow; inside `transaction.atomic()` the run commits or rolls back with the caller's rows.

    `options` are the fields of StartRequest. Returns the run's id. Raises NotFound, Invalid, Conflict,
    IdempotencyMismatch, or StartInProgress (try again).
    """
    options.setdefault("namespace", conf().DEFAULT_NAMESPACE)
    return start(StartRequest(name, input={} if input is None else input, **options))


def start(request: StartRequest) -> UUID:
    """Start a run, or return the one its idempotency key already belongs to."""
    _check(request)
    workflow_id = request.workflow_id or new_id()
    in_callers_transaction = in_transaction()
    with joined():
        if request.idempotency_key:
            owner = _claim_key(request, workflow_id, wait_bounded=in_callers_transaction)
            if owner is not None:
                return owner
        with batch():
            _insert(request, workflow_id, owned=not in_callers_transaction)
    return workflow_id


def _check(request: StartRequest) -> None:
    problems: list[tuple[str, str]] = []
    if not request.name or not isinstance(request.name, str):
        problems.append(("name", "Workflow name cannot be null or empty"))
    if not isinstance(request.input, dict):
        problems.append(("input", f"expected an object, got {type(request.input).__name__}"))
    if request.version is not None and (type(request.version) is not int or not 1 <= request.version <= MOST_VERSION):
        problems.append(("version", f"expected a whole number from 1 to {MOST_VERSION}, got {request.version!r}"))
    if type(request.priority) is not int or not 0 <= request.priority <= 99:
        problems.append(("priority", f"expected a whole number from 0 to 99, got {request.priority!r}"))
    if request.idempotency_strategy not in STRATEGIES:
        problems.append(("idempotencyStrategy", f"expected one of {', '.join(STRATEGIES)}"))
    problems += [
        (f"taskToDomain.{name}", f"expected a text, got {type(domain).__name__}")
        for name, domain in request.task_to_domain.items()
        if not isinstance(domain, str)
    ]
    if request.workflow_id is not None and request.scope == USER:
        problems += [("workflowId", said) for said in _misplaced(request.workflow_id)]
    if request.definition is not None:
        problems += [(f"workflowDef.{path}", message) for path, message in check(request.namespace, request.definition)]
    if problems:
        raise Invalid(problems=problems)
    if request.depth > conf().MAX_DEPTH:
        raise Invalid(f"Sub-workflows are nested deeper than {conf().MAX_DEPTH}: does {request.name} start itself?")


def _misplaced(given: object) -> Iterator[str]:
    """Partitions are ranges of ids, and ids are times: one of another time lies among runs of that time, or among none.

    The engine's own ids were right when they were made, and may be used much later.
    """
    now = Execution.sql.clock()
    expected = f"expected a UUIDv7 made within an hour of {now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if not isinstance(given, UUID):
        yield f"{expected}, got a {type(given).__name__}"
    elif given.version != 7:
        yield f"{expected}, got {given}, which is not of version 7"
    elif (off := abs((given.int >> 80) / 1000 - now.timestamp())) > _MOST_OFF_SECONDS:  # it may be no datetime at all
        yield f"{expected}, got {given}, which is {off / 3600:.1f} hours off"


def _claim_key(request: StartRequest, workflow_id: UUID, *, wait_bounded: bool) -> UUID | None:
    """None when the key is ours now, else the run that owns it. A loser whose winner rolled back becomes the winner."""
    key, scope, namespace = str(request.idempotency_key), request.scope, request.namespace
    digest = _digest(request)
    for _ in range(5):
        with _bounded_wait(key) if wait_bounded else savepoint():
            if IdempotencyKey.sql.claim(namespace, scope, key, workflow_id, digest):
                return None
        owner = IdempotencyKey.sql.find(namespace, scope, key)
        if owner is None:
            continue
        if owner.request_hash != digest and scope == USER:
            raise IdempotencyMismatch(key=key, workflow_id=owner.workflow_id)
        if request.idempotency_strategy == "RETURN_EXISTING":
            return owner.workflow_id
        running = owner.status is not None and not WorkflowStatus(owner.status).terminal
        if request.idempotency_strategy == "FAIL" or running:
            raise Conflict(
                f"A workflow with idempotency key {key} exists: {owner.workflow_id}", workflow_id=owner.workflow_id
            )
        if IdempotencyKey.sql.take_over(namespace, scope, key, workflow_id, digest, owner.workflow_id):
            return None
    raise StartInProgress(key=key)


@contextmanager
def _bounded_wait(key: str) -> Iterator[None]:
    """In a caller's transaction, do not wait for ever for another caller's; ours stays usable."""
    try:
        with savepoint():
            IdempotencyKey.sql.set_lock_timeout(int(conf().START_LOCK_SECONDS * 1000))
            yield
            IdempotencyKey.sql.set_lock_timeout(0)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise StartInProgress(key=key) from error
        raise


def _digest(request: StartRequest) -> str:
    parts = [request.name, request.version, request.input, request.correlation_id, request.definition]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _insert(request: StartRequest, workflow_id: UUID, *, owned: bool) -> None:
    """The limits, the gate, the run, its first event and its deadline, in lock order."""
    revision_id, definition = resolve_revision(
        request.namespace, request.name, request.version, request.definition, request.masked
    )
    given = {**(definition.get("inputTemplate") or {}), **request.input}
    if request.scope != FAILURE:  # its input is that of the run that failed, which was let in, and why it failed
        payloads.require("workflow input", given, "input")
    payloads.require("workflow variables", definition.get("variables"), "workflowDef.variables")
    if definition.get("inputSchema"):
        _check_input(revision_id, given)
    place = admission.apply(
        admission.Applicant(
            workflow_id,
            request.namespace,
            definition,
            _known(request, definition, workflow_id),
            root=request.parent_workflow_id is None,
            owned=owned,
            refusable=request.scope == USER,
        )
    )
    DecideQueue.sql.enqueue([workflow_id])
    run = NewExecution(
        id=workflow_id,
        namespace=request.namespace,
        name=definition["name"],
        version=definition.get("version") or 1,
        revision_id=revision_id,
        input=given,
        variables=definition.get("variables") or {},
        priority=request.priority,
        correlation_id=request.correlation_id,
        idempotency_key=request.idempotency_key if request.scope == USER else None,
        task_to_domain=request.task_to_domain,
        parent_workflow_id=request.parent_workflow_id,
        parent_task_id=request.parent_task_id,
        depth=request.depth,
        created_by=request.created_by,
        admitted=place is None or place.admitted,
        attributes=extract(definition, given),
    )
    event = {"name": run.name, "version": run.version, "correlationId": run.correlation_id}
    Execution.sql.insert([run])
    if place is not None:
        Admission.sql.insert(place)
    if run.admitted:
        arm_deadline(request.namespace, workflow_id, definition)
    HistoryEvent.sql.append([NewEvent(workflow_id, "workflow.started", event)])
    hint(DECIDE if run.admitted else ADMISSION)


def _check_input(revision_id: UUID, given: dict[str, Any]) -> None:
    """Refuse an input that violates its schema; it is what the run would see, templates filled in."""
    schema = blueprint_for([revision_id])[revision_id].takes
    problems = schema.violations(given) if schema else []
    if problems:
        raise Invalid(problems=[(f"input.{path}" if path else "input", said) for path, said in problems])


def _known(request: StartRequest, definition: dict[str, Any], workflow_id: UUID) -> dict[str, Any]:
    """What a rate limit's key may name."""
    return {
        "input": {**(definition.get("inputTemplate") or {}), **request.input},
        "variables": definition.get("variables") or {},
        "workflowId": str(workflow_id),
        "correlationId": request.correlation_id,
        "priority": request.priority,
        "name": definition["name"],
        "workflowType": definition["name"],
        "version": definition.get("version") or 1,
    }
