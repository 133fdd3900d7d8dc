"""The stores of large payloads: objects are there whole or not at all, can be listed, written again and removed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from orchestrator import stores
from orchestrator.checks import configuration
from orchestrator.errors import StoreUnavailable
from orchestrator.stores import Store, files

KEY = f"default/ab/{'ab' * 32}"


@pytest.fixture(params=stores.KINDS)
def store(request: pytest.FixtureRequest, settings: Any, tmp_path: Path) -> Iterator[Store]:
    """Each kind; S3 is served by moto, where it and boto3 are installed."""
    if request.param == "fs":
        settings.OSTINATO = {**settings.OSTINATO, "OFFLOAD_DIR": str(tmp_path / "store")}
        yield stores.find("fs")
        return
    boto3 = pytest.importorskip("boto3", reason="the extra s3 is not installed")
    server = pytest.importorskip("moto.server", reason="moto, a server that speaks S3, is not installed")
    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                patch.setenv(name, "testing")
            patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            host, port = running.get_host_and_port()
            endpoint, bucket = f"http://{host}:{port}", f"payloads-{uuid4().hex}"
            boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket=bucket)
            settings.OSTINATO = {
                **settings.OSTINATO, "OFFLOAD_STORE": "s3", "OFFLOAD_S3_BUCKET": bucket, "OFFLOAD_S3_PREFIX": "p/",
                "OFFLOAD_S3_ENDPOINT": endpoint,
            }  # fmt: skip
            yield stores.find("s3")
    finally:
        running.stop()


def test_an_object_is_read_as_it_was_written(store: Store) -> None:
    store.put("default/cd/other", b"[0]")
    assert store.get(KEY) is None and store.modified(KEY) is None
    store.put(KEY, b"[1]")
    assert store.get(KEY) == b"[1]"
    age = datetime.now(UTC) - (store.modified(KEY) or datetime.min.replace(tzinfo=UTC))
    assert abs(age) < timedelta(minutes=1)
    store.put(KEY, b"[2]")
    assert store.get(KEY) == b"[2]"
    store.remove(KEY)
    store.remove(KEY)
    assert store.get(KEY) is None


def test_pages_of_a_list_meet_without_a_gap(store: Store) -> None:
    keys = {f"{name}/{n:02x}/{n:064x}" for name in ("a", "a-b", "~c") for n in range(5)}
    for key in keys:
        store.put(key, b"{}")
    found: list[str] = []
    while page := store.page(found[-1] if found else "", 4):
        found += [key for key, _ in page]
    assert len(found) == len(set(found)) and set(found) == keys
    assert store.page(found[-1], 4) == []


def test_two_writers_of_one_object_leave_it_whole(store: Store) -> None:
    data, together = b"x" * 200_000, threading.Barrier(4)

    def write() -> None:
        together.wait()
        for _ in range(5):
            store.put(KEY, data)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get(KEY) == data
    assert [key for key, _ in store.page("", 10)] == [KEY]


def test_a_write_that_breaks_off_leaves_the_old_object_and_no_rest(tmp_path: Path, monkeypatch: Any) -> None:
    store = files.FileStore(tmp_path)
    store.put(KEY, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreUnavailable, match="No space left on device"):
            store.put(KEY, b"new")
    assert store.get(KEY) == b"old"
    assert [key for key, _ in store.page("", 10)] == [KEY]


def test_a_folder_that_is_not_mounted_has_lost_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is the right folder mounted here"):
        files.FileStore(tmp_path / "elsewhere").get(KEY)


def test_a_store_without_its_settings_is_not_in_use(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "OFFLOAD_DIR": ""}
    assert stores.in_use() is None
    for name in ("fs", "s3", "ftp"):
        with pytest.raises(StoreUnavailable, match=f"{name}.*is not configured"):
            stores.find(name)


def test_a_store_that_does_not_exist_is_refused_at_start_up(settings: Any) -> None:
    settings.OSTINATO = {**settings.OSTINATO, "OFFLOAD_STORE": "ftp"}
    assert [error.id for error in configuration(None)] == ["ostinato.E009"]
