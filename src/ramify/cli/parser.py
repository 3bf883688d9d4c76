"""An argument parser whose errors are like all others: one line, exit code 2."""

from __future__ import annotations

import argparse
from typing import NoReturn

from ramify.errors import RamifyError


class Parser(argparse.ArgumentParser):
    """`argparse` without the usage text before its errors."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        raise RamifyError(f"{message}; see `{self.prog} --help`")
