"""What each known definition is given and how its run goes: its end, and each task that ran (with its count)."""

from __future__ import annotations

from typing import Any

_LOOP = {"loop": 2, "value": 2}
_SINK = {"mod": 1, "oddEven": 1, "task2Name": "task_2"}
_CHILD = {"subwf": "child", "nextSubwf": "grandchild", "param1": "p"}
INPUTS: dict[str, dict[str, Any]] = {
    "conditional_switch_task_workflow_integration_test": {"param1": "nested", "param2": "one", "finalCase": "notify"},
    "conditional_task_workflow_integration_test": {"param1": "nested", "param2": "two", "finalCase": "notify"},
    "decision_and_fork_join_integration_test": {"case": "c"},
    "decision_and_terminate_integration_test": {"case": "one"},
    "do_while_cleanup_demo": {"max_iterations": 4},
    "do_while_five_loop_over_integration_test": _LOOP,
    "do_while_high_iteration_test": {"loop": 60},
    "do_while_integration_test": _LOOP,
    "do_while_iteration_fix_test": _LOOP,
    "do_while_multiple_integration_test": {"loop": 2, "loop2": 1},
    "do_while_system_tasks": _LOOP,
    "do_while_with_decision_task": {"list": [1, 2]},
    "exclusive_join_integration_test": {"decision_1": "true", "decision_2": "true"},
    "fork_join_sub_workflow": _CHILD,
    "hierarchical_fork_join_swf": _CHILD,
    "json_jq_transform_result_integration_test": {"requestedAction": "redeliver"},
    "kitchensink": _SINK,
    "kitchenSink-ephemeralWorkflowWithEphemeralTasks": _SINK,
    "kitchenSink-ephemeralWorkflowWithStoredTasks": _SINK,
    "nested_fork_join_integration_test": {"case": "a"},
    "nested_fork_join_swf": _CHILD,
    "nested_fork_join_with_sub_workflow_integration_test": {"case": "b"},
    "simple_decision_task_integration_test": {"case": "c"},
    "simple_json_jq_transform_integration_test": {"in1": {"array": ["a"]}, "in2": {"array": ["b"]}},
    "simple_switch_task_integration_test": {"case": "c"},
    "switch_and_fork_join_integration_test": {"case": "c"},
    "switch_with_no_default_case_integration_test": {"case": "none of them"},
    "workflow-test": {"_scheduledTime": 1_000, "_executedTime": 2_000},
    "workflow_that_starts_another_workflow": {"startWorkflow": {"name": "other", "input": {}}},
    "workflow_with_sub_workflow_1_integration_test": _CHILD,
    "workflow_with_synchronous_system_task": {"param1": "p"},
}
_JOB = {"response": {"statusCode": 200, "body": {"jobId": 7, "state": "SUCCEEDED", "result": {"rows": 3}}}}
OUTPUTS: dict[str, dict[str, Any]] = {
    "http-poll-external-job": {"submit_job": _JOB, "await_job": _JOB},
    "simple_workflow_with_permissive_task_integration_test": {"t1": {"status": "FAILED_WITH_TERMINAL_ERROR"}},
    "simple_workflow_with_permissive_optional_task_integration_test": {"t1": {"status": "FAILED_WITH_TERMINAL_ERROR"}},
    "fork_join_permissive_integration_test": {"t1": {"status": "FAILED_WITH_TERMINAL_ERROR"}},
    "fork_join_sync_optional_fail_integration_test": {"branch_optional": {"status": "FAILED_WITH_TERMINAL_ERROR"}},
    "fork_join_with_no_task_retry_integration_test": {"t1": {"status": "FAILED"}},
    "workflow": {"fetch_ref": {"response": {"body": {"hostName": "h", "apiRandomDelay": "1 ms", "randomInt": 5}}}},
    "workflow_with_synchronous_system_task": {"t1": {"op": {"TEST_SAMPLE": [1]}}},
}
REFUSED: dict[str, list[str]] = {
    "sqs-test-workflow": [
        "tasks[0].sink: the sink 'sqs:conductor-test-sqs-COMPLETED' is not available: expected conductor or conductor:<name>",
    ],
}
"""Why a definition does not register; types that are not supported yet are named apart."""
NO_DEFINITIONS = frozenset(
    {"approval-event", "complete-wait-handler", "sqs-complete-wait-event-handler", "start-workflow-handler"}
)
"""Event handlers, messages and start requests."""
# A script sees the inputs of its task and nothing else, so three demonstrations that reach for more fail, as they would
# elsewhere; permissive failures are told at the end of the run; attempts follow the default of three retries.
EXPECTED: dict[str, str] = {
    "blocking_system_task_workflow_integration_test": "COMPLETED: blocking_system_task",
    "concurrency_limited_task_workflow_integration_test": "COMPLETED: test_task_with_concurrency_limit",
    "conditional_switch_task_workflow_integration_test": (
        "COMPLETED: conditional finalCase integration_task_4 nestedCondition t1"
    ),
    "conditional_task_workflow_integration_test": (
        "COMPLETED: conditional finalCase integration_task_4 nestedCondition t2"
    ),
    "decision_and_fork_join_integration_test": "COMPLETED: decisionTask forkTask joinTask t1 t10 t2 t20",
    "decision_and_terminate_integration_test": "COMPLETED: decision t1 t2 t3",
    "do_while_cleanup_demo": "FAILED: do_while_loop_ref generate_data_ref",
    "do_while_five_loop_over_integration_test": (
        "COMPLETED: integration_task_1*2 integration_task_2*2 integration_task_3 jq_add_location*2 jq_create_hydrus_input*2 "
        "lambda_locs*2 loopTask"
    ),
    "do_while_high_iteration_test": "COMPLETED: lambda_task*60 loopTask",
    "do_while_integration_test": (
        "COMPLETED: fork*2 integration_task_0*2 integration_task_1*2 integration_task_2*2 join*2 loopTask"
    ),
    "do_while_iteration_fix_test": "COMPLETED: form_uri*2 loopTask",
    "do_while_multiple_integration_test": (
        "COMPLETED: fork*2 integration_task_0*2 integration_task_1*2 integration_task_2*2 integration_task_3 join*2 "
        "loopTask loopTask2"
    ),
    "do_while_set_variable_fix": "COMPLETED: loopTask set_variable",
    "do_while_system_tasks": (
        "COMPLETED: integration_task_1 jq_add_location*2 jq_create_hydrus_input*2 lambda_locs*2 loopTask"
    ),
    "do_while_timeline_ui_demo": "FAILED: default_case_ref do_while_switch_ref switch_ref",
    "do_while_with_decision_task": "FAILED: GetNumberAtIndex LoopTask",
    "event_workflow_integration_test": "COMPLETED: t1 wait0",
    "exclusive_join_integration_test": "COMPLETED: decision1 decision2 exclusiveJoin task1 task2 task3",
    "failure_workflow_for_terminate_task_workflow": "COMPLETED: lambda0",
    "fork_join_integration_test": "COMPLETED: fanouttask fanouttask_join t1 t2 t3 t4",
    "fork_join_permissive_integration_test": "FAILED: fanouttask fanouttask_join t1 t2 t3",
    "fork_join_sub_workflow": "COMPLETED: fanouttask fanouttask_join st1 t2",
    "fork_join_sync_mode_integration_test": "COMPLETED: branch_a branch_b branch_c forkTask joinTask postJoinTask",
    "fork_join_sync_optional_fail_integration_test": (
        "COMPLETED: branch_optional branch_required forkTask joinTask postJoinTask"
    ),
    "fork_join_with_no_permissive_task_retry_integration_test": "COMPLETED: fanouttask fanouttask_join t1 t2 t3 t4",
    "fork_join_with_no_task_retry_integration_test": "FAILED: fanouttask fanouttask_join t1*4 t2",
    "fork_join_with_permissive_sub_workflow_forks_integration_test": "COMPLETED: fanouttask fanouttask_join st1 st2",
    "fulfill-order-workflow": "COMPLETED: record_fulfillment_start",
    "hierarchical_fork_join_swf": "COMPLETED: fanouttask fanouttask_join st1 t2",
    "http-poll-external-job": "COMPLETED: await_job record_artifact route_job submit_job",
    "json_jq_transform_result_integration_test": "COMPLETED: decide_1 decide_2 json_jq_1 json_jq_2",
    "kitchenSink-ephemeralWorkflowWithEphemeralTasks": (
        "COMPLETED: event_0 get_es_1 oddEvenDecision task_10001 task_100030 task_2"
    ),
    "kitchenSink-ephemeralWorkflowWithStoredTasks": "COMPLETED: event_0 get_es_1 oddEvenDecision task_1 task_2 task_30",
    "kitchensink": "COMPLETED: event_0 get_es_1 oddEvenDecision task_1 task_2 task_30",
    "nested_fork_join_integration_test": "COMPLETED: d1 fork1 fork2 join1 join2 t11 t12 t13 t14 t15 t16 t19 t20",
    "nested_fork_join_swf": "COMPLETED: inner_fork inner_join outer_fork outer_join st1 t2 t3",
    "nested_fork_join_with_sub_workflow_integration_test": (
        "COMPLETED: d1 fork1 fork2 join1 join2 sw1 t11 t12 t13 t14 t15 t17 t20b"
    ),
    "publish-internal-event-workflow": "COMPLETED: publish_order_status",
    "rate_limited_simple_task_workflow_integration_test": "COMPLETED: test_simple_task_with_rateLimits",
    "saga-order-compensation": "COMPLETED: completed_steps route_refund route_release",
    "saga-order-fulfillment": "COMPLETED: book_shipment charge_payment reserve_inventory",
    "sequential_json_jq_transform_integration_test": "COMPLETED: default_variables request_transform",
    "set_variable_workflow_integration_test": "COMPLETED: set_variable_1 simple wait0",
    "signal_sub_wf_child_integration_test": "COMPLETED: wait_in_sub_ref",
    "simple_decision_task_integration_test": "COMPLETED: decisionTask t1 t2 t20",
    "simple_json_jq_transform_integration_test": "COMPLETED: jq_1",
    "simple_lambda_workflow_integration_test": "COMPLETED: lambda0",
    "simple_set_variable_workflow_integration_test": "COMPLETED: set_variable_1",
    "simple_switch_task_integration_test": "COMPLETED: switchTask t1 t2 t20",
    "simple_wait_task_workflow_integration_test": "COMPLETED: t1 wait0",
    "simple_workflow_1_integration_test": "COMPLETED: t1 t2",
    "simple_workflow_3_integration_test": "COMPLETED: t1 t2 t3",
    "simple_workflow_with_async_complete_system_task_integration_test": "COMPLETED: t1 user_task",
    "simple_workflow_with_permissive_optional_task_integration_test": "COMPLETED: t1 t2",
    "simple_workflow_with_permissive_task_integration_test": "FAILED: t1 t2",
    "simple_workflow_with_resp_time_out_integration_test": "COMPLETED: t1 t2",
    "sub_flow_1": "COMPLETED: task_5 task_6",
    "switch_and_fork_join_integration_test": "COMPLETED: forkTask joinTask switchTask t1 t10 t2 t20",
    "switch_with_no_default_case_integration_test": "COMPLETED: switchTask t2",
    "terminate_task_completed_workflow_integration_test": "COMPLETED: lambda0 terminate0",
    "terminate_task_failed_workflow_integration": "FAILED: lambda0 terminate0",
    "terminate_task_sub_workflow": "COMPLETED: t3",
    "terminate_task_terminated_status_in_do_while_test": "TERMINATED: do_while_ref lambda_ref terminate_ref",
    "terminate_task_terminated_status_test": "TERMINATED: lambda0 terminate0",
    "test_task_failed_sub_workflow": "FAILED: lambda0 terminate0",
    "wait-for-approval-workflow": "COMPLETED: approval",
    "wait_workflow_integration_test": "COMPLETED: t1 wait0",
    "wf1": "COMPLETED: oddEvenDecision task_1 task_2 task_28 task_29 task_3 task_30",
    "wf2": "COMPLETED: forkx join task_10 task_11 task_20 task_21 task_28 task_30 task_5",
    "wmq_echo_loop": "COMPLETED: echo_payload_ref*100 message_loop_ref pull_message_ref*100",
    "workflow": "COMPLETED: fetch_ref parse_ref",
    "workflow-test": "COMPLETED: compute_report_window",
    "workflow_that_starts_another_workflow": "COMPLETED: st",
    "workflow_with_sub_workflow_1_integration_test": "COMPLETED: t1 t2",
    "workflow_with_synchronous_system_task": "COMPLETED: jsonjq t1",
}
