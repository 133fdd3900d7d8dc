"""JavaScript in a sandbox: one realm per thread, frozen intrinsics, limits on time, memory and stack.

Two threads in one context abort the process, so a realm never leaves its thread. The time limit counts the CPU of
the whole process: it grows with the scripts that run at the time, and one that was interrupted early is tried once more.
What a script throws becomes text inside the realm: outside, its own `toString` would run without a limit.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import quickjs

from orchestrator.conf import conf
from orchestrator.db.json import dumps as storable
from orchestrator.errors import Invalid

_STACK_BYTES = 256 * 1024
_RESULT_BYTES = 4 * 1024 * 1024
_USES = 2000
_PRELUDE = """
(() => {
  for (const name of ['Atomics', 'SharedArrayBuffer', 'WeakRef', 'FinalizationRegistry', 'queueMicrotask'])
    delete globalThis[name];
  const seen = new Set();
  const freeze = (value) => {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
    seen.add(value);
    Object.freeze(value);
    for (const key of Reflect.ownKeys(value)) {
      const property = Object.getOwnPropertyDescriptor(value, key);
      if (property.value) freeze(property.value);
      if (property.get) freeze(property.get);
      if (property.set) freeze(property.set);
    }
    freeze(Object.getPrototypeOf(value));
  };
  for (const key of Reflect.ownKeys(globalThis)) if (key !== 'globalThis') freeze(globalThis[key]);
  freeze((function* () {}).constructor); freeze((async () => {}).constructor);
  const stringify = JSON.stringify, parse = JSON.parse, evaluate = (0, eval), F = Function;
  // Not `+`: what that makes of long texts is a rope, which our binding cannot read.
  const joined = (mark, text) => [mark, text].join('');
  const out = (value) => {
    if (value && typeof value.then === 'function') throw new TypeError('a script cannot be asynchronous');
    const text = stringify(value === undefined ? null : value);
    if (text === undefined) throw new TypeError(`a ${typeof value} is not a result`);
    return joined('=', text);
  };
  const guarded = (body) => (source, scope) => {
    try { return out(body(source, scope)); } catch (error) { return joined('!', `${error}`); }
  };
  const evaluated = (source, scope) => new F('$', '__source', 'return eval(__source)')(parse(scope), source);
  const called = (source, scope) => new F('$', source)(parse(scope));
  Object.defineProperty(globalThis, '__run', { value: guarded(evaluated) });
  Object.defineProperty(globalThis, '__call', { value: guarded(called) });
  const parsed = (source) => {
    try { new F('__source', 'eval("throw 0;" + __source)')(source); } catch (error) { if (error !== 0) throw error; }
  };
  Object.defineProperty(globalThis, '__parse', { value: guarded(parsed) });
  Object.preventExtensions(globalThis);
})()
"""
_threads = threading.local()
_lock = threading.Lock()
_running = 0


class ScriptError(ValueError):
    """A script that failed, or ran out of its limits; the text is the reason."""


@contextmanager
def _counted() -> Iterator[int]:
    """How many scripts run in this process now, this one included."""
    global _running
    with _lock:
        _running += 1
        running = _running
    try:
        yield running
    finally:
        with _lock:
            _running -= 1


class _Realm:
    def __init__(self) -> None:
        self.owner = threading.get_ident()
        self.uses = 0
        self.context = quickjs.Context()
        self.context.set_max_stack_size(_STACK_BYTES)
        self.context.set_memory_limit(conf().SCRIPT_BYTES)
        self.context.eval(_PRELUDE)

    def call(self, entry: str, source: str, scope: str) -> str:
        assert self.owner == threading.get_ident(), "a realm was entered by another thread"
        self.uses += 1
        with _counted() as running:
            self.context.set_time_limit(conf().SCRIPT_SECONDS * running)
            try:
                return str(self.context.get(entry)(source, scope))
            finally:
                self.context.set_time_limit(-1)


def evaluate_script(source: str, scope: dict[str, Any]) -> Any:
    """The value of a script's last expression, with `$` bound to a copy of `scope`; raises ScriptError."""
    return _evaluate("__run", source, scope)


def call_script(source: str, scope: dict[str, Any]) -> Any:
    """The value a function body returns, with `$` bound to a copy of `scope`; raises ScriptError."""
    return _evaluate("__call", source, scope)


def _evaluate(entry: str, source: str, scope: dict[str, Any]) -> Any:
    text = json.dumps(scope, default=str)
    for last in (False, True):
        started = time.thread_time()
        try:
            answer = _realm().call(entry, source, text)
        except quickjs.JSException as error:
            _threads.realm = None
            message = _first_line(str(error))
            if "interrupted" not in message:
                raise ScriptError(message) from None
            if last or time.thread_time() - started >= conf().SCRIPT_SECONDS * 0.8:
                break
            continue
        except Exception as error:
            _threads.realm = None
            raise ScriptError(f"the script failed: {error}") from error
        return _result(answer)
    raise ScriptError(f"the script ran longer than {conf().SCRIPT_SECONDS} s")


def _result(answer: str) -> Any:
    """The value after `=`, or the error after `!`; a realm that ran out of memory or stack is not used again."""
    if answer.startswith("!"):
        message = _first_line(answer[1:])
        if "out of memory" in message or "stack" in message.lower():
            _threads.realm = None
        raise ScriptError(message)
    if len(answer) > _RESULT_BYTES:
        raise ScriptError(f"the script's result is larger than {_RESULT_BYTES} bytes")
    try:
        value = json.loads(answer[1:])
        if "\\u" in answer:  # NUL and lone surrogates are escaped so
            storable(value)
    except (ValueError, RecursionError, Invalid) as error:
        raise ScriptError(f"the script's result cannot be kept: {error}") from None
    return value


def check_script(source: str) -> None:
    """Raise ScriptError for a script that does not parse; nothing of it runs."""
    _evaluate("__parse", source, {})


def _first_line(message: str) -> str:
    lines = message.strip().splitlines()
    return lines[0][:500] if lines else "the script failed"


def _realm() -> _Realm:
    realm: _Realm | None = getattr(_threads, "realm", None)
    if realm is None or realm.uses >= _USES:
        realm = _threads.realm = _Realm()
    return realm
