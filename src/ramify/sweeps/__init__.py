"""Many runs: a study, and the engines that run it."""

from ramify.sweeps.study import Study, StudyRun
from ramify.sweeps.sweep import sweep
from ramify.sweeps.work import How

__all__ = ["How", "Study", "StudyRun", "sweep"]
