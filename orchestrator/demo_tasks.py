"""The demo's workers: `run_worker orchestrator.demo_tasks`.

Each takes a moment, so that there is something to watch, and none has an effect outside its own output.
"""

from __future__ import annotations

import time
from typing import Any

from dispatch.worker import task
from workflows.managers.task import StartedTask

Output = dict[str, Any]


class PaymentDeclined(Exception):
    """The bank's answer to the first attempt."""


@task("demo_reserve_stock")
def reserve_stock(orderId: str, items: list[dict[str, Any]]) -> Output:
    """Reserve what was ordered and price it."""
    time.sleep(0.4)
    total = sum(item.get("quantity", 1) * item.get("price", 0) for item in items)
    return {"reserved": [item.get("sku") for item in items], "total": round(total, 2)}


@task("demo_charge_payment")
def charge_payment(started: StartedTask) -> Output:
    """Charge the card: the first attempt fails, so that its retry can be watched."""
    time.sleep(0.6)
    if started.attempt == 0:
        raise PaymentDeclined("The bank did not answer in time; it is asked again in a second.")
    return {"charged": started.input["amount"], "receipt": f"R-{started.input['orderId']}"}


@task("demo_pick_items")
def pick_items(orderId: str, items: list[dict[str, Any]]) -> Output:
    """Fetch the items from the shelves."""
    time.sleep(0.7)
    return {"picked": sum(item.get("quantity", 1) for item in items)}


@task("demo_seal_parcel")
def seal_parcel(orderId: str, picked: int) -> Output:
    """Close the parcel and weigh it."""
    time.sleep(0.5)
    return {"parcel": f"P-{orderId}", "weight": round(0.4 * picked, 1)}


@task("demo_book_courier")
def book_courier(orderId: str, parcel: str) -> Output:
    """Express: a courier comes for the parcel."""
    time.sleep(0.5)
    return {"courier": "on the way", "parcel": parcel}


@task("demo_print_stamp")
def print_stamp(orderId: str, parcel: str) -> Output:
    """Standard: the parcel goes by post."""
    time.sleep(0.5)
    return {"stamp": f"S-{orderId}", "parcel": parcel}


@task("demo_notify_customer")
def notify_customer(customer: str, orderId: str, parcel: str) -> Output:
    """Tell the customer; in the demo the message is only the output."""
    time.sleep(0.3)
    return {"message": f"{customer}: parcel {parcel} of order {orderId} has left."}
