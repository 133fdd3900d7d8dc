"""Large payloads are kept in the store and read back whole by whoever needs them; a lost one is said, and no run is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from dispatch import handing_out
from dispatch.services import dispatching
from orchestrator import stores
from orchestrator.errors import PayloadLost, StoreUnavailable
from orchestrator.stores.files import FileStore
from tests import flows
from tests.api.client import Caller, demo_api  # noqa: F401  (a fixture)
from tests.reports.story import Story, fork, inline, of, switch, times
from workflows import offloading, wire
from workflows.models import DecideQueue, Execution, Offloaded, Task
from workflows.services import browsing, control, evaluation, replaying
from workflows.services.collecting import collect
from workflows.services.sweeping import invariant_report

pytestmark = pytest.mark.usefixtures("committed")
NS = flows.NAMESPACE
MOST = 500
BIG = "x" * 600


@pytest.fixture(autouse=True)
def store(settings: Any, tmp_path: Path) -> FileStore:
    settings.OSTINATO = {**settings.OSTINATO, "OFFLOAD_DIR": str(tmp_path), "OFFLOAD_BYTES": MOST}
    offloading.cache.clear()
    return FileStore(tmp_path)


def simple(ref: str, **fields: Any) -> dict[str, Any]:
    return of("SIMPLE", ref, **fields)


def stands(table: str, column: str, id: UUID) -> Any:
    """What really stands in a column."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column}::text FROM {table} WHERE id = %s", [id])
        return json.loads(cursor.fetchone()[0])


def is_away(table: str, column: str, id: UUID) -> bool:
    return set(stands(table, column, id)) == {"$offload"}


def objects(store: FileStore) -> list[str]:
    return [key for key, _ in store.page("", 1000)]


def lose(store: FileStore, *, keep: str = "") -> None:
    """All objects but those with `keep` in them."""
    for key in objects(store):
        if not keep or keep.encode() not in (store.get(key) or b""):
            store.remove(key)
    offloading.cache.clear()


def handed(story: Story, ref: str) -> list[Any]:
    """What a worker gets, secrets and payloads filled in."""
    return handing_out.open_all(story.poll(ref), {})


def story_of_two(**fields: Any) -> Story:
    """`a` gives something to `b`, of whose output the run's is made."""
    return Story(
        simple("a", inputParameters={"given": "${workflow.input.h}"}),
        simple("b", inputParameters={"got": "${a.output.h}"}),
        outputParameters={"r": "${b.output.h}"},
        **fields,
    )


def test_every_large_payload_of_a_run_is_away_and_comes_back_whole(store: FileStore) -> None:
    story = story_of_two(input={"h": BIG})
    offloading.cache.clear()
    (task,) = handed(story, "a")
    assert task.input == {"given": BIG}
    offloading.cache.clear()
    flows.complete([task], {"h": BIG + "a"})
    offloading.cache.clear()
    story.rest()
    (task,) = handed(story, "b")
    assert task.input == {"got": BIG + "a"}
    flows.complete([task], {"h": BIG + "b"})
    offloading.cache.clear()
    story.rest()
    assert story.status == "COMPLETED"
    for ref, given, made in (("a", {"given": BIG}, {"h": BIG + "a"}), ("b", {"got": BIG + "a"}, {"h": BIG + "b"})):
        row = story.row(ref)
        assert is_away("workflows_task", "input", row.id) and is_away("workflows_task", "output", row.id)
        offloading.cache.clear()
        assert (row.input, row.output) == (given, made)
    run = story.execution()
    assert is_away("workflows_execution", "input", run.id) and is_away("workflows_execution", "output", run.id)
    assert (run.input, run.output) == ({"h": BIG}, {"r": BIG + "b"})
    named = set(Offloaded.objects.filter(workflow_id=run.id).values_list("key", flat=True))
    assert named == set(objects(store)) and all(key.startswith("default/") for key in named)
    assert replaying.replay(run.id) == []
    assert not any(invariant_report().values())


def test_a_small_payload_stays_and_asks_nothing_of_the_store(store: FileStore) -> None:
    story = story_of_two(input={"h": "small"})
    story.end("a", {"h": "x" * 400})
    story.end("b", {"h": "y"})
    assert stands("workflows_task", "output", story.row("a").id) == {"h": "x" * 400}
    assert objects(store) == [] and not Offloaded.objects.exists()


@pytest.mark.parametrize("text", ["x" * 488, "é" * 244])
def test_the_limit_is_the_bytes_of_compact_json(store: FileStore, text: str) -> None:
    """{"h":"…"} has 8 bytes around the text."""
    fits = text + "x" * (MOST - 8 - len(text.encode()))
    assert not is_away("workflows_execution", "input", Story(simple("a"), input={"h": fits}).run)
    assert is_away("workflows_execution", "input", Story(simple("a"), input={"h": fits + "x"}).run)


def test_a_large_batch_of_small_ones_moves_nothing(store: FileStore) -> None:
    story = Story(*fork("f", *[[simple(f"t{i}", inputParameters={"x": "y" * 100})] for i in range(10)]))
    assert len(story.rows()) > 10 and objects(store) == []


@pytest.mark.parametrize("setting", [{"OFFLOAD_BYTES": 0}, {"OFFLOAD_DIR": ""}])
def test_without_a_limit_or_a_store_all_stays(settings: Any, store: FileStore, setting: dict[str, Any]) -> None:
    settings.OSTINATO = {**settings.OSTINATO, **setting}
    story = story_of_two(input={"h": BIG})
    assert stands("workflows_execution", "input", story.run) == {"h": BIG} and objects(store) == []


FORGERIES = [
    {"$offload": {"store": "fs", "key": "default/aa/" + "a" * 64, "bytes": 1}},
    {"$offload": {"literal": 1}},
    {"$offload": "x"},
    {"$offload": {"literal": {"$offload": {"literal": 1}}}},
]


@pytest.mark.parametrize("forged", FORGERIES)
@pytest.mark.parametrize("more", ["", BIG])
def test_nobodys_data_is_taken_for_a_reference(settings: Any, forged: dict[str, Any], more: str) -> None:
    given = {**forged, "h": more} if more else forged
    story = Story(simple("a", inputParameters=given), outputParameters={"$offload": "${a.output.$offload}"}, input=given)
    (task,) = handed(story, "a")
    assert task.input == given
    flows.complete([task], given)
    offloading.cache.clear()
    story.rest()
    run = story.execution()
    assert (run.status, run.input, story.row("a").output) == ("COMPLETED", given, given)
    assert run.output == {"$offload": forged["$offload"]}
    shown = browsing.list_tasks(run.id)[0][0]
    assert json.loads(str(shown.output_text)) == given  # type: ignore[attr-defined]


def test_what_the_engine_makes_is_moved_too() -> None:
    """An operator's output, a child's input and output, a failure workflow's input, a loop's growing output."""
    child = flows.register(inline("i", "$.h", h="${workflow.input.h}"), outputParameters={"h": "${i.output.result}"})
    story = Story(
        inline("double", "$.h + $.h", h="${workflow.input.h}"),
        of("SUB_WORKFLOW", "s", subWorkflowParam={"name": child}, inputParameters={"h": "${double.output.result}"}),
        times("l", 3, inline("turn", "$.h", h="${s.output.h}")),
        *fork("f", [inline("x", "$.h", h="${s.output.h}")], [inline("y", "1")]),
        outputParameters={"h": "${x.output.result}", "turns": "${l.output.2.turn.result}"},
        input={"h": BIG},
    )
    run = story.execution()
    assert (run.status, run.output) == ("COMPLETED", {"h": BIG * 2, "turns": BIG * 2})
    for ref in ("double", "s", "l", "turn", "x", "j"):
        assert is_away("workflows_task", "output", story.row(ref).id), ref
    assert not any(invariant_report().values())


def test_a_condition_sees_what_is_away() -> None:
    """The untaken branch is the one that an absent value would take."""
    story = Story(
        simple("a"),
        switch("w", "${a.output.kind}", {"large": [simple("right")]}, [simple("wrong")]),
    )
    (task,) = story.poll("a")
    flows.complete([task], {"kind": "large", "h": BIG})
    offloading.cache.clear()
    story.rest()
    assert story.open() == {"right"}


def test_the_store_is_not_read_while_runs_are_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    story = story_of_two(input={"h": BIG})
    (task,) = story.poll("a")
    flows.complete([task], {"h": BIG})
    offloading.cache.clear()
    read, inside = FileStore.get, []

    def get(self: FileStore, key: str) -> bytes | None:
        inside.append(connection.in_atomic_block)
        return read(self, key)

    monkeypatch.setattr(FileStore, "get", get)
    assert evaluation.evaluate_now([story.run]) == 1
    assert inside and not any(inside)
    assert story.open() == {"b"} and not DecideQueue.objects.filter(workflow_id=story.run).exists()


@pytest.mark.parametrize("swept", [False, True])
def test_a_workers_output_is_written_before_anything_is_locked(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, swept: bool
) -> None:
    """Once; and again if it was removed before its row was written."""
    story = story_of_two(input={"h": "small"})
    (task,) = story.poll("a")
    put, sort, inside = FileStore.put, dispatching._sort, []

    def note(self: FileStore, key: str, data: bytes) -> None:
        inside.append(connection.in_atomic_block)
        put(self, key, data)

    def sweep(*given: Any) -> Any:
        if swept:
            lose(store)
        return sort(*given)

    monkeypatch.setattr(FileStore, "put", note)
    monkeypatch.setattr(dispatching, "_sort", sweep)
    flows.complete([task], {"h": BIG})
    assert inside == ([False, True] if swept else [False])
    offloading.cache.clear()
    assert story.row("a").output == {"h": BIG}


def test_payloads_that_do_not_fit_into_the_memory_of_the_process_are_no_obstacle(monkeypatch: Any) -> None:
    monkeypatch.setattr(offloading, "cache", offloading._Cache(0))
    story = story_of_two(input={"h": BIG})
    story.end("a", {"h": BIG})
    story.end("b", {"h": BIG})
    assert story.status == "COMPLETED"


def test_a_run_fails_over_a_lost_payload_and_says_which(store: FileStore) -> None:
    story = story_of_two(input={"h": "small"})
    (task,) = story.poll("a")
    flows.complete([task], {"h": BIG})
    (key,) = objects(store)
    lose(store)
    story.rest()
    run = story.execution()
    assert run.status == "FAILED" and run.failed_refs == ["a"]
    assert run.reason.startswith("The output of the task a cannot be read.")
    assert f"sha256 {key[-64:]}" in run.reason and "in the store fs" in run.reason
    assert not DecideQueue.objects.filter(workflow_id=story.run).exists()
    assert not any(invariant_report().values())


def test_a_corrupt_payload_is_not_believed(store: FileStore) -> None:
    story = story_of_two(input={"h": "small"})
    (task,) = story.poll("a")
    flows.complete([task], {"h": BIG})
    (key,) = objects(store)
    store.put(key, b'{"h": "another"}')
    offloading.cache.clear()
    story.rest()
    assert "is not what was written in the store fs" in story.execution().reason


def test_a_failure_workflow_starts_though_the_input_is_lost(store: FileStore) -> None:
    handler = flows.register(simple("h"))
    story = story_of_two(input={"h": BIG}, failureWorkflow=handler)
    (task,) = story.poll("a")
    flows.complete([task], {"h": "small"})
    lose(store)
    story.rest()
    run = story.execution()
    assert run.status == "FAILED" and "The input of the run cannot be read" in run.reason
    failure = Execution.objects.get(id=run.failure_workflow_id)
    assert failure.name == handler and failure.input["reason"] == run.reason


def test_a_task_whose_input_is_lost_fails_and_its_neighbour_is_handed_out(store: FileStore) -> None:
    story = Story(
        *fork("f", [simple("a", name="q", inputParameters={"h": BIG})], [simple("b", name="q", inputParameters={"h": 1})])
    )
    leased = flows.lease(story.row("a").queue) + flows.lease(story.row("b").queue)
    assert len(leased) == 2
    lose(store)
    assert [task.ref for task in handing_out.open_all(leased, {})] == ["b"]
    lost = story.row("a")
    assert lost.status == "FAILED_WITH_TERMINAL_ERROR" and "in the store fs: sha256" in lost.reason


def test_a_store_that_cannot_be_reached_loses_nothing(settings: Any, store: FileStore) -> None:
    story = story_of_two(input={"h": BIG})
    there = settings.OSTINATO
    settings.OSTINATO = {**there, "OFFLOAD_DIR": there["OFFLOAD_DIR"] + "/not-mounted"}
    offloading.cache.clear()
    assert handing_out.open_all(story.poll("a"), {}) == []
    row = story.row("a")
    assert (row.status, row.callback_seconds) == ("SCHEDULED", 5)
    control.complete_task(NS, story.run, "a", "COMPLETED", {}, actor="ann")
    evaluation.evaluate_next_batch()
    request = DecideQueue.objects.get(workflow_id=story.run)
    assert request.attempts == 1 and "StoreUnavailable" in request.last_error and story.status == "RUNNING"
    with pytest.raises(StoreUnavailable, match="is the right folder mounted"):
        _ = story.execution().input
    settings.OSTINATO = there
    assert evaluation.evaluate_now([story.run]) == 1
    assert story.open() == {"b"}


def test_a_store_that_cannot_be_written_changes_nothing(settings: Any, store: FileStore, tmp_path: Path) -> None:
    story = story_of_two(input={"h": "small"})
    (task,) = story.poll("a")
    blocked = tmp_path / "a-file"
    blocked.touch()
    settings.OSTINATO = {**settings.OSTINATO, "OFFLOAD_DIR": str(blocked)}
    with pytest.raises(StoreUnavailable, match="could not be written to"):
        flows.complete([task], {"h": BIG})
    assert story.row("a").status == "IN_PROGRESS"
    runs = Execution.objects.count()
    with pytest.raises(StoreUnavailable):
        flows.start(story.name, {"h": BIG})
    assert Execution.objects.count() == runs
    settings.OSTINATO = {**settings.OSTINATO, "OFFLOAD_DIR": str(tmp_path)}
    flows.complete([task], {"h": BIG})
    story.rest()
    assert story.open() == {"b"}


def test_a_deferred_task_keeps_its_large_output() -> None:
    story = Story(simple("a"))
    (task,) = story.poll("a")
    waiting = dispatching.TaskReport(
        task.id, task.workflow_id, "IN_PROGRESS", lease_token=task.lease_token, output={"h": BIG}, callback_seconds=0
    )
    dispatching.report([waiting], strict=True)
    assert is_away("workflows_task", "output", task.id)
    (again,) = handed(story, "a")
    assert again.output == {"h": BIG}


def test_operators_work_with_what_is_away(store: FileStore) -> None:
    """Retry, rerun, restart, and an output merged into what was there."""
    story = story_of_two(input={"h": BIG})
    story.fail("a", terminal=True)
    offloading.cache.clear()
    control.retry(NS, story.run, actor="ann")
    story.rest()
    (task,) = handed(story, "a")
    assert task.input == {"given": BIG}
    flows.complete([task], {"h": BIG})
    story.rest()
    control.complete_task(NS, story.run, "b", "COMPLETED", {"h": BIG + "b"}, actor="ann")
    story.rest()
    assert story.execution().output == {"r": BIG + "b"}
    offloading.cache.clear()
    control.restart(NS, story.run, actor="ann")
    story.rest()
    (task,) = handed(story, "a")
    assert task.input == {"given": BIG}
    lose(store)
    control.terminate(NS, story.run, actor="ann")
    with pytest.raises(PayloadLost):
        control.restart(NS, story.run, actor="ann")
    assert story.status == "TERMINATED"
    control.remove(NS, story.run, actor="ann")
    assert not Offloaded.objects.exists()


def test_a_run_with_a_lost_input_still_times_out(store: FileStore) -> None:
    story = Story(simple("a"), input={"h": BIG}, timeoutSeconds=1, timeoutPolicy="TIME_OUT_WF", failureWorkflow="none")
    lose(store)
    flows.time_out()
    assert story.status == "TIMED_OUT"


def test_readers_get_the_value_or_a_clear_refusal(api: Caller, store: FileStore) -> None:
    name = flows.unique("wire")
    task = flows.simple("one", name, inputParameters={"h": "${workflow.input.h}"})
    api.empty("post", "metadata/workflow", {"name": name, "version": 1, "tasks": [task]})
    run = api.text("post", f"workflow/{name}", {"h": BIG})
    offloading.cache.clear()
    task = api.json("get", f"tasks/poll/{name}?workerid=w")
    assert task["inputData"] == {"h": BIG}
    api.text(
        "post", "tasks",
        {"taskId": task["taskId"], "workflowInstanceId": run, "status": "COMPLETED", "outputData": {"h": BIG}},
    )  # fmt: skip
    offloading.cache.clear()
    found = api.json("get", f"workflow/{run}?includeTasks=true")
    assert found["input"] == {"h": BIG} and found["tasks"][0]["outputData"] == {"h": BIG}
    assert api.json("get", f"tasks/{task['taskId']}")["outputData"] == {"h": BIG}
    (hit,) = api.json("get", f"workflow/search?query=workflowId='{run}'")["results"]
    assert json.loads(hit["input"]) == {"h": BIG}
    assert browsing.task_payload(UUID(run), UUID(task["taskId"]), "output").startswith('{\n    "h": "xxx')
    assert str(browsing.get_run(NS, UUID(run)).input_text).startswith('{\n    "h": "xxx')  # type: ignore[attr-defined]
    (shown,) = browsing.list_tasks(UUID(run))[0]
    assert str(shown.output_text).startswith('{\n    "h": "xxx')  # type: ignore[attr-defined]

    lose(store)
    refusal = api.refused("get", f"workflow/{run}", status=410)
    assert refusal["code"] == "PAYLOAD_LOST" and "sha256" in refusal["message"]
    assert not refusal["retryable"]
    (hit,) = api.json("get", f"workflow/search?query=workflowId='{run}'")["results"]
    assert "in the store fs: sha256" in hit["input"]
    assert "in the store fs: sha256" in browsing.get_run(NS, UUID(run)).input_text  # type: ignore[attr-defined]
    assert "in the store fs: sha256" in browsing.task_payload(UUID(run), UUID(task["taskId"]), "output")
    assert api.json("get", f"workflow/{run}/status")["status"] == "COMPLETED"


def test_the_admin_shows_the_value_or_why_it_cannot(client: Client, store: FileStore) -> None:
    client.force_login(User.objects.create_superuser(flows.unique("root")))
    story = Story(simple("a", inputParameters={"h": BIG}), input={"h": BIG})
    pages = [
        reverse("admin:workflows_execution_change", args=[story.run]),
        reverse("admin:workflows_task_change", args=[story.row("a").id]),
    ]
    for page in pages:
        assert BIG in client.get(page).content.decode()
    lose(store)
    for page in pages:
        answer = client.get(page)
        assert answer.status_code == 200 and "in the store fs: sha256" in answer.content.decode()


@pytest.mark.parametrize("lost", [False, True])
def test_masked_fields_are_masked_in_the_store_too(client: Client, store: FileStore, lost: bool) -> None:
    """Names of the reference's own fields do not lead to another object, nor past the mask."""
    client.force_login(User.objects.create_superuser(flows.unique("root")))
    given = {"key": "unseen-" + BIG, "store": "unseen", "open": BIG}
    story = Story(simple("a", inputParameters=given), input=given, maskedFields=["key", "store"])
    if lost:
        lose(store)
    run, task = story.execution(), story.row("a")
    shown = [
        browsing.get_run(NS, run.id).input_text,  # type: ignore[attr-defined]
        browsing.list_tasks(run.id)[0][0].input_text,  # type: ignore[attr-defined]
        browsing.task_payload(run.id, task.id, "input"),
        wire.workflow_summary(run)["input"],
        wire.task_summary(task, run)["input"],
        client.get(reverse("admin:workflows_execution_change", args=[run.id])).content.decode(),
        client.get(reverse("admin:workflows_task_change", args=[task.id])).content.decode(),
    ]
    for text in shown:
        assert "unseen" not in text
        assert ("in the store fs: sha256" in text) if lost else ("***" in text and "xxx" in text)


def test_objects_that_no_run_names_are_removed_after_an_hour(store: FileStore) -> None:
    kept = Story(simple("a"), input={"h": BIG})
    gone = Story(simple("a"), input={"h": BIG + "gone"})
    shared = Story(simple("a"), input={"h": BIG})
    assert len(objects(store)) == 2
    for story in (gone, shared):
        control.terminate(NS, story.run, actor="ann")
        control.remove(NS, story.run, actor="ann")
    rest = store.folder / "default" / "aa" / "broken-off.123"
    rest.parent.mkdir(exist_ok=True)
    rest.touch()
    assert collect() == 0 and len(objects(store)) == 3
    collect(datetime.now(UTC) + timedelta(minutes=61))
    offloading.cache.clear()
    assert len(objects(store)) == 1 and kept.execution().input == {"h": BIG}


def test_what_a_writer_leaves_that_never_commits_is_removed(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    story = story_of_two(input={"h": "small"})
    (task,) = story.poll("a")

    def crash(*_: Any) -> None:
        raise RuntimeError("the process dies between the object and the commit")

    with monkeypatch.context() as patch:
        patch.setattr(dispatching, "_keep_refusals", crash)
        with pytest.raises(RuntimeError):
            flows.complete([task], {"h": BIG})
    assert len(objects(store)) == 1 and not Offloaded.objects.exists()
    collect(datetime.now(UTC) + timedelta(minutes=61))
    assert objects(store) == []
    flows.complete([task], {"h": BIG})
    offloading.cache.clear()
    story.rest()
    assert story.open() == {"b"}


def test_pages_of_many_objects_are_walked_to_the_end(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows.services.collecting._PAGE", 2)
    runs = [Story(simple("a"), input={"h": BIG + str(i)}).run for i in range(5)]
    control.terminate(NS, runs[0], actor="ann")
    control.remove(NS, runs[0], actor="ann")
    later = datetime.now(UTC) + timedelta(minutes=61)
    while collect(later):
        pass
    assert len(objects(store)) == 4
    assert {Task.objects.get(workflow_id=run).status for run in runs[1:]} == {"SCHEDULED"}


def test_an_object_of_another_store_is_said_to_be_out_of_reach() -> None:
    story = Story(simple("a"), input={"h": BIG})
    reference = offloading.opened(stands("workflows_execution", "input", story.run))
    reference.store = "s3"
    offloading.cache.clear()
    with pytest.raises(StoreUnavailable, match="'s3' is not configured"):
        offloading.whole(reference)
    assert stores.in_use() == "fs"
