"""Chains of steps in DBOS, from eight threads. Runs in an environment of its own."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS

URL, RUNS, STEPS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


@DBOS.step()
def step(number):
    return number


@DBOS.workflow()
def chain():
    for number in range(STEPS):
        step(number)


def run(_):
    DBOS.start_workflow(chain).get_result()


def main():
    DBOS(config={"name": "bench", "system_database_url": URL, "sys_db_pool_size": 20, "log_level": "ERROR"})
    DBOS.launch()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))
        print("ready", flush=True)
        sys.stdin.readline()
        list(pool.map(run, range(RUNS)))
        print("done", flush=True)
        sys.stdin.readline()
    os._exit(0)


if __name__ == "__main__":
    main()
