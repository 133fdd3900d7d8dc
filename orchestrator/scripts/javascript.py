"""JavaScript in a sandbox: one realm per thread, frozen intrinsics, limits on time, memory and stack.

Two threads in one context abort the process, so a realm never leaves its thread. The time limit counts the CPU of
the whole process, so a script that was interrupted early is tried once more before it fails.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import quickjs

from orchestrator.conf import conf

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
  const out = (value) => {
    if (value && typeof value.then === 'function') throw new TypeError('a script cannot be asynchronous');
    return stringify(value === undefined ? null : value);
  };
  Object.defineProperty(globalThis, '__run', { value: (source, scope) =>
    out(new F('$', '__source', 'return eval(__source)')(parse(scope), source)) });
  Object.defineProperty(globalThis, '__call', { value: (source, scope) =>
    out(new F('$', source)(parse(scope))) });
  Object.preventExtensions(globalThis);
})()
"""
_threads = threading.local()


class ScriptError(ValueError):
    """A script that failed, or ran out of its limits; the text is the reason."""


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
        self.context.set_time_limit(conf().SCRIPT_SECONDS)
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
    for attempt in (1, 2):
        realm = _realm()
        started = time.thread_time()
        try:
            result = realm.call(entry, source, text)
        except quickjs.JSException as error:
            message = str(error).strip().splitlines()[0] if str(error).strip() else "the script failed"
            interrupted = "interrupted" in message or "out of memory" in message or "stack" in message.lower()
            if interrupted:
                _threads.realm = None
            early = time.thread_time() - started < conf().SCRIPT_SECONDS * 0.8
            if "interrupted" in message and early and attempt == 1:
                continue
            if "interrupted" in message:
                message = f"the script ran longer than {conf().SCRIPT_SECONDS} s"
            raise ScriptError(message) from None
        except Exception as error:
            _threads.realm = None
            raise ScriptError(f"the script failed: {error}") from error
        if len(result) > _RESULT_BYTES:
            raise ScriptError(f"the script's result is larger than {_RESULT_BYTES} bytes")
        return json.loads(result)
    raise ScriptError("the script was interrupted")


def _realm() -> _Realm:
    realm: _Realm | None = getattr(_threads, "realm", None)
    if realm is None or realm.uses >= _USES:
        realm = _threads.realm = _Realm()
    return realm
