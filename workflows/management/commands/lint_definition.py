from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from workflows.engine.linting import Finding, lint


class Command(BaseCommand):
    help = (
        "Check workflow definitions in JSON files. Exit code 1 when one would be refused (with --strict: any finding)."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", help="a definition, or a list of them")
        parser.add_argument("--json", action="store_true", help="print the findings as JSON")
        parser.add_argument("--strict", action="store_true", help="warnings count as errors")

    def handle(self, *args: Any, **options: Any) -> None:
        report = {file: _findings(Path(file)) for file in options["files"]}
        if options["json"]:
            shown = {file: [asdict(finding) for finding in found] for file, found in report.items()}
            self.stdout.write(json.dumps(shown, indent=2))
        else:
            for file, found in report.items():
                for finding in found:
                    self.stdout.write(f"{file}: {finding.path}: {finding.level}: {finding.message} [{finding.rule}]")
            self.stdout.write(f"{sum(map(len, report.values()))} findings in {len(report)} files")
        if any(options["strict"] or finding.level == "error" for found in report.values() for finding in found):
            raise SystemExit(1)


def _findings(file: Path) -> list[Finding]:
    try:
        given = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        return [Finding("error", "unreadable", "", f"expected a file of JSON: {error}")]
    if not isinstance(given, list):
        return lint(given)
    return [
        Finding(finding.level, finding.rule, f"[{index}].{finding.path}".removesuffix("."), finding.message)
        for index, definition in enumerate(given)
        for finding in lint(definition)
    ]
