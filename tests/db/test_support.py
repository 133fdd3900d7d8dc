"""The helpers of the racing tests hold what they promise."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from tests.support import Contender, race


def test_a_contender_is_seen_blocked_by_us(committed: None) -> None:
    group = Group.objects.create(name="held")
    with transaction.atomic():
        Group.objects.filter(pk=group.pk).update(name="ours")
        contender = Contender(lambda: Group.objects.filter(pk=group.pk).update(name="theirs"))
        contender.until_blocked()
        assert not contender.done
    assert contender.result() == 1
    group.refresh_from_db()
    assert group.name == "theirs"


def test_a_contender_that_does_not_block_fails_the_wait(committed: None) -> None:
    with transaction.atomic():
        Group.objects.create(name="unseen")
        contender = Contender(lambda: Group.objects.count())
        with pytest.raises(AssertionError, match="ended without blocking"):
            contender.until_blocked()


def test_a_race_returns_values_and_errors_in_order(committed: None) -> None:
    def body(number: int) -> int:
        if number == 1:
            raise ValueError(number)
        return number

    first, second, third = race(3, body)
    assert (first, third) == (0, 2)
    assert isinstance(second, ValueError)


@pytest.mark.parametrize("number", range(2))
def test_committed_rows_do_not_reach_the_next_test(committed: None, number: int) -> None:
    assert not Group.objects.exists()
    Group.objects.create(name="left behind")


def test_rolled_back_tests_see_the_migrated_schema(db: None) -> None:
    assert "django_content_type" in connection.introspection.table_names()
