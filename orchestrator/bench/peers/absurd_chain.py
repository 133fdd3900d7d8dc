"""Chains of steps in Absurd: one task each, a checkpoint for every step. Runs in an environment of its own."""

import multiprocessing
import os
import sys
import time

import psycopg
from absurd_sdk import Absurd
from absurdctl import BUNDLED_SCHEMA_SQL

URL, RUNS, STEPS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
QUEUE = "bench"


def client():
    absurd = Absurd(URL, queue_name=QUEUE)

    @absurd.register_task(name="chain")
    def chain(params, context):
        for number in range(params["steps"]):
            context.step(f"s{number}", lambda number=number: number)
        return {}

    return absurd


def work(go):
    absurd = client()
    go.wait()
    absurd.start_worker(worker_id=f"w{os.getpid()}", concurrency=1, batch_size=20, poll_interval=0.01)


def main():
    with psycopg.connect(URL, autocommit=True) as db:
        db.execute(BUNDLED_SCHEMA_SQL)
        absurd = client()
        absurd.create_queue(QUEUE)
        for _ in range(RUNS):
            absurd.spawn("chain", {"steps": STEPS})
        go = multiprocessing.Event()
        workers = [multiprocessing.Process(target=work, args=(go,), daemon=True) for _ in range(2)]
        for worker in workers:
            worker.start()
        time.sleep(1)
        print("ready", flush=True)
        sys.stdin.readline()
        go.set()
        left = "SELECT count(*) FROM absurd.t_bench WHERE state <> 'completed'"
        while db.execute(left).fetchone() != (0,):
            time.sleep(0.02)
        print("done", flush=True)
        sys.stdin.readline()
        for worker in workers:
            worker.kill()


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
