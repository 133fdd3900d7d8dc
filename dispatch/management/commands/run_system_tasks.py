from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from dispatch.services.dispatching import lease_system_tasks
from dispatch.services.polling import note_polls
from dispatch.system_tasks import RUNNERS, run_system_task
from dispatch.worker import Worker
from orchestrator.db.hints import QUEUE
from orchestrator.runtime.loop import Loop, run_loops
from orchestrator.runtime.wakeup import Wakeup
from workflows.managers.task import StartedTask


class Command(BaseCommand):
    help = "Run system tasks (HTTP, INLINE, JSON_JQ_TRANSFORM, ...), leased like any worker's. SIGTERM drains."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--threads", type=int, default=8, help="tasks at the same time")
        parser.add_argument("--idle-seconds", type=float, default=0.5)

    def handle(self, *args: Any, **options: Any) -> None:
        queues = sorted(RUNNERS)
        wakeup = Wakeup(QUEUE)

        def lease(room: int, worker_id: str) -> list[StartedTask]:
            # Under the empty namespace: these workers serve every one.
            note_polls("", [(queue, None) for queue in queues], worker_id)
            return lease_system_tasks(queues, batch=room, worker_id=worker_id)

        worker = Worker(
            lease,
            run_system_task,
            threads=options["threads"],
            on_ended=wakeup.ring,
        )
        run_loops([Loop("system-tasks", worker.step, wakeup, idle_seconds=options["idle_seconds"])])
        worker.drain()
