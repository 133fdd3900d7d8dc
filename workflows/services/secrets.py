"""Where definitions refer to a secret."""

from __future__ import annotations

from dataclasses import dataclass

from workflows.engine.blueprint import compile
from workflows.models import WorkflowDefinition


@dataclass(frozen=True, slots=True)
class Use:
    """A task of a registered definition that refers to a secret."""

    name: str
    version: int
    ref: str


def usage(namespace: str, secret: str) -> list[Use]:
    """Every task that refers to a secret, in every registered version."""
    found = []
    for stored in WorkflowDefinition.sql.find_mentioning(namespace, f"workflow.secrets.{secret}"):
        nodes = compile(stored.definition, {}).nodes
        found += [Use(stored.name, stored.version, ref) for ref, node in nodes.items() if secret in node.secrets]
    return found
