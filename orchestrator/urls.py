"""All paths of the standalone project. Our own views own their transactions, so none is wrapped in one."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularSwaggerView

from orchestrator.admin import LoginForm
from orchestrator.api import keys, openapi  # noqa: F401  (registers itself)
from orchestrator.system import Health, Version

admin.site.login_form = LoginForm

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="ops:home")),
    path("admin/", admin.site.urls),
    path("ops/", include("workflows.ops.urls")),
    path("api/health", Health.as_view()),
    path("api/version", Version.as_view()),
    path("api/token", keys.Token.as_view()),
    path("api/token/userInfo", keys.UserInfo.as_view()),
    path("api/keys", keys.Keys.as_view()),
    path("api/keys/<str:key_id>", keys.Key.as_view()),
    path("api/keys/<str:key_id>/rotate", keys.RotateKey.as_view()),
    path(
        "api/docs",
        SpectacularSwaggerView.as_view(url_name="schema", authentication_classes=[], permission_classes=[]),
        name="docs",
    ),
    path("api/", include("outbox.api.urls")),
    path("api/", include("workflows.api.urls")),
    path("api/", include("dispatch.api.urls")),
]

handler400 = "orchestrator.api.bad_request"
handler404 = "orchestrator.api.not_found"
handler500 = "orchestrator.api.failed"
