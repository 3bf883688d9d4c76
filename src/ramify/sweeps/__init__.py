"""Many runs: a study, and the engines that run it."""

from ramify.sweeps.study import Study, StudyRun

__all__ = ["Study", "StudyRun"]
