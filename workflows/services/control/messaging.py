"""Messages to a run: each waits durably until a PULL_WORKFLOW_MESSAGES task of the run takes it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from orchestrator.conf import conf
from orchestrator.errors import LimitExceeded
from orchestrator.services.secrets import Masker
from workflows import payloads
from workflows.managers.execution import LockedExecution
from workflows.managers.message import TakenMessage
from workflows.models import Message
from workflows.services.control.acting import note, perform, require
from workflows.transition_rows import messages_output
from workflows.transitions import hand_out_messages


def push_message(namespace: str, workflow_id: UUID, payload: dict[str, Any], *, actor: str) -> UUID:
    """Send a message to a running run; returns the message's id.

    The run's gate is held: a task that waits takes it in this transaction, and one that is made later finds it.
    """

    def body(run: LockedExecution) -> UUID:
        require(run, "push_message")
        waiting, most = Message.sql.count_waiting(run.id), conf().MESSAGES_MAX
        if waiting >= most:
            raise LimitExceeded(f"{waiting} messages wait in workflow {run.id} already; at most {most} may.")
        given = Masker(namespace).value(payload)
        payloads.require("task output", messages_output(run.id, [TakenMessage(run.id, given, run.now)]), "body")
        message_id = Message.sql.append(run.id, given)
        note(run.id, "message.received", actor, message_id=message_id)
        hand_out_messages([run.id])
        return message_id

    return perform("push_message", namespace, workflow_id, actor, body)
