"""What the lint finds in definitions, and that it finds nothing in sound ones."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.definitions import fork, loop, simple, switch, task
from tests.engine.generator import Generator
from workflows.engine.linting import lint

END = task("TERMINATE", "end", inputParameters={"terminationStatus": "COMPLETED"})


def found(*tasks: dict[str, Any], **fields: Any) -> list[tuple[str, str, str]]:
    made = lint({"name": "w", "version": 1, "tasks": list(tasks), **fields})
    return [(finding.level, finding.rule, finding.path) for finding in made]


def warned(rule: str, path: str) -> list[tuple[str, str, str]]:
    return [("warning", rule, path)]


def test_what_would_be_refused_is_an_error_with_its_position() -> None:
    bad = simple("a", inputParameters={"x": "${nowhere.output}"})
    assert found(bad) == [("error", "invalid", "tasks[0].inputParameters.x")]
    finding = lint({"name": "w", "tasks": [bad]})[0]
    assert "there is no task 'nowhere'" in finding.message
    assert "at character 0" in finding.message


def test_what_stands_behind_an_end_is_unreachable() -> None:
    assert found(END, simple("a")) == warned("unreachable", "tasks[1]")
    other = {**END, "taskReferenceName": "other"}
    assert found(switch("s", "x", {"x": [END]}, [other]), simple("a")) == warned("unreachable", "tasks[1]")
    assert found(switch("s", "x", {"x": [END]}), simple("a")) == []
    assert found(loop("l", 2, END), simple("a")) == warned("unreachable", "tasks[1]")


def test_a_branch_that_no_join_waits_for() -> None:
    made = fork("f", [simple("a")], [switch("s", "x", {"x": [simple("b")]})], [simple("c")], on=["a", "b"])
    assert found(*made) == warned("unjoined-branch", "tasks[0].forkTasks[2]")


def test_a_reference_to_what_runs_later() -> None:
    early = simple("a", inputParameters={"x": ["${b.output.y}"]})
    assert found(early, simple("b")) == warned("reference-too-early", "tasks[0].inputParameters.x[0]")
    assert found(simple("b"), early) == []
    assert found(loop("l", 2, early, simple("b"))) == []


def reads(ref: str, *others: str) -> dict[str, Any]:
    return simple(ref, inputParameters={"x": [f"${{{other}.output.y}}" for other in others]})


def test_a_reference_into_a_branch_that_runs_at_the_same_time() -> None:
    rule, branch = "reference-across-branches", "tasks[0].forkTasks"
    assert found(*fork("f", [simple("a")], [reads("b", "a")])) == warned(rule, f"{branch}[1][0].inputParameters.x[0]")
    assert found(*fork("f", [reads("a", "b")], [simple("b")])) == warned(rule, f"{branch}[0][0].inputParameters.x[0]")
    deep = fork("f", [switch("s", "x", {"x": [simple("a")]})], [loop("l", 2, reads("b", "a"))])
    assert found(*deep) == warned(rule, f"{branch}[1][0].loopOver[0].inputParameters.x[0]")
    (finding,) = lint({"name": "w", "tasks": fork("f", [simple("a")], [reads("b", "a")])})
    assert "${a.output.y} (at character 0) may be null: it runs in another branch of 'f'" in finding.message
    told = simple("b", onStateChange={"onStart": [{"type": "t", "payload": {"v": "${a.output}"}}]})
    assert found(*fork("f", [simple("a")], [told])) == warned(rule, f"{branch}[1][0].onStateChange.onStart[0].payload.v")


def test_a_reference_to_what_has_surely_ended_is_none() -> None:
    assert found(simple("z"), *fork("f", [simple("a"), reads("c", "a", "z")], [simple("b")]), reads("d", "a", "b")) == []
    waits = task("JOIN", "j", joinOn=["c"])
    first = [simple("a"), simple("c"), simple("e")]
    assert found(*fork("f", first, [waits, reads("b", "a", "c")])) == []
    assert found(*fork("f", first, [waits, reads("b", "e")])) == warned(
        "reference-across-branches", "tasks[0].forkTasks[1][1].inputParameters.x[0]"
    )
    inner = fork("g", [simple("a")], [simple("c")])
    assert found(*fork("f", [*inner, reads("b", "a", "c")], [simple("e")])) == []
    assert found(*fork("f", inner, [task("JOIN", "j", joinOn=["g_join"]), reads("b", "a", "c")])) == []
    assert found(*fork("f", inner, [task("JOIN", "j", joinOn=["a"]), reads("b", "c")])) == warned(
        "reference-across-branches", "tasks[0].forkTasks[1][1].inputParameters.x[0]"
    )


def test_times_that_conflict() -> None:
    slow = simple("a", taskDefinition={"timeoutSeconds": 50, "totalTimeoutSeconds": 20})
    assert found(slow) == warned("conflicting-timeouts", "tasks[0].taskDefinition.timeoutSeconds")
    inside = simple("a", taskDefinition={"totalTimeoutSeconds": 20})
    assert found(inside, timeoutSeconds=10) == warned(
        "conflicting-timeouts", "tasks[0].taskDefinition.totalTimeoutSeconds"
    )


def test_fields_without_effect() -> None:
    assert found(simple("a", optional=True, permissive=True)) == warned("inert-field", "tasks[0].permissive")
    assert found({**loop("l", 1, simple("a")), "retryCount": 2}) == warned("inert-field", "tasks[0].retryCount")
    assert found(simple("a"), timeoutPolicy="ALERT_ONLY") == warned("inert-field", "timeoutPolicy")
    assert found(simple("a"), workflowStatusListenerSink="conductor") == warned("inert-field", "workflowStatusListenerSink")


@given(seed=st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_generated_definitions_are_sound(seed: int) -> None:
    generator = Generator(seed, calm=True)
    rules = {finding.rule for finding in lint(generator.definition())}
    assert rules <= {"unjoined-branch"}, rules


def test_the_command_reads_files_and_says_so_by_its_exit(tmp_path: Path) -> None:
    sound, odd, broken = (tmp_path / name for name in ("sound.json", "odd.json", "broken.json"))
    sound.write_text(json.dumps({"name": "w", "tasks": [simple("a")]}))
    odd.write_text(json.dumps([{"name": "w", "tasks": [END, simple("a")]}]))
    broken.write_text("{")
    out = StringIO()
    call_command("lint_definition", str(sound), str(odd), stdout=out)
    assert "[0].tasks[1]: warning: 'a' is never reached: 'end' ends the run [unreachable]" in out.getvalue()
    with pytest.raises(SystemExit):
        call_command("lint_definition", str(odd), "--strict", stdout=StringIO())
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("lint_definition", str(sound), str(broken), "--json", stdout=out)
    report = json.loads(out.getvalue())
    assert report[str(sound)] == []
    assert report[str(broken)][0]["rule"] == "unreadable"
