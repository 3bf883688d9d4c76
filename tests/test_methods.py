"""Every registered method passes the shared checks, and what is each method's own."""

from __future__ import annotations

import pytest

from ramify.methods import METHODS
from ramify.methods.checks import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", sorted(METHODS))
def test_shared(name, check):
    check(METHODS[name])
