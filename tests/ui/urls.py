"""The pages alone, for a tree in which the project's own URLs are not composed yet."""
from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("ops/", include("workflows.ops.urls"))]
