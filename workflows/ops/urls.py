"""The operator's pages; mount under `/ops/`."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from workflows.ops import views

app_name = "ops"
urlpatterns = [
    path("", views.home, name="home"),
    path("<str:namespace>/", RedirectView.as_view(pattern_name="ops:executions"), name="namespace"),
    path("<str:namespace>/executions/", views.executions, name="executions"),
    path("<str:namespace>/executions/<uuid:workflow_id>/", views.execution, name="execution"),
    path("<str:namespace>/executions/<uuid:workflow_id>/actions/<slug:name>/", views.act, name="action"),
    path("<str:namespace>/executions/<uuid:workflow_id>/rerun/<uuid:task_id>/", views.rerun, name="rerun"),
    path(
        "<str:namespace>/executions/<uuid:workflow_id>/tasks/<uuid:task_id>/<slug:field>.json",
        views.task_payload,
        name="payload",
    ),
]
