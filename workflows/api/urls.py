"""Paths of definitions and runs; literal segments stand before parameters."""

from __future__ import annotations

from django.urls import path

from workflows.api import executing, explaining, metadata, quarantine, schedules, workflows
from workflows.api.bulk import METHODS, bulk_view

urlpatterns = [
    path("metadata/workflow", metadata.WorkflowDefinitions.as_view()),
    path("metadata/workflow/validate", metadata.ValidateDefinition.as_view()),
    path("metadata/workflow/latest-versions", metadata.LatestDefinitions.as_view()),
    path("metadata/workflow/names", metadata.DefinitionNames.as_view()),
    path("metadata/workflow/names-and-versions", metadata.DefinitionNamesAndVersions.as_view()),
    path("metadata/workflow/<str:name>", metadata.Definition.as_view()),
    path("metadata/workflow/<str:name>/versions", metadata.DefinitionVersions.as_view()),
    path("metadata/workflow/<str:name>/<int:version>", metadata.DefinitionVersion.as_view()),
    path("metadata/taskdefs", metadata.TaskDefinitions.as_view()),
    path("metadata/taskdefs/<str:name>", metadata.TaskDefinition.as_view()),
    path("scheduler/schedules", schedules.Schedules.as_view()),
    path("scheduler/schedules/search", schedules.SearchSchedules.as_view()),
    path("scheduler/schedules/<str:name>", schedules.Schedule.as_view()),
    path("scheduler/schedules/<str:name>/pause", schedules.PauseSchedule.as_view()),
    path("scheduler/schedules/<str:name>/resume", schedules.ResumeSchedule.as_view()),
    path("scheduler/nextFewSchedules", schedules.NextFewSchedules.as_view()),
    path("scheduler/search/executions", schedules.ScheduleRuns.as_view()),
    path("scheduler/bulk/pause", schedules.BulkPause.as_view()),
    path("scheduler/bulk/resume", schedules.BulkResume.as_view()),
    path("quarantine", quarantine.Quarantine.as_view()),
    path("workflow", workflows.StartByBody.as_view()),
    path("workflow/search", workflows.Search.as_view()),
    path("workflow/execute/<str:name>", executing.Execute.as_view()),
    path("workflow/execute/<str:name>/<int:version>", executing.ExecuteVersion.as_view()),
    path("workflow/test", workflows.TestRun.as_view()),
    *[path(f"workflow/bulk/{action}", bulk_view(action).as_view()) for action in METHODS],
    path("workflow/decide/<str:workflow_id>", workflows.Decide.as_view()),
    path("workflow/running/<str:name>", workflows.Running.as_view()),
    path("workflow/<str:name>/correlated", workflows.CorrelatedList.as_view()),
    path("workflow/<str:name>/correlated/<str:correlation_id>", workflows.Correlated.as_view()),
    path("workflow/<str:workflow_id>/status", workflows.Status.as_view()),
    path("workflow/<str:workflow_id>/tasks", workflows.Tasks.as_view()),
    path("workflow/<str:workflow_id>/history", workflows.History.as_view()),
    path("workflow/<str:workflow_id>/explain", explaining.Explain.as_view()),
    path("workflow/<str:workflow_id>/pause", workflows.Pause.as_view()),
    path("workflow/<str:workflow_id>/resume", workflows.Resume.as_view()),
    path("workflow/<str:workflow_id>/rerun", workflows.Rerun.as_view()),
    path("workflow/<str:workflow_id>/restart", workflows.Restart.as_view()),
    path("workflow/<str:workflow_id>/retry", workflows.Retry.as_view()),
    path("workflow/<str:workflow_id>/resetcallbacks", workflows.ResetCallbacks.as_view()),
    path("workflow/<str:workflow_id>/remove", workflows.Remove.as_view()),
    path("workflow/<str:workflow_id>/variables", workflows.Variables.as_view()),
    path("workflow/<str:workflow_id>/skiptask/<str:ref>", workflows.SkipTask.as_view()),
    path("workflow/<str:workflow_id>", workflows.Workflow.as_view()),
]
