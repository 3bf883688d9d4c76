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

    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy())
    def attempt(value: Any) -> None:
        words = refused(read, value)
        assert words is None or words.strip()

    attempt()


def test_a_crash_is_seen() -> None:
    def crash(value: int) -> None:
        if value > 100:
            raise KeyError(value)

    @settings(max_examples=200, database=None)
    @given(st.integers())
    def attempt(value: int) -> None:
        refused(crash, value)

    with pytest.raises(KeyError):
        attempt()


@pytest.mark.parametrize("name", ["checkpoint, values", "learner, values"])
@pytest.mark.parametrize("number", [-1, 2**31, 2**200])
def test_a_number_out_of_range_anywhere_in_a_state_is_no_crash(name: str, number: int) -> None:
    """Among the places are the states of random generators, which numpy turns away with an OverflowError."""
    _, read = TARGETS[name]
    for place in range(6, 14):
        refused(read, [(place, number)])
