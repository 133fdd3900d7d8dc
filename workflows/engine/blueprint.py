"""A definition compiled once: nodes by reference, the blocks they stand in, and their parsed expressions.

Anything that was ever stored compiles; what may be registered is decided by `validation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workflows.engine.expressions import Constant, ExpressionError, Template, compile_template
from workflows.engine.retries import Policy, policy

OPERATORS = frozenset(
    {"SWITCH", "DECISION", "FORK_JOIN", "JOIN", "DO_WHILE", "SUB_WORKFLOW", "START_WORKFLOW", "SET_VARIABLE", "TERMINATE",
     "WAIT", "HUMAN", "NOOP"}
)  # fmt: skip
"""Types that the engine settles itself; no queue, no worker."""
SYSTEM_TASKS = frozenset({"HTTP", "INLINE", "LAMBDA", "JSON_JQ_TRANSFORM"})
"""Types that our own workers run, queued under their type."""


@dataclass(slots=True, eq=False)
class Block:
    """A sequence of nodes: the root, a fork's branch, a switch's case, or a loop's body."""

    kind: str
    owner: Node | None
    key: str
    nodes: list[Node] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Node:
    """A task of the definition. `loops` are the enclosing DO_WHILE refs, outermost first; `members` are
    the nodes whose innermost loop this is."""

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
    joined_by: list[Node] = field(default_factory=list)
    members: list[Node] = field(default_factory=list)
    under: dict[str, str] = field(default_factory=dict)
    optional: bool = False
    permissive: bool = False

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
    """A compiled definition."""

    definition: dict[str, Any]
    task_definitions: dict[str, dict[str, Any]]
    root: Block
    nodes: dict[str, Node]
    outputs: Template
    permissive: tuple[Node, ...]
    null_text: str

    @property
    def name(self) -> str:
        return str(self.definition.get("name", ""))


_EXTRAS = ("items", "subWorkflowParam", "sink")


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
    )
    _fill(blueprint, root, definition.get("tasks") or [], (), {})
    for node in blueprint.nodes.values():
        if node.loops:
            blueprint.nodes[node.loops[-1]].members.append(node)
        if node.type == "JOIN":
            for ref in node.spec.get("joinOn") or []:
                if ref in blueprint.nodes:
                    blueprint.nodes[ref].joined_by.append(node)
    blueprint.permissive = tuple(node for node in blueprint.nodes.values() if node.permissive and not node.optional)
    return blueprint


def node_of(blueprint: Blueprint, spec: dict[str, Any], like: Node | None = None) -> Node:
    """A node for a task that stands in no block of the definition, such as one a fork made at run time."""
    block = like.block if like else blueprint.root
    return _node(blueprint, block, spec, 0, like.loops if like else (), {})


def _fill(blueprint: Blueprint, block: Block, tasks: list[Any], loops: tuple[str, ...], under: dict[str, str]) -> None:
    for index, spec in enumerate(tasks):
        node = _node(blueprint, block, spec, index, loops, under)
        block.nodes.append(node)
        blueprint.nodes[node.ref] = node
        for key, kind, children in _children(node):
            inner = Block(kind, node, key)
            node.blocks[key] = inner
            deeper = (*loops, node.ref) if kind == "loop" else loops
            _fill(blueprint, inner, children, deeper, {**under, node.ref: key} if kind == "branch" else under)
        previous = block.nodes[index - 1] if index else None
        if node.type == "JOIN" and previous is not None and previous.type == "FORK_JOIN":
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
    worker = type_ not in OPERATORS and type_ not in SYSTEM_TASKS
    task_definition = spec.get("taskDefinition") or blueprint.task_definitions.get(name)
    inputs, broken = _template(spec.get("inputParameters") or {})
    extras = {}
    for extra in _EXTRAS:
        if spec.get(extra) is not None:
            extras[extra], problem = _template(spec[extra])
            broken = broken or problem
    return Node(
        ref=str(spec.get("taskReferenceName") or name),
        name=name,
        type=type_,
        spec=spec,
        block=block,
        index=index,
        loops=loops,
        policy=policy(task_definition, spec.get("retryCount"), worker=worker),
        inputs=inputs,
        extras=extras,
        broken=broken,
        under=under,
        optional=bool(spec.get("optional")),
        permissive=bool(spec.get("permissive")),
    )


def _template(value: Any) -> tuple[Template, str | None]:
    try:
        return compile_template(value), None
    except ExpressionError as error:
        return Constant(None), str(error)
