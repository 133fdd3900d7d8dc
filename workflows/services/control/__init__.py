"""Operator actions: each is one transaction in the written lock order, audited, and refused with the reason."""

from __future__ import annotations

from workflows.services.control.acting import available_actions
from workflows.services.control.bulk import BulkItem, bulk
from workflows.services.control.jumping import jump
from workflows.services.control.lifecycle import nudge, pause, reset_callbacks, resume, terminate, update_variables
from workflows.services.control.messaging import push_message
from workflows.services.control.planning import Preview
from workflows.services.control.removing import remove, terminate_remove
from workflows.services.control.rerunning import (
    preview_rerun,
    preview_restart,
    preview_retry,
    rerun,
    restart,
    retry,
)
from workflows.services.control.tasks import cancel_task, complete_task, skip_task

__all__ = [
    "BulkItem",
    "Preview",
    "available_actions",
    "bulk",
    "cancel_task",
    "complete_task",
    "jump",
    "nudge",
    "pause",
    "preview_rerun",
    "preview_restart",
    "preview_retry",
    "push_message",
    "remove",
    "rerun",
    "reset_callbacks",
    "restart",
    "resume",
    "retry",
    "skip_task",
    "terminate",
    "terminate_remove",
    "update_variables",
]
