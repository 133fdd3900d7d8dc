"""The console script `ostinato`: Django's command line with our settings (`ostinato up`)."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run a management command; `DJANGO_SETTINGS_MODULE` may name a host project's settings."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orchestrator.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(["ostinato", *sys.argv[1:]])


if __name__ == "__main__":
    main()
