"""What each type of node does when it is reached, and how containers learn that their parts have ended."""

from __future__ import annotations

from collections.abc import Callable

from workflows.engine.operators import (
    dynamic_forks,
    events,
    exclusive_joins,
    forks,
    loops,
    rules,
    settling,
    switches,
    waiting,
    work,
)
from workflows.engine.operators.forks import branch_ended
from workflows.engine.operators.forks import close_if_joined as _close_if_joined
from workflows.engine.operators.joins import joined_ref_ended
from workflows.engine.operators.loops import turn_ended
from workflows.engine.operators.start import Start
from workflows.engine.operators.switches import resume_container

__all__ = ["_close_if_joined", "branch_ended", "joined_ref_ended", "resume_container", "start_node", "turn_ended"]


def start_node(start: Start) -> None:
    """Make the row of a node and do what its type does; an unknown type is work for workers."""
    _STARTS.get(start.node.type, work.queued)(start)


_STARTS: dict[str, Callable[[Start], None]] = {
    "NOOP": settling.noop,
    "SET_VARIABLE": settling.set_variable,
    "TERMINATE": settling.terminate,
    "START_WORKFLOW": waiting.start_workflow,
    "EVENT": events.event,
    "SWITCH": switches.switch,
    "DECISION": switches.switch,
    "WAIT": waiting.wait,
    "HUMAN": waiting.human,
    "YIELD": waiting.until_ended,
    "PULL_WORKFLOW_MESSAGES": waiting.pull_messages,
    "WAIT_FOR_WEBHOOK": waiting.webhook,
    "BUSINESS_RULE": rules.business_rule,
    "SUB_WORKFLOW": waiting.sub_workflow,
    "FORK_JOIN": forks.fork,
    "FORK_JOIN_DYNAMIC": dynamic_forks.dynamic_fork,
    "JOIN": forks.lone_join,
    "EXCLUSIVE_JOIN": exclusive_joins.exclusive_join,
    "DO_WHILE": loops.do_while,
}
