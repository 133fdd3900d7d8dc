"""Users' programs: what they compute, and that none escapes its limits or spoils the next one."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dispatch.system_tasks.inline import run_inline, run_lambda
from dispatch.system_tasks.jq import run_jq
from orchestrator.scripts import javascript, jq_process
from orchestrator.scripts.javascript import ScriptError, call_script, evaluate_script
from orchestrator.scripts.jq_process import JqError, JqProcess


@pytest.fixture(autouse=True)
def short(settings: Any) -> None:
    settings.OSTINATO = {**getattr(settings, "OSTINATO", {}), "SCRIPT_SECONDS": 0.3}


@pytest.fixture
def jq(settings: Any) -> Iterator[JqProcess]:
    process = JqProcess()
    yield process
    process.close()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("$.n + 1", 3),
        ("let x = $.n; x * 2", 4),
        ("if ($.loop['iteration'] < $.n) { true; } else { false; }", True),
        ("function f() { return {a: [1, null]} } f()", {"a": [1, None]}),
        ("(() => $.n)()", 2),
        ("undefined", None),
        ("NaN", None),
        ("var e = $; e.n = 9; e", {"n": 9, "loop": {"iteration": 1}}),
        ("'é\\n'", "é\n"),
    ],
)
def test_the_value_of_the_last_expression(source: str, expected: Any) -> None:
    scope = {"n": 2, "loop": {"iteration": 1}}
    assert evaluate_script(source, scope) == expected
    assert scope["n"] == 2, "a script gets a copy"


def test_a_function_body_returns_its_value() -> None:
    assert call_script("if ($.x) { return {a: $.x}; } return null;", {"x": 5}) == {"a": 5}


HOSTILE = [
    "while (true) {}",
    "for (;;) { try { for (;;); } catch (e) {} finally { continue } }",
    "throw {toString() { for (;;); }}",
    "throw {get name() { for (;;); }, get message() { for (;;); }, toString: Error.prototype.toString}",
    "({toJSON() { for (;;); }})",
    "new Proxy({}, {ownKeys() { for (;;); }})",
    "({get then() { for (;;); }})",
    "let a = []; for (;;) a.push('x'.repeat(1000))",
    "let s = 'x'; for (;;) s += s",
    "new ArrayBuffer(2 ** 31)",
    "'x'.repeat(2 ** 30)",
    "function f() { return f() + 1 } f()",
    "let o = {}; for (let i = 0; i < 1e5; i++) o = {o}; o",
    "/(a+)+$/.test('a'.repeat(40) + 'b')",
    "[...Array(1e6).keys()].sort(() => { for (;;); })",
    "(async () => { for (;;); })()",
    "Promise.resolve(1)",
    "import('os')",
    "2n ** 100000000n",
    "(function () {})",
    "Symbol('x')",
    "1n",
    "'\\u0000'",
    "'\\ud800'",
    "'x'.repeat(5 * 1024 * 1024)",
    "throw null",
    "throw Symbol('x')",
    "throw Object.create(null)",
    "not JavaScript",
]


@pytest.mark.parametrize("source", HOSTILE)
def test_a_hostile_script_ends_within_its_limits_and_the_next_one_works(source: str) -> None:
    started = time.monotonic()
    with pytest.raises(ScriptError) as caught:
        evaluate_script(source, {})
    assert time.monotonic() - started < 10
    assert str(caught.value)
    assert evaluate_script("$.n + [1, 2].map(x => x * 2).length", {"n": 1}) == 3


@pytest.mark.parametrize("length", [500, 600, 10_000, 1_000_000])
def test_a_long_text_comes_back_whole(length: int) -> None:
    assert evaluate_script("$.x + $.x", {"x": "y" * length}) == "y" * 2 * length
    with pytest.raises(ScriptError) as caught:
        evaluate_script("throw $.x + $.x", {"x": "y" * length})
    assert str(caught.value) == "y" * 500


@pytest.mark.parametrize("name", ["process", "require", "std", "os", "Deno", "console", "setTimeout", "Atomics"])
def test_a_script_sees_nothing_of_its_host(name: str) -> None:
    assert evaluate_script(f"typeof {name}", {}) == "undefined"


@pytest.mark.parametrize(
    "source",
    [
        "globalThis.leak = 1; 0",
        "leak = 1; 0",
        "this.leak = 1; 0",
        "(0, eval)('this.leak = 1'); 0",
        "Object.prototype.leak = 1; 0",
        "Array.prototype.map = () => 'poisoned'; 0",
        "JSON.stringify = () => '\"poisoned\"'; 0",
        "Object.defineProperty(Object.prototype, 'toJSON', {value: () => 'poisoned'}); 0",
        "(function* () {}).constructor.prototype.leak = 1; 0",
        "''.constructor.prototype.trim = () => 'poisoned'; 0",
        "__run = null; 0",
        "delete globalThis.__run; 0",
        "var leak = 1; function JSON() {} 0",
    ],
)
def test_nothing_of_a_script_reaches_the_next_one(source: str) -> None:
    with contextlib.suppress(ScriptError):
        evaluate_script(source, {})
    probe = "[typeof leak, [1].map(x => x + 1), ' a '.trim(), ({}).leak === undefined, JSON.stringify({a: 1})]"
    assert evaluate_script(probe, {}) == ["undefined", [2], "a", True, '{"a":1}']


def test_each_thread_has_a_realm_of_its_own_and_busy_neighbours_cost_no_answers() -> None:
    work = "let n = 0; for (let i = 0; i < 300000; i++) n += i % 7; n + $.k - $.k"

    def body(number: int) -> list[Any]:
        return [evaluate_script(work, {"k": number}) for _ in range(3)]

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(body, range(6)))
    assert results == [[evaluate_script(work, {"k": 0})] * 3] * 6


def test_an_early_interrupt_is_tried_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = javascript._Realm.call, []

    def call(self: Any, *args: str) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise javascript.quickjs.JSException("InternalError: interrupted")
        return real(self, *args)

    monkeypatch.setattr(javascript._Realm, "call", call)
    assert evaluate_script("1 + 1", {}) == 2
    assert len(calls) == 2


def test_inline_and_lambda_tasks() -> None:
    assert run_inline({"evaluatorType": "graaljs", "expression": "$.a * 2", "a": 4}).output == {"result": 8}
    assert run_inline({"evaluatorType": "value-param", "expression": "a", "a": 4}).output == {"result": 4}
    assert run_lambda({"scriptExpression": "return $.a > 3", "a": 4}).output == {"result": True}
    failed = run_inline({"expression": "$.a.b.c"})
    assert failed.status == "FAILED_WITH_TERMINAL_ERROR"
    assert failed.output["error"] == failed.reason and "TypeError" in (failed.reason or "")
    assert run_inline({"evaluatorType": "python", "expression": "1"}).status == "FAILED_WITH_TERMINAL_ERROR"
    assert run_inline({}).status == "FAILED_WITH_TERMINAL_ERROR"


def test_jq_results() -> None:
    given = {"queryExpression": ".xs[] | {y: .}", "xs": [1, 2]}
    outcome = run_jq(given)
    assert outcome.output == {"result": {"y": 1}, "resultList": [{"y": 1}, {"y": 2}]}
    assert run_jq({"queryExpression": "empty"}).output == {"result": None, "resultList": []}
    assert run_jq({"queryExpression": ".[["}).status == "FAILED"
    assert run_jq({}).status == "FAILED_WITH_TERMINAL_ERROR"


@pytest.mark.parametrize("program", ["def f: f; f", "[range(1e9)]", "repeat(1)", "range(1e9)"])
def test_a_hostile_program_ends_within_its_limits_and_the_next_one_works(jq: JqProcess, program: str) -> None:
    started = time.monotonic()
    with pytest.raises(JqError):
        jq.run(program, {})
    assert time.monotonic() - started < 10
    assert jq.run(".a", {"a": 1}) == [1]


def test_jq_sees_no_environment(jq: JqProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSTINATO_PROBE", "secret")
    assert "OSTINATO_PROBE" in os.environ
    for program in ("env", "$ENV"):
        (found,) = jq.run(program, None)
        assert set(found) <= {"LC_CTYPE"}


@pytest.mark.parametrize(
    "program",
    ['import "FILE" as $x; $x', 'import"FILE"as $x;$x', 'import\t"FILE" as $x; $x', 'import #\n"FILE" as $x; $x',
     'include "FILE"; .', '"FILE" | modulemeta'],
)  # fmt: skip
@pytest.mark.parametrize("checked", [True, False])
def test_jq_reads_no_file(
    jq: JqProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, checked: bool
) -> None:
    """With the check of the text, and without it by what the child may open."""
    (tmp_path / "data.json").write_text('{"secret": 1}')
    (tmp_path / "data.jq").write_text("def secret: 1;")
    if not checked:
        monkeypatch.setattr(jq_process, "_MODULE", jq_process.re.compile(r"(?!)"))
    file = str(tmp_path / "data").lstrip("/")
    with pytest.raises(JqError):
        jq.run(program.replace("FILE", file), None)
    assert jq.run(".", 1) == [1]


def test_jq_words_in_texts_and_paths_are_no_modules(jq: JqProcess) -> None:
    assert jq.run('.import == "import duty" and .include == 1', {"import": "import duty", "include": 1}) == [True]
