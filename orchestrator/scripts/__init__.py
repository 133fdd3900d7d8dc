"""Programs that users write: JavaScript expressions, and jq in a process of its own."""

from __future__ import annotations

from orchestrator.scripts.javascript import ScriptError, check_script, evaluate_script

__all__ = ["ScriptError", "check_script", "evaluate_script"]
