"""Made-up input for every reader is read or refused, never a crash. `tools/fuzz.py` does it for longer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzzing import TARGETS, refused

EXAMPLES = 30


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_refuses_or_reads(name: str) -> None:
    strategy, read = TARGETS[name]

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy())
    def attempt(value: Any) -> None:
        words = refused(read, value)
        assert words is None or words.strip()

    attempt()


def test_a_crash_is_seen() -> None:
    def crash(value: int) -> None:
        if value > 100:
            raise KeyError(value)

    @settings(max_examples=200, deadline=None, database=None)
    @given(st.integers())
    def attempt(value: int) -> None:
        refused(crash, value)

    with pytest.raises(KeyError):
        attempt()


@pytest.mark.parametrize("place", range(16))
def test_a_negative_number_anywhere_at_the_head_of_a_checkpoint_is_no_crash(place: int) -> None:
    """Among them the states of random generators, which numpy turns away with an OverflowError."""
    _, read = TARGETS["checkpoint, values"]
    refused(read, [(place, -1)])
