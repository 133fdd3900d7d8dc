"""The store `fs`: a folder that every process sees.

An object is written beside its place, synced, and moved there: a reader sees all of it or nothing, whoever crashes. What a
crash leaves is listed as an object of its own: the name, a dot, and something random.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from orchestrator.conf import conf
from orchestrator.errors import StoreUnavailable

_MARK = ".ostinato-payloads"
"""A file that says that the folder is the store: an object missing from an unmounted one is not lost."""


class FileStore:
    """Objects as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        with _told("written to"):
            self._make(path.parent)
            try:
                with partial.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
            _sync(path.parent)

    def get(self, key: str) -> bytes | None:
        with _told("read"):
            try:
                return self._path(key).read_bytes()
            except FileNotFoundError:
                self._require_mark()
                return None

    def page(self, after: str, most: int) -> list[tuple[str, datetime]]:
        with _told("listed"):
            return list(islice(self._walk(tuple(after.split("/")) if after else ()), most))

    def modified(self, key: str) -> datetime | None:
        with _told("read"):
            try:
                return datetime.fromtimestamp(self._path(key).stat().st_mtime, UTC)
            except FileNotFoundError:
                return None

    def remove(self, key: str) -> None:
        with _told("written to"):
            self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder.joinpath(*key.split("/"))

    def _make(self, folder: Path) -> None:
        """Make the folder of an object, each new name synced, and the store's mark."""
        mark = self.folder / _MARK
        if not mark.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            mark.touch()
            _sync(self.folder)
        for place in (folder.parent, folder):
            if not place.exists():
                place.mkdir(exist_ok=True)
                _sync(place.parent)

    def _require_mark(self) -> None:
        if not (self.folder / _MARK).exists():
            raise StoreUnavailable(f"{self.folder} is not a payload store: is the right folder mounted here?")

    def _walk(self, after: tuple[str, ...]) -> Iterator[tuple[str, datetime]]:
        """Files two folders down, partly written ones too, sorted by their parts."""
        for first in _sorted(self.folder):
            if (first,) < after[:1]:
                continue
            for second in _sorted(self.folder / first):
                if (first, second) < after[:2]:
                    continue
                for name in _sorted(self.folder / first / second):
                    key = f"{first}/{second}/{name}"
                    if (first, second, name) > after and (found := self.modified(key)) is not None:
                        yield key, found


def _sorted(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _sync(folder: Path) -> None:
    """Make names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _told(done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"The payload store fs could not be {done}: {error}") from error


def opened() -> FileStore:
    """The store that the settings name."""
    return FileStore(Path(conf().OFFLOAD_DIR))
