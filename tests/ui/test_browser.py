"""The run's page in a real browser: live with JavaScript, whole without it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from uuid import UUID

import pytest

from tests import flows
from tests.support import eventually
from workflows.models import HistoryEvent

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.usefixtures("committed"),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
T = TypeVar("T")
_QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture
def server(committed: None, tmp_path: Any) -> Iterator[str]:
    """The web process alone, open to this machine; the test is the rest of the engine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "OSTINATO_DEMO_OPEN": "1", "DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "orchestrator", "run_web", "--host", "127.0.0.1", "--port", str(port)]
    log = (tmp_path / "web.log").open("wb")
    process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        eventually(lambda: process.poll() is not None or _answers(url), 30)
        assert process.poll() is None, (tmp_path / "web.log").read_text()
        yield url
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/ops/default/executions/", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture
def browse() -> Iterator[Callable[[Callable[[Any], T]], T]]:
    """Run a story with a browser in a thread of its own: its event loop must not be the thread of the ORM."""

    def tell(story: Callable[[Any], T]) -> T:
        with playwright.sync_playwright() as started:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=list(_QUIET))
            try:
                return story(browser)
            finally:
                browser.close()

    with ThreadPoolExecutor(2) as threads:
        yield lambda story: threads.submit(tell, story).result(100)


def a_run() -> tuple[UUID, str]:
    queue = flows.unique("q")
    run = flows.start(flows.register(*flows.fork("f", *[[flows.simple(f"t{i}", queue)] for i in range(6)])))
    flows.drain()
    return run, queue


def elsewhere(work: Callable[[], T]) -> T:
    """Database work from inside a story."""
    from django.db import connections

    def run() -> T:
        try:
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(run).result(60)


def test_the_page_follows_a_run_to_its_end(server: str, browse: Callable[[Callable[[Any], Any]], Any]) -> None:
    run, queue = a_run()
    errors: list[str] = []

    def story(browser: Any) -> tuple[list[int], str]:
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.goto(f"{server}/ops/default/executions/{run}/")
        page.locator("#live", has_text="Live").wait_for()
        opened = page.locator("tbody[data-id] details").first
        opened.locator("summary").click()
        elsewhere(lambda: flows.finish([queue]))
        page.locator("#live", has_text="Finished").wait_for()
        page.locator(".summary [data-status=COMPLETED]").wait_for()
        assert page.locator("tbody [data-status=COMPLETED]").count() == 8
        assert page.locator("tbody[data-id] details").first.get_attribute("open") is not None, (
            "what was open stays open"
        )
        seqs = [int(row.get_attribute("data-seq")) for row in page.locator("#events > li").all()]
        return seqs, page.inner_text("#count")

    seqs, count = browse(story)
    stored = list(HistoryEvent.objects.filter(workflow_id=run).order_by("seq").values_list("seq", flat=True))
    assert seqs == stored
    assert count == f"{stored[-1]} events"
    assert not errors


def test_live_rows_read_like_the_servers(server: str, browse: Callable[[Callable[[Any], Any]], Any]) -> None:
    run, queue = a_run()

    def story(browser: Any) -> tuple[list[str], list[str]]:
        page = browser.new_page()
        page.goto(f"{server}/ops/default/executions/{run}/")
        page.locator("#live", has_text="Live").wait_for()
        elsewhere(lambda: flows.finish([queue]))
        page.locator("#live", has_text="Finished").wait_for()
        live = _rows(page)
        page.reload()
        return live, _rows(page)

    live, rendered = browse(story)
    assert live == rendered


def test_the_page_is_whole_without_javascript(server: str, browse: Callable[[Callable[[Any], Any]], Any]) -> None:
    run, queue = a_run()
    flows.finish([queue])

    def story(browser: Any) -> tuple[int, int]:
        page = browser.new_context(java_script_enabled=False).new_page()
        page.goto(f"{server}/ops/default/executions/{run}/")
        return page.locator("#events > li").count(), page.locator("tbody[data-id]").count()

    events, tasks = browse(story)
    assert events == HistoryEvent.objects.filter(workflow_id=run).count()
    assert tasks == 8


def _rows(page: Any) -> list[str]:
    return [" ".join(row.inner_text().split()) for row in page.locator("#events > li").all()]
