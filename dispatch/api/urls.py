"""Paths of tasks; literal segments stand before parameters."""

from __future__ import annotations

from django.urls import path

from dispatch.api import queues, semaphores, tasks
from workflows.api import executing

urlpatterns = [
    path("tasks", tasks.Update.as_view()),
    path("tasks/batch", tasks.UpdateBatch.as_view()),
    path("tasks/update-v2", tasks.UpdateV2.as_view()),
    path("tasks/search", tasks.Search.as_view()),
    path("tasks/search-v2", tasks.SearchWhole.as_view()),
    path("tasks/poll/batch/<str:name>", tasks.PollBatch.as_view()),
    path("tasks/poll/<str:name>", tasks.Poll.as_view()),
    path("tasks/queue/sizes", queues.QueueSizes.as_view()),
    path("tasks/queue/size", queues.QueueSize.as_view()),
    path("tasks/queue/all", queues.Queues.as_view()),
    path("tasks/queue/all/verbose", queues.QueuesVerbose.as_view()),
    path("tasks/queue/polldata", queues.PollData.as_view()),
    path("tasks/queue/polldata/all", queues.AllPollData.as_view()),
    path("tasks/queue/requeue/<str:name>", queues.Requeue.as_view()),
    path("tasks/<str:task_id>/log", tasks.Log.as_view()),
    path("tasks/<str:task_id>/heartbeat", tasks.Heartbeat.as_view()),
    path("tasks/<str:workflow_id>/<str:status>/signal", executing.Signal.as_view()),
    path("tasks/<str:workflow_id>/<str:status>/signal/sync", executing.SignalSync.as_view()),
    path("tasks/<str:workflow_id>/<str:ref>/<str:status>/sync", tasks.UpdateByRefSync.as_view()),
    path("tasks/<str:workflow_id>/<str:ref>/<str:status>", tasks.UpdateByRef.as_view()),
    path("tasks/<str:task_id>", tasks.Task.as_view()),
    path("queue/", queues.CompletionQueues.as_view()),
    path("queue/size", queues.CompletionQueueSizes.as_view()),
    path("queue/update/<str:workflow_id>/task/<str:task_id>/<str:status>", queues.EndById.as_view()),
    path("queue/update/<str:workflow_id>/<str:ref>/<str:status>", queues.EndByRef.as_view()),
    path("admin/task/<str:name>", queues.PendingTasks.as_view()),
    path("semaphores", semaphores.Semaphores.as_view()),
    path("semaphores/<str:name>", semaphores.Semaphore.as_view()),
]
