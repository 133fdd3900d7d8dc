"""The demo: an order is reserved, paid for (at the second attempt) while it is packed, shipped, and announced."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from orchestrator.conf import conf
from workflows.services import definitions
from workflows.services.starting import start_workflow

WORKFLOW = "order_fulfilment"
PACKING = "order_packing"
OWNER = "demo@localhost"
ORDER = {
    "orderId": "A-1001",
    "customer": "ada@example.org",
    "shipping": "express",
    "items": [{"sku": "lamp", "quantity": 2, "price": 19.9}, {"sku": "bulb", "quantity": 4, "price": 3.5}],
}


def seed() -> None:
    """Register the demo's definitions (idempotent) and start one run."""
    register()
    start()


def register() -> None:
    """Register the definitions of the demo; a version that is there is brought up to date."""
    namespace = conf().DEFAULT_NAMESPACE
    definitions.register_tasks(namespace, [_task_definition(name, retries) for name, retries in _TASKS.items()])
    for definition in (_packing(), _fulfilment()):
        definitions.register(namespace, definition, overwrite=True, created_by="demo")


def start(order: dict[str, Any] | None = None) -> UUID:
    """Start a run of the demo; returns its id."""
    order = order or ORDER
    return start_workflow(WORKFLOW, order, correlation_id=str(order.get("orderId", "")) or None, created_by="demo")


_TASKS = {
    "demo_reserve_stock": 2,
    "demo_charge_payment": 3,
    "demo_pick_items": 2,
    "demo_seal_parcel": 2,
    "demo_book_courier": 2,
    "demo_print_stamp": 2,
    "demo_notify_customer": 2,
}


def _task_definition(name: str, retries: int) -> dict[str, Any]:
    return {
        "name": name,
        "ownerEmail": OWNER,
        "retryCount": retries,
        "retryLogic": "FIXED",
        "retryDelaySeconds": 1,
        "timeoutSeconds": 120,
        "responseTimeoutSeconds": 30,
        "timeoutPolicy": "RETRY",
    }


def _simple(name: str, ref: str, **inputs: Any) -> dict[str, Any]:
    return {"name": f"demo_{name}", "taskReferenceName": ref, "type": "SIMPLE", "inputParameters": inputs}


def _packing() -> dict[str, Any]:
    return {
        "name": PACKING,
        "version": 1,
        "description": "Pick the items of an order and close the parcel.",
        "ownerEmail": OWNER,
        "schemaVersion": 2,
        "inputParameters": ["orderId", "items"],
        "tasks": [
            _simple("pick_items", "pick", orderId="${workflow.input.orderId}", items="${workflow.input.items}"),
            _simple("seal_parcel", "seal", orderId="${workflow.input.orderId}", picked="${pick.output.picked}"),
        ],
        "outputParameters": {"parcel": "${seal.output.parcel}", "weight": "${seal.output.weight}"},
    }


def _fulfilment() -> dict[str, Any]:
    return {
        "name": WORKFLOW,
        "version": 1,
        "description": "Reserve the stock, take the payment while the order is packed, ship it, tell the customer.",
        "ownerEmail": OWNER,
        "schemaVersion": 2,
        "inputParameters": ["orderId", "customer", "shipping", "items"],
        "inputTemplate": ORDER,
        "timeoutSeconds": 3600,
        "timeoutPolicy": "TIME_OUT_WF",
        "tasks": [
            _simple("reserve_stock", "reserve", orderId="${workflow.input.orderId}", items="${workflow.input.items}"),
            {
                "name": "pay_and_pack",
                "taskReferenceName": "pay_and_pack",
                "type": "FORK_JOIN",
                "forkTasks": [[_payment()], [_pack()]],
            },
            {"name": "ready", "taskReferenceName": "ready", "type": "JOIN", "joinOn": ["payment", "packing"]},
            _shipping(),
            {
                "name": "let_it_travel",
                "taskReferenceName": "travel",
                "type": "WAIT",
                "inputParameters": {"duration": "4 seconds"},
            },
            _simple(
                "notify_customer", "notify", customer="${workflow.input.customer}", orderId="${workflow.input.orderId}",
                parcel="${packing.output.parcel}",
            ),
        ],
        "outputParameters": {
            "orderId": "${workflow.input.orderId}",
            "total": "${payment.output.charged}",
            "receipt": "${payment.output.receipt}",
            "parcel": "${packing.output.parcel}",
            "message": "${notify.output.message}",
        },
    }  # fmt: skip


def _payment() -> dict[str, Any]:
    return _simple(
        "charge_payment", "payment", orderId="${workflow.input.orderId}", amount="${reserve.output.total}"
    )


def _pack() -> dict[str, Any]:
    return {
        "name": "packing",
        "taskReferenceName": "packing",
        "type": "SUB_WORKFLOW",
        "subWorkflowParam": {"name": PACKING, "version": 1},
        "inputParameters": {"orderId": "${workflow.input.orderId}", "items": "${workflow.input.items}"},
    }


def _shipping() -> dict[str, Any]:
    parcel = {"orderId": "${workflow.input.orderId}", "parcel": "${packing.output.parcel}"}
    return {
        "name": "choose_shipping",
        "taskReferenceName": "shipping",
        "type": "SWITCH",
        "evaluatorType": "value-param",
        "expression": "method",
        "inputParameters": {"method": "${workflow.input.shipping}"},
        "decisionCases": {"express": [_simple("book_courier", "courier", **parcel)]},
        "defaultCase": [_simple("print_stamp", "stamp", **parcel)],
    }
