"""Histories: whatever is done in whatever order, every text stays reachable and findable until it is purged."""

from hypothesis import HealthCheck, settings

from tests.unit.app.store.store_histories import StoreHistory

StoreHistory.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, suppress_health_check=list(HealthCheck)
)
TestHistories = StoreHistory.TestCase
