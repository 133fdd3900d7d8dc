"""Ostinato's workflows: `from workflows import start_workflow`."""

from __future__ import annotations

from typing import Any

__all__ = ["start_workflow"]


def __getattr__(name: str) -> Any:
    if name == "start_workflow":
        from workflows.services.starting import start_workflow

        return start_workflow
    raise AttributeError(f"module 'workflows' has no attribute {name!r}")
