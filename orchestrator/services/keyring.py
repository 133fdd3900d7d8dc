"""Sealing of small texts at rest: AES-256-GCM under the first key of a ring, opened with whichever key sealed them.

The ring is `SECRET_KEYS` (base64 of 32 bytes each, the newest first), and behind it keys derived from Django's
SECRET_KEY and its fallbacks: a server that names no keys has one, and naming one later needs only a rotation.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from os import urandom

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.crypto import salted_hmac

from orchestrator.conf import conf

_SALT = "orchestrator.services.keyring"
_NONCE = 12


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed text (its nonce in front) and the name of the key that opens it."""

    key_name: str
    data: bytes


class NoKey(ImproperlyConfigured):
    """The key that sealed a text is not on the ring any more, or the text was moved or changed."""


def seal(text: str, place: str) -> Sealed:
    """Seal a text for one place (its row): it opens nowhere else."""
    name, key = next(iter(_ring().items()))
    nonce = urandom(_NONCE)
    return Sealed(name, nonce + AESGCM(key).encrypt(nonce, text.encode(), place.encode()))


def unseal(sealed: Sealed, place: str) -> str:
    """The text that was sealed for this place; raises NoKey."""
    key = _ring().get(sealed.key_name)
    if key is None:
        raise NoKey(f"A secret is sealed with the key {sealed.key_name}, which is not among SECRET_KEYS.")
    try:
        return AESGCM(key).decrypt(sealed.data[:_NONCE], sealed.data[_NONCE:], place.encode()).decode()
    except InvalidTag:
        raise NoKey(f"What is stored for {place} was not sealed for it with the key {sealed.key_name}.") from None


def newest_key() -> str:
    """The name of the key that seals now."""
    return next(iter(_ring()))


def _ring() -> dict[str, bytes]:
    return _made(conf().SECRET_KEYS, (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


@lru_cache(maxsize=4)
def _made(listed: str, passwords: tuple[str, ...]) -> dict[str, bytes]:
    keys = [_decoded(part) for part in listed.replace(",", " ").split()]
    keys += [salted_hmac(_SALT, "seal", secret=password, algorithm="sha256").digest() for password in passwords]
    return {sha256(_SALT.encode() + key).hexdigest()[:12]: key for key in keys}


def _decoded(part: str) -> bytes:
    try:
        key = b64decode(part, validate=True)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ImproperlyConfigured("SECRET_KEYS: expected base64 of 32 bytes for each key.")
    return key
