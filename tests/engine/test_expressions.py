"""Expressions: types kept, text, nesting, escapes, and positions of what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.engine.expressions import ExpressionError, compile_template, resolve
from workflows.engine.validation import validate


class Roots:
    null_text = "null"

    def __init__(self, **roots: Any) -> None:
        self.roots = roots

    def root(self, name: str) -> Any:
        return self.roots.get(name)

    def field(self, name: str, field: str) -> Any:
        return self.roots.get(name, {}).get(field)


SCOPE = Roots(
    workflow={"input": {"k": "key", "n": 3, "none": None, "list": [1, 2, {"a": "x"}], "o": {"b": True}, "i": 1}},
    t={
        "output": {
            "key": "found",
            "a b": 1,
            "rows": [{"n": 1}, {"n": 2}],
            "deep": {"n": 3},
            "names": [{"name": "key", "v": 7}, {"name": "o"}],
        }
    },
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${workflow.input.n}", 3),
        ("${workflow.input.none}", None),
        ("${workflow.input.o}", {"b": True}),
        ("${workflow.input.list[2].a}", "x"),
        ("${workflow.input.list[-1]['a']}", "x"),
        ("${workflow.input.list[0:2]}", [1, 2]),
        ("${workflow.input.list.length()}", 3),
        ("${t.output['a b']}", 1),
        ("${t.output.rows[?(@.n > 1)].n}", [2]),
        ("${t.output.rows[?(@.n == 1 || @['n'] >= 2)].n}", [1, 2]),
        ("${t.output.rows[?(@.n != 1 && !(@.n == 3))]}", [{"n": 2}]),
        ("${t.output.rows[?(@.missing)]}", []),
        ("${t.output.rows[?(@.n == '1')]}", []),
        ("${t.output.rows[?(@.n > 0)].length()}", 2),
        ("${t.output.names[?(@.name == '${workflow.input.k}')].v}", [7]),
        ("${t.output.rows[*].n}", [1, 2]),
        ("${t.output..n}", [1, 2, 3]),
        ("${t.output['${workflow.input.k}']}", "found"),
        ("${t.output.rows['${workflow.input.i}'].n}", 2),
        ("${t.output.rows[9].n}", None),
        ("n=${workflow.input.n}, o=${workflow.input.o}, none=${workflow.input.none}", 'n=3, o={"b":true}, none=null'),
        ("$${workflow.input.n}", "${workflow.input.n}"),
        ("a $${x} ${workflow.input.n}", "a ${x} 3"),
        ("${workflow.secrets.KEY}", "${workflow.secrets.KEY}"),
        ("plain $ {text}", "plain $ {text}"),
    ],
)
def test_a_text_resolves(text: str, value: Any) -> None:
    assert resolve(compile_template(text), SCOPE) == value


def test_values_are_resolved_recursively_and_keys_are_not() -> None:
    template = compile_template({"${workflow.input.k}": ["${workflow.input.n}", {"x": 1}], "c": [1, 2]})
    assert resolve(template, SCOPE) == {"${workflow.input.k}": [3, {"x": 1}], "c": [1, 2]}


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("ab ${t.output", 3),
        ("${}", 0),
        ("${t.output[?(@.a==1]}", 19),
        ("${t.output[?(@.a=~1)]}", 16),
        ("x${t.output[}", 11),
    ],
)
def test_bad_syntax_names_its_position(text: str, position: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_template(text)
    assert caught.value.position == position


def problems(**task: Any) -> list[tuple[str, str]]:
    definition = {"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a", **task}]}
    return [(problem.path, problem.message) for problem in validate(definition)]


def test_an_unknown_reference_is_refused_with_its_place() -> None:
    found = problems(inputParameters={"x": {"y": ["is ${nobody.output.z}"]}})
    assert found == [
        ("tasks[0].inputParameters.x.y[0]", "${nobody.output.z} (at character 3): there is no task 'nobody'")
    ]


def test_references_inside_keys_and_filters_are_checked_too() -> None:
    for text in ("${a.output['${nobody.output.k}']}", "${a.output.l[?(@.x == '${nobody.output.k}')]}"):
        assert [at for at, message in problems(inputParameters={"x": text}) if "'nobody'" in message] == [
            "tasks[0].inputParameters.x"
        ]


@pytest.mark.parametrize(
    ("task", "path"),
    [
        ({"type": "SWITCH"}, "tasks[0].evaluatorType"),
        (
            {"type": "SWITCH", "evaluatorType": "value-param", "expression": "v", "decisionCases": {"a": []}},
            "tasks[0].expression",
        ),
        ({"type": "FORK_JOIN", "forkTasks": [[]]}, "tasks[0]"),
        ({"type": "DO_WHILE", "loopCondition": "true"}, "tasks[0].loopOver"),
        ({"type": "SUB_WORKFLOW"}, "tasks[0].subWorkflowParam"),
        ({"type": "TERMINATE"}, "tasks[0].inputParameters.terminationStatus"),
        ({"type": "WAIT", "inputParameters": {"duration": "soon"}}, "tasks[0].inputParameters.duration"),
        ({"type": "EVENT", "sink": "kafka:x"}, "tasks[0].sink"),
        ({"type": "JOIN", "joinOn": ["nobody"]}, "tasks[0].joinOn[0]"),
        ({"inputParameters": []}, "tasks[0].inputParameters"),
        ({"retryCount": -1}, "tasks[0].retryCount"),
        ({"inputParameters": {"x": "${workflow.inputs.a}"}}, "tasks[0].inputParameters.x"),
    ],
)
def test_each_mistake_is_refused_at_its_path(task: dict[str, Any], path: str) -> None:
    assert path in [at for at, _ in problems(**task)]


def test_a_type_that_nothing_here_runs_is_refused_by_its_name() -> None:
    assert problems(type="KAFKA_PUBLISH") == [("tasks[0].type", "task type KAFKA_PUBLISH is not supported yet")]


def test_names_and_tasks_are_required_and_references_unique() -> None:
    assert [p.message for p in validate({"tasks": []})] == [
        "WorkflowDef name cannot be null or empty", "WorkflowTask list cannot be empty",
    ]  # fmt: skip
    twice = {"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a"}] * 2}
    assert [p.path for p in validate(twice)] == ["tasks[1].taskReferenceName"]
