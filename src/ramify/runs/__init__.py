"""One run: config, the loop, checkpoints, records on disk."""

from ramify.runs.config import Config
from ramify.runs.execute import run_config
from ramify.signals import Stopped

__all__ = ["Config", "Stopped", "run_config"]
