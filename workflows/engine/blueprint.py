"""A definition compiled once: nodes by reference, the blocks they stand in, and their parsed expressions.

Anything that was ever stored compiles; what may be registered is decided by `validation`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from workflows.engine.expressions import Constant, ExpressionError, Mapping, Template, compile_template
from workflows.engine.masked_fields import masked_fields
from workflows.engine.retries import Policy, policy
from workflows.engine.schemas import FIELDS, Schema, schema_of
from workflows.engine.secrets import secret_names

OPERATORS = frozenset(
    {"SWITCH", "DECISION", "FORK_JOIN", "FORK_JOIN_DYNAMIC", "JOIN", "EXCLUSIVE_JOIN", "DO_WHILE", "SUB_WORKFLOW",
     "START_WORKFLOW", "EVENT", "SET_VARIABLE", "TERMINATE", "WAIT", "HUMAN", "YIELD", "BUSINESS_RULE", "NOOP",
     "PULL_WORKFLOW_MESSAGES", "WAIT_FOR_WEBHOOK"}
)  # fmt: skip
"""Types that the engine settles itself; no queue, no worker."""
SYSTEM_TASKS = frozenset({"HTTP", "HTTP_POLL", "INLINE", "LAMBDA", "JSON_JQ_TRANSFORM", "GET_WORKFLOW", "UPDATE_TASK"})
"""Types that our own workers run, queued under their type."""
CONTAINERS = frozenset({"SWITCH", "DECISION", "FORK_JOIN", "FORK_JOIN_DYNAMIC", "JOIN", "EXCLUSIVE_JOIN", "DO_WHILE"})
"""Types that are never tried again: what they hold was, one by one."""


@dataclass(slots=True, eq=False)
class Block:
    """A sequence of nodes: the root, a fork's branch, a switch's case, a loop's body, or what undoes the task `key`."""

    kind: str
    owner: Node | None
    key: str
    nodes: list[Node] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Node:
    """A task of the definition, or one that a fork made (`dynamic`).

    `loops` are the enclosing DO_WHILE refs, outermost first; `members` the nodes whose innermost loop this is;
    `under` maps each enclosing fork to the branch this stands in; `joined_by` are the joins, each with the ref it
    knows, that must hear of this node's end one by one. `template` are its task definition's defaults and `given`
    what its fork gave it. `undo` is the node of its `compensateWith`. `takes` and `gives` are the schemas of its input and
    output.
    """

    ref: str
    name: str
    type: str
    spec: dict[str, Any]
    block: Block
    index: int
    loops: tuple[str, ...]
    policy: Policy
    inputs: Template
    extras: dict[str, Template]
    broken: str | None = None
    blocks: dict[str, Block] = field(default_factory=dict)
    join: Node | None = None
    fork: Node | None = None
    joined_by: list[tuple[Node, str]] = field(default_factory=list)
    members: list[Node] = field(default_factory=list)
    under: dict[str, str] = field(default_factory=dict)
    waits_for_all: bool = True
    dynamic: bool = False
    given: dict[str, Any] | None = None
    template: dict[str, Any] | None = None
    prefixed: bool = False
    optional: bool = False
    permissive: bool = False
    undo: Node | None = None
    secrets: frozenset[str] = frozenset()
    takes: Schema | None = None
    gives: Schema | None = None

    @property
    def next(self) -> Node | None:
        """The node after this one in its block."""
        following = self.index + 1
        return self.block.nodes[following] if following < len(self.block.nodes) else None

    @property
    def worker(self) -> bool:
        """Whether workers of a team, not ours, run it."""
        return self.type not in OPERATORS and self.type not in SYSTEM_TASKS


@dataclass(slots=True, eq=False)
class Blueprint:
    """A compiled definition; `partial` when some join does not wait for every branch of its fork.

    `undo` are the nodes that undo others, by their own reference; `masked` the names of fields that readers are not shown.
    `reads_environment` may be true of one that does not; it saves the others a read.
    """

    definition: dict[str, Any]
    task_definitions: dict[str, dict[str, Any]]
    root: Block
    nodes: dict[str, Node]
    outputs: Template
    permissive: tuple[Node, ...]
    null_text: str
    partial: bool = False
    reads_environment: bool = False
    forks_at_run_time: bool = False
    undo: dict[str, Node] = field(default_factory=dict)
    takes: Schema | None = None
    gives: Schema | None = None
    masked: frozenset[str] = frozenset()

    def find(self, ref: str) -> Node | None:
        """The node of a reference, of an undoing task too; tasks made at run time have none."""
        return self.nodes.get(ref) or self.undo.get(ref)

    @property
    def undoable(self) -> tuple[str, ...] | None:
        """The tasks that may have to be undone; None when there can be none, not even one made at run time."""
        if not self.undo and not self.forks_at_run_time:
            return None
        return tuple(node.block.key for node in self.undo.values())

    @property
    def name(self) -> str:
        return str(self.definition.get("name", ""))


_EXTRAS = ("items", "subWorkflowParam", "sink", "onStateChange")


def compile(definition: dict[str, Any], task_definitions: dict[str, dict[str, Any]]) -> Blueprint:
    """Compile a definition with the task definitions it was frozen with."""
    root = Block("root", None, "")
    blueprint = Blueprint(
        definition=definition,
        task_definitions=task_definitions,
        root=root,
        nodes={},
        outputs=_template(definition.get("outputParameters") or {})[0],
        permissive=(),
        null_text="" if (definition.get("schemaVersion") or 2) >= 3 else "null",
        reads_environment="env" in json.dumps(definition, default=str),
        takes=schema_of(definition, "inputSchema", enforced=True),
        gives=schema_of(definition, "outputSchema", enforced=True),
        masked=masked_fields(definition),
    )
    _fill(blueprint, root, definition.get("tasks") or [], (), {})
    forks = 0
    for node in blueprint.nodes.values():
        if node.loops:
            blueprint.nodes[node.loops[-1]].members.append(node)
        if node.type in ("JOIN", "EXCLUSIVE_JOIN"):
            _link_join(blueprint, node)
        elif node.type == "FORK_JOIN_DYNAMIC":
            node.prefixed = forks > 0
            forks += 1
    blueprint.forks_at_run_time = forks > 0
    blueprint.partial = any(not node.waits_for_all for node in blueprint.nodes.values())
    blueprint.permissive = tuple(node for node in blueprint.nodes.values() if node.permissive and not node.optional)
    return blueprint


def dynamic_node(blueprint: Blueprint, spec: dict[str, Any], fork: Node) -> Node:
    """A node for a task that a fork made at run time: a branch of its own."""
    block = Block("branch", fork, str(spec.get("taskReferenceName")))
    node = _node(blueprint, block, spec, 0, fork.loops, {**fork.under, fork.ref: block.key})
    node.dynamic = True
    block.nodes.append(node)
    if isinstance(spec.get("compensateWith"), dict):
        node.undo = undo_node(blueprint, spec["compensateWith"], node.ref, node)
    return node


def undo_node(blueprint: Blueprint, spec: dict[str, Any], ref: str, original: Node | None = None) -> Node:
    """The node that undoes a task: a block of its own, which sees the loops that the original stands in."""
    block = Block("undo", None, ref)
    node = _node(blueprint, block, spec, 0, original.loops if original else (), {})
    node.dynamic = original is None or original.dynamic
    block.nodes.append(node)
    return node


def _link_join(blueprint: Blueprint, join: Node) -> None:
    """Let a join hear of the refs it names; when these include the end of every branch, counting branches will do."""
    named = {ref for ref in join.spec.get("joinOn") or [] if isinstance(ref, str)}
    fork = join.fork
    if fork is not None:
        tips = {block.nodes[-1].ref for block in fork.blocks.values() if block.nodes}
        join.waits_for_all = fork.type == "FORK_JOIN_DYNAMIC" or not named or tips <= named
        if join.waits_for_all:
            return
    for ref in sorted(named & blueprint.nodes.keys()):
        target = blueprint.nodes[ref]
        deeper = target.loops[len(join.loops) :]  # a task in a loop is final when the loop has ended
        (blueprint.nodes[deeper[0]] if deeper else target).joined_by.append((join, ref))


def _fill(blueprint: Blueprint, block: Block, tasks: list[Any], loops: tuple[str, ...], under: dict[str, str]) -> None:
    for index, spec in enumerate(tasks):
        node = _node(blueprint, block, spec, index, loops, under)
        block.nodes.append(node)
        blueprint.nodes[node.ref] = node
        if isinstance(spec.get("compensateWith"), dict):
            node.undo = undo_node(blueprint, spec["compensateWith"], node.ref, node)
            blueprint.undo[node.undo.ref] = node.undo
        for key, kind, children in _children(node):
            inner = Block(kind, node, key)
            node.blocks[key] = inner
            deeper = (*loops, node.ref) if kind == "loop" else loops
            _fill(blueprint, inner, children, deeper, {**under, node.ref: key} if kind == "branch" else under)
        previous = block.nodes[index - 1] if index else None
        if node.type == "JOIN" and previous is not None and previous.type in ("FORK_JOIN", "FORK_JOIN_DYNAMIC"):
            previous.join, node.fork = node, previous


def _children(node: Node) -> list[tuple[str, str, list[Any]]]:
    spec = node.spec
    if node.type in ("SWITCH", "DECISION"):
        cases = [(f"case:{key}", "case", block or []) for key, block in (spec.get("decisionCases") or {}).items()]
        return [*cases, ("default", "case", spec.get("defaultCase") or [])]
    if node.type == "FORK_JOIN":
        return [(str(i), "branch", branch or []) for i, branch in enumerate(spec.get("forkTasks") or [])]
    if node.type == "DO_WHILE":
        return [("loop", "loop", spec.get("loopOver") or [])]
    return []


def _node(
    blueprint: Blueprint, block: Block, spec: dict[str, Any], index: int, loops: tuple[str, ...], under: dict[str, str]
) -> Node:
    name = str(spec.get("name") or spec.get("taskReferenceName") or "")
    type_ = str(spec.get("type") or "SIMPLE")
    retries = 0 if type_ in CONTAINERS else spec.get("retryCount")
    worker = type_ not in OPERATORS and type_ not in SYSTEM_TASKS
    task_definition = spec.get("taskDefinition") or blueprint.task_definitions.get(name)
    inputs, broken = _template(spec.get("inputParameters") or {})
    extras = {}
    for extra in _EXTRAS:
        if spec.get(extra) is not None:
            extras[extra], problem = _template(spec[extra], opaque="workflowDefinition")
            broken = broken or problem
    takes = gives = None
    try:
        takes, gives = (schema_of(task_definition or {}, field, enforced=False) for field in FIELDS)
    except ValueError as error:
        broken = broken or f"taskDefinition: {error}"
    return Node(
        ref=str(spec.get("taskReferenceName") or name),
        name=name,
        type=type_,
        spec=spec,
        block=block,
        index=index,
        loops=loops,
        policy=policy(task_definition, retries, worker=worker),
        inputs=inputs,
        extras=extras,
        broken=broken,
        under=under,
        template=(task_definition or {}).get("inputTemplate") or None,
        optional=bool(spec.get("optional")),
        permissive=bool(spec.get("permissive")),
        secrets=secret_names(inputs),
        takes=takes,
        gives=gives,
    )


def _template(value: Any, opaque: str | None = None) -> tuple[Template, str | None]:
    """A parsed value, or what is wrong with it. An object under the key `opaque` is a definition, not values."""
    try:
        if opaque and isinstance(value, dict) and isinstance(value.get(opaque), dict):
            items = ((key, Constant(item) if key == opaque else compile_template(item)) for key, item in value.items())
            return Mapping(tuple(items)), None
        return compile_template(value), None
    except ExpressionError as error:
        return Constant(None), str(error)
