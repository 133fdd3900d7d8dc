from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.urls import reverse

from orchestrator import demo
from orchestrator.conf import conf


class Command(BaseCommand):
    help = "Start a run of the demo workflow and print the URL of its page."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--shipping", default="express", help="express takes one branch, anything else the other")
        parser.add_argument("--order", default=demo.ORDER["orderId"], help="the order's id, also the correlation id")

    def handle(self, *args: Any, **options: Any) -> None:
        demo.register()
        run = demo.start({**demo.ORDER, "orderId": options["order"], "shipping": options["shipping"]})
        page = reverse("ops:execution", args=[conf().DEFAULT_NAMESPACE, run])
        host, port = os.environ.get("HOST", "127.0.0.1"), os.environ.get("PORT", "8080")
        self.stdout.write(f"http://{host}:{port}{page}")
