"""The admin of engine tables: readable and searchable within bounds, never editable.

Every engine row is changed by services only: nothing here adds, changes or deletes. Lists read no payload
column, count no further than a cap, and look for what has no index in the newest rows only.
"""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.forms import AdminAuthenticationForm
from django.core.paginator import Paginator
from django.db import models
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from orchestrator.addresses import origin
from orchestrator.conf import conf
from orchestrator.db.functions import JsonbPretty
from orchestrator.db.ids import parse_id
from orchestrator.errors import LockedOut, NotFound
from orchestrator.masking import NOTHING, Names, mask_text
from orchestrator.models import ApiKey, AuditEntry, Lockout
from orchestrator.services import lockouts
from orchestrator.services.lockouts import Subject

LIST_CAP = 10_000
"""Rows a list can be paged through."""
SEARCH_CAP = 100_000
"""Newest rows looked at for a condition that no index serves."""


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than the cap: a list of millions opens as fast as a short one."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return len(rows.order_by()[:LIST_CAP].values_list("pk"))


def newest(queryset: QuerySet[Any], cap: int = SEARCH_CAP) -> QuerySet[Any]:
    """The newest rows of a table keyed by time-ordered ids."""
    floor = queryset.model.objects.order_by("-pk").values_list("pk", flat=True)[cap : cap + 1].first()
    return queryset if floor is None else queryset.filter(pk__gt=floor)


class ChoiceFilter(admin.SimpleListFilter):
    """A filter over known values, so that none has to be collected from the table."""

    values: ClassVar[tuple[str, ...]] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, value.replace("_", " ").lower()) for value in self.values]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value not in self.values:
            return queryset
        return newest(queryset).filter(**{str(self.parameter_name): value})


class EngineAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Base of all: no add, no change, no delete; JSON pretty printed; search by exact ids and names."""

    paginator = CappedPaginator
    show_full_result_count = False
    list_per_page = 50
    list_max_show_all = 50
    sortable_by = ()
    ordering: ClassVar[Any] = ("-pk",)
    search_ids: ClassVar[tuple[str, ...]] = ("pk",)
    """Fields that a pasted id is looked for in."""
    search_names: ClassVar[tuple[str, ...]] = ()
    """Fields that any other text is compared with."""
    search_fields: ClassVar[Any] = ("pk",)
    own_keys: ClassVar[tuple[str, ...]] = ()
    """JSON fields whose outermost keys are the engine's, which no mask is meant for."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def operates(self, request: HttpRequest) -> bool:
        """Whether this user may press buttons: `change` of the model means that, since no form changes it."""
        return request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}")

    def masked_names(self, obj: Any) -> Names:
        """Names of fields whose values are not shown."""
        return NOTHING

    def shown_text(self, name: str, text: str | None, hidden: Names) -> str | None:
        """The text of a JSON field as it is shown."""
        return mask_text(text, hidden, inside=name in self.own_keys)

    @property
    def json_fields(self) -> list[str]:
        return [field.name for field in self.opts.local_fields if isinstance(field, models.JSONField)]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer(*self.json_fields)

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        identifier = parse_id(term)
        condition = models.Q()
        for field in self.search_ids if identifier else self.search_names:
            condition |= models.Q(**{field: identifier or term})
        return (queryset.filter(condition) if condition else queryset.none()), False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        if parse_id(object_id) is None:
            return None
        found = super().get_object(request, object_id, from_field)
        if found is not None and self.json_fields:
            pretty = {f"pretty_{name}": JsonbPretty(F(name)) for name in self.json_fields}
            texts = self.model.objects.filter(pk=found.pk).annotate(**pretty).values(*pretty).first() or {}
            hidden = self.masked_names(found)
            found.pretty = {
                name: self.shown_text(name.removeprefix("pretty_"), text, hidden) for name, text in texts.items()
            }
        return found

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        json = set(self.json_fields)
        return [f"show_{f.name}" if f.name in json else f.name for f in self.opts.local_fields]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.get_fields(request, obj)

    def __getattr__(self, name: str) -> Any:
        """`show_<field>` prints a JSON field."""
        field = name.removeprefix("show_")
        if field == name or field not in self.json_fields:
            raise AttributeError(name)

        def show(obj: Any) -> SafeString | str:
            text = getattr(obj, "pretty", {}).get(f"pretty_{field}")
            return "-" if text is None else format_html('<pre class="readonly">{}</pre>', text)

        show.short_description = field.replace("_", " ")  # type: ignore[attr-defined]
        return show


class OutcomeFilter(ChoiceFilter):
    title = "outcome"
    parameter_name = "outcome"
    values = ("done", "refused")


@admin.register(AuditEntry)
class AuditEntryAdmin(EngineAdmin):
    """Who did what to which object."""

    list_display = ("at", "actor", "action", "target", "outcome", "namespace")
    list_filter = (OutcomeFilter,)
    search_names = ("target", "actor", "action")
    search_help_text = "Id of the entry, or its target, actor or action in full"

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        # The target of most entries is an id, stored as text.
        by_target = queryset.filter(target=term)
        if by_target.exists():
            return by_target, False
        return newest(queryset).filter(models.Q(actor=term) | models.Q(action=term)), False


@admin.register(ApiKey)
class ApiKeyAdmin(EngineAdmin):
    """Who may call the API; keys are made and revoked by `manage.py api_key` or /api/keys."""

    list_display = ("name", "namespace", "permissions", "queues", "last_used_at", "expires_at", "revoked_at")
    search_names = ("name", "name__startswith", "namespace")
    search_help_text = "Id, or the beginning of a name, or a namespace"

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for name in super().get_fields(request, obj) if not name.endswith("digest")]


@admin.register(Lockout)
class LockoutAdmin(EngineAdmin):
    """Wrong credentials in their window, and who is locked out; lifting forgets both."""

    list_display = ("kind", "name", "failures", "locked_until", "ends_at")
    ordering = ("-ends_at",)
    search_names = ("kind", "name")
    search_help_text = "A kind (key, user, address), or a key's id, a user's name or an address"
    actions = ("lift_selected",)

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        term = search_term.strip()
        return (queryset.filter(models.Q(kind=term) | models.Q(name=term)) if term else queryset), False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return self.operates(request)

    @admin.action(description="Lift selected lock-outs", permissions=["operate"])
    def lift_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        count = 0
        for row in queryset:
            try:
                lockouts.lift(
                    Subject(row.kind, row.name), actor=request.user.get_username(), namespace=conf().DEFAULT_NAMESPACE
                )
            except NotFound:
                continue  # somebody else was quicker
            count += 1
        self.message_user(request, f"Lifted: {count}.", messages.SUCCESS)


class LoginForm(AdminAuthenticationForm):
    """Django's, which judges no more passwords of a name or an address that had too many wrong ones."""

    def clean(self) -> dict[str, Any]:
        name, request = self.cleaned_data.get("username"), self.request
        if not name or not self.cleaned_data.get("password") or request is None:
            return super().clean()
        address = origin(request.META.get("REMOTE_ADDR"), request.headers.get("X-Forwarded-For"))
        try:
            attempt = lockouts.begin(Subject("user", name), Subject("address", address))
        except LockedOut as error:
            minutes = ceil(error.retry_after / 60)
            raise forms.ValidationError(
                f"Too many wrong passwords for this name or from this address: try again in {minutes} min."
            ) from None
        try:
            cleaned = super().clean()
        except forms.ValidationError:
            lockouts.refuse(attempt, conf().DEFAULT_NAMESPACE)
            raise
        lockouts.forgive(attempt)
        return cleaned
