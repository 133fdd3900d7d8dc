"""What proves that a delivery comes from its sender: checked when a webhook is registered, and for each delivery.

A verifier names secrets of its namespace and never holds their values.

- HMAC_BASED: `header` holds the HMAC-SHA256 of the body under `secret`, as `encoding` hex or base64, after a `prefix`.
- SIGNATURE_BASED: the same of `signed`, a text with {timestamp}, {body} and perhaps {id}, the delivery's: the moment in
  `timestampHeader` (seconds since 1970) may be `toleranceSeconds` off. The header may hold several, apart by spaces.
- HEADER_BASED: each of `headers` holds the value of the secret that is named for it.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from workflows.engine.problems import Problem

Verifier = dict[str, Any]
_HMAC = {"type", "header", "secret", "algorithm", "encoding", "prefix"}
_FIELDS = {
    "HMAC_BASED": _HMAC,
    "SIGNATURE_BASED": _HMAC | {"timestampHeader", "toleranceSeconds", "signed"},
    "HEADER_BASED": {"type", "headers"},
}
_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")
_PLACE = re.compile(r"(\{(?:timestamp|body|id)\})")
_MOMENT = re.compile(r"[0-9]{1,12}")
_TOLERANCE, _MOST_TOLERANCE = 300, 24 * 3600


@dataclass(frozen=True, slots=True)
class Delivery:
    """A request as it came: the bytes of its body, its headers by name in any case, the id that its sender gave it."""

    body: bytes
    headers: Mapping[str, str]
    id: str | None


def problems(verifier: Any) -> list[Problem]:
    """What is wrong with a verifier, each with its path."""
    if not isinstance(verifier, dict):
        return [Problem("verifier", f"expected an object, got {type(verifier).__name__}")]
    kind = verifier.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        return [Problem("verifier.type", f"expected one of {', '.join(_FIELDS)}, got {kind!r:.40}")]
    found = [
        Problem(f"verifier.{name}", f"is not a field of a {kind} verifier")
        for name in sorted(set(verifier) - _FIELDS[kind])
    ]
    checks = _headers(verifier) if kind == "HEADER_BASED" else _hmac(verifier)
    return [*found, *checks, *(_signature(verifier) if kind == "SIGNATURE_BASED" else ())]


def _headers(verifier: Verifier) -> Iterator[Problem]:
    headers = verifier.get("headers")
    if not isinstance(headers, dict) or not headers:
        yield Problem("verifier.headers", "expected an object of header names, each with the name of a secret")
        return
    for name, secret in headers.items():
        yield from _header(name, f"verifier.headers.{name:.40}")
        yield from _secret(secret, f"verifier.headers.{name:.40}")


def _hmac(verifier: Verifier) -> Iterator[Problem]:
    yield from _header(verifier.get("header"), "verifier.header")
    yield from _secret(verifier.get("secret"), "verifier.secret")
    for name, allowed in (("algorithm", ("sha256",)), ("encoding", ("hex", "base64"))):
        if verifier.get(name, allowed[0]) not in allowed:
            yield Problem(f"verifier.{name}", f"expected {' or '.join(allowed)}, got {verifier[name]!r:.40}")
    prefix = verifier.get("prefix", "")
    if not isinstance(prefix, str) or len(prefix) > 100:
        yield Problem("verifier.prefix", f"expected a text of at most 100 characters, got {prefix!r:.40}")


def _signature(verifier: Verifier) -> Iterator[Problem]:
    yield from _header(verifier.get("timestampHeader"), "verifier.timestampHeader")
    seconds = verifier.get("toleranceSeconds", _TOLERANCE)
    if type(seconds) is not int or not 1 <= seconds <= _MOST_TOLERANCE:
        yield Problem("verifier.toleranceSeconds", f"expected 1 to {_MOST_TOLERANCE}, got {seconds!r:.40}")
    signed = verifier.get("signed")
    places = _PLACE.findall(signed) if isinstance(signed, str) else []
    if sorted(set(places) | {"{id}"}) != ["{body}", "{id}", "{timestamp}"] or len(str(signed)) > 200:
        yield Problem(
            "verifier.signed", f"expected a text with {{timestamp}} and {{body}}, such as '{{timestamp}}.{{body}}', "
            f"got {signed!r:.40}",
        )  # fmt: skip


def _header(name: Any, path: str) -> Iterator[Problem]:
    if not is_header(name):
        yield Problem(path, f"expected the name of a header, got {name!r:.40}")


def _secret(name: Any, path: str) -> Iterator[Problem]:
    if not isinstance(name, str) or not name:
        yield Problem(path, f"expected the name of a secret, got {name!r:.40}")


def is_header(name: Any) -> bool:
    """Whether it can be the name of a header."""
    return isinstance(name, str) and _HEADER.fullmatch(name) is not None


def secrets_of(verifier: Verifier) -> dict[str, str]:
    """Path -> name of the secrets that a verifier names."""
    if verifier["type"] == "HEADER_BASED":
        return {f"verifier.headers.{header}": name for header, name in verifier["headers"].items()}
    return {"verifier.secret": verifier["secret"]}


def needs_id(verifier: Verifier) -> bool:
    """Whether the delivery's id is signed too."""
    return "{id}" in verifier.get("signed", "")


def is_proved(verifier: Verifier, delivery: Delivery, values: Mapping[str, str], now: float) -> bool:
    """Whether a delivery carries what the verifier asks for; `values` are those of its secrets, as far as there are any."""
    if any(name not in values for name in secrets_of(verifier).values()):
        return False
    if verifier["type"] == "HEADER_BASED":
        return all(
            hmac.compare_digest(_raw(delivery.headers.get(header, "")), values[name].encode())
            for header, name in verifier["headers"].items()
        )
    signed = delivery.body if verifier["type"] == "HMAC_BASED" else _signed(verifier, delivery, now)
    if signed is None:
        return False
    given = delivery.headers.get(verifier["header"], "")
    candidates = given.split() if verifier["type"] == "SIGNATURE_BASED" else [given]
    digest = hmac.new(values[verifier["secret"]].encode(), signed, sha256).digest()
    return any(_is_digest(verifier, candidate, digest) for candidate in candidates)


def _signed(verifier: Verifier, delivery: Delivery, now: float) -> bytes | None:
    """The bytes that are signed; None for a delivery whose moment is too far off, which may be one that was caught."""
    at = delivery.headers.get(verifier["timestampHeader"], "")
    if not _MOMENT.fullmatch(at) or abs(now - int(at)) > verifier.get("toleranceSeconds", _TOLERANCE):
        return None
    if needs_id(verifier) and delivery.id is None:
        return None
    filled = {"{timestamp}": _raw(at), "{body}": delivery.body, "{id}": _raw(delivery.id or "")}
    return b"".join(filled.get(part, part.encode()) for part in _PLACE.split(verifier["signed"]))


def _is_digest(verifier: Verifier, given: str, digest: bytes) -> bool:
    prefix = verifier.get("prefix", "")
    if not given.startswith(prefix):
        return False
    given = given[len(prefix) :]
    if verifier.get("encoding") == "base64":
        return hmac.compare_digest(_raw(given), b64encode(digest))
    return hmac.compare_digest(_raw(given.lower()), digest.hex().encode())


def _raw(header: str) -> bytes:
    """The bytes of a header, which the server has decoded one by one."""
    return header.encode("latin-1", "replace")
