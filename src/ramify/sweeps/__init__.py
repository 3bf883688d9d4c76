"""Many runs: a study, and the engines that run it."""

from ramify.sweeps.jobs import How
from ramify.sweeps.study import Study, StudyRun
from ramify.sweeps.sweep import sweep

__all__ = ["How", "Study", "StudyRun", "sweep"]
