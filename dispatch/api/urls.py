"""Paths of tasks; literal segments stand before parameters."""

from __future__ import annotations

from django.urls import path

from dispatch.api import tasks
from workflows.api import executing

urlpatterns = [
    path("tasks", tasks.Update.as_view()),
    path("tasks/batch", tasks.UpdateBatch.as_view()),
    path("tasks/update-v2", tasks.UpdateV2.as_view()),
    path("tasks/search", tasks.Search.as_view()),
    path("tasks/poll/batch/<str:name>", tasks.PollBatch.as_view()),
    path("tasks/poll/<str:name>", tasks.Poll.as_view()),
    path("tasks/queue/sizes", tasks.QueueSizes.as_view()),
    path("tasks/queue/size", tasks.QueueSize.as_view()),
    path("tasks/queue/all", tasks.Queues.as_view()),
    path("tasks/queue/all/verbose", tasks.QueuesVerbose.as_view()),
    path("tasks/queue/polldata", tasks.PollData.as_view()),
    path("tasks/queue/polldata/all", tasks.AllPollData.as_view()),
    path("tasks/queue/requeue/<str:name>", tasks.Requeue.as_view()),
    path("tasks/<str:task_id>/log", tasks.Log.as_view()),
    path("tasks/<str:task_id>/heartbeat", tasks.Heartbeat.as_view()),
    path("tasks/<str:workflow_id>/<str:status>/signal", executing.Signal.as_view()),
    path("tasks/<str:workflow_id>/<str:status>/signal/sync", executing.SignalSync.as_view()),
    path("tasks/<str:workflow_id>/<str:ref>/<str:status>/sync", tasks.UpdateByRefSync.as_view()),
    path("tasks/<str:workflow_id>/<str:ref>/<str:status>", tasks.UpdateByRef.as_view()),
    path("tasks/<str:task_id>", tasks.Task.as_view()),
]
