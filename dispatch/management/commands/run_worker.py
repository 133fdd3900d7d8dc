from __future__ import annotations

from argparse import ArgumentParser
from importlib import import_module
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from dispatch.worker import REGISTRY, Worker, call_registered, lease_registered
from orchestrator.conf import conf
from orchestrator.db.hints import QUEUE
from orchestrator.runtime.loop import Loop, run_loops
from orchestrator.runtime.wakeup import Wakeup


class Command(BaseCommand):
    help = "Run the @task functions of the given modules: threads and async, batches, heartbeats; SIGTERM drains."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("modules", nargs="+", help="modules that register @task functions, e.g. shop.tasks")
        parser.add_argument("--threads", type=int, default=8, help="tasks at the same time")
        parser.add_argument("--batch", type=int, default=None, help="most tasks leased at once (default: --threads)")
        parser.add_argument("--queues", nargs="+", default=None, help="only these of the registered ones (domain:name)")
        parser.add_argument("--namespace", default=None)
        parser.add_argument("--worker-id", default=None)
        parser.add_argument("--idle-seconds", type=float, default=0.5)

    def handle(self, *args: Any, **options: Any) -> None:
        for module in options["modules"]:
            try:
                import_module(module)
            except ModuleNotFoundError as error:
                raise CommandError(f"cannot import {module!r}: {error}") from error
        if not REGISTRY:
            raise CommandError('no function is registered: decorate one with @task("name") from dispatch.worker')
        queues = options["queues"]
        unknown = sorted(set(queues or ()) - set(REGISTRY))
        if unknown:
            raise CommandError(f"no function is registered for {', '.join(unknown)}; there are {', '.join(REGISTRY)}")
        namespace = options["namespace"] or conf().DEFAULT_NAMESPACE
        wakeup = Wakeup(QUEUE)
        worker = Worker(
            lambda room, worker_id: lease_registered(namespace, room, worker_id, worker.running(), queues),
            call_registered,
            threads=options["threads"],
            batch=options["batch"],
            worker_id=options["worker_id"],
            on_ended=wakeup.ring,
        )
        run_loops([Loop("worker", worker.step, wakeup, idle_seconds=options["idle_seconds"])])
        worker.drain()
