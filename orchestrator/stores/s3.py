"""The store `s3`: a bucket of Amazon S3 or of a server that speaks its protocol. Needs the extra `s3`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any

from orchestrator.conf import conf
from orchestrator.errors import StoreUnavailable


class S3Store:
    """Objects of a bucket, whose names begin with a prefix."""

    def __init__(self, bucket: str, prefix: str, endpoint: str) -> None:
        self.bucket = bucket
        self.prefix = prefix
        self._client = _client(endpoint)

    def put(self, key: str, data: bytes) -> None:
        with _told():
            self._client.put_object(
                Bucket=self.bucket, Key=self.prefix + key, Body=data, ContentType="application/json"
            )

    def get(self, key: str) -> bytes | None:
        with _told():
            try:
                body: bytes = self._client.get_object(Bucket=self.bucket, Key=self.prefix + key)["Body"].read()
            except self._client.exceptions.NoSuchKey:
                return None
        return body

    def page(self, after: str, most: int) -> list[tuple[str, datetime]]:
        behind = {"StartAfter": self.prefix + after} if after else {}
        with _told():
            found = self._client.list_objects_v2(
                Bucket=self.bucket, Prefix=self.prefix, MaxKeys=min(most, 1000), **behind
            )
        return [(item["Key"].removeprefix(self.prefix), item["LastModified"]) for item in found.get("Contents", ())]

    def modified(self, key: str) -> datetime | None:
        with _told():
            found = self._client.list_objects_v2(Bucket=self.bucket, Prefix=self.prefix + key, MaxKeys=1)
        for item in found.get("Contents", ()):
            if item["Key"] == self.prefix + key:
                moment: datetime = item["LastModified"]
                return moment
        return None

    def remove(self, key: str) -> None:
        with _told():
            self._client.delete_object(Bucket=self.bucket, Key=self.prefix + key)


def _client(endpoint: str) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise StoreUnavailable("The payload store s3 needs boto3: pip install 'ostinato[s3]'.") from error
    # Short: a writer holds locks of its run meanwhile.
    config = Config(connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 3, "mode": "standard"})
    with _told():
        return boto3.client("s3", endpoint_url=endpoint or None, config=config)


@contextmanager
def _told() -> Iterator[None]:
    """What boto3 says as StoreUnavailable; a key that does not exist is for the caller."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise StoreUnavailable(f"The payload store s3 failed: {error}") from error


@lru_cache(maxsize=4)
def _store(bucket: str, prefix: str, endpoint: str) -> S3Store:
    return S3Store(bucket, prefix, endpoint)


def opened() -> S3Store:
    """The store that the settings name; its client is made once."""
    settings = conf()
    return _store(settings.OFFLOAD_S3_BUCKET, settings.OFFLOAD_S3_PREFIX, settings.OFFLOAD_S3_ENDPOINT)
