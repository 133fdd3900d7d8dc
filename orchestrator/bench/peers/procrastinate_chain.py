"""Chains of jobs in Procrastinate: each job defers the next one. Runs in an environment of its own."""

import asyncio
import multiprocessing
import sys
import time

import procrastinate
import psycopg

URL, RUNS, STEPS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def application():
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL, min_size=4, max_size=20))

    @app.task(name="step", queue="bench")
    async def step(number):
        if number + 1 < STEPS:
            await step.defer_async(number=number + 1)

    return app, step


async def prepare():
    app, step = application()
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await step.batch_defer_async(*({"number": 0} for _ in range(RUNS)))


def work(go):
    async def main():
        app, _ = application()
        async with app.open_async():
            go.wait()
            await app.run_worker_async(
                queues=["bench"],
                concurrency=20,
                fetch_job_polling_interval=0.05,
                delete_jobs="never",
                install_signal_handlers=False,
            )

    asyncio.run(main())


def main():
    asyncio.run(prepare())
    go = multiprocessing.Event()
    worker = multiprocessing.Process(target=work, args=(go,), daemon=True)
    worker.start()
    time.sleep(1)
    with psycopg.connect(URL, autocommit=True) as db:
        print("ready", flush=True)
        sys.stdin.readline()
        go.set()
        done = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
        while db.execute(done).fetchone() != (RUNS * STEPS,):
            time.sleep(0.02)
        print("done", flush=True)
        sys.stdin.readline()
    worker.kill()


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
