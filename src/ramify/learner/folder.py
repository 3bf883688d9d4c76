"""The folder of a model that is being taught."""

from __future__ import annotations

from ramify.errors import RamifyError
from ramify.runs.folder import RunFolder


class ModelFolder(RunFolder):
    """It may hold nothing yet, so it is the process's lock alone that makes it the same folder."""

    def check_present(self) -> None:
        """Refuse to save where the folder was removed or moved while the model was taught."""
        if not self._still_ours():
            raise RamifyError(
                f"{self.path} was removed or moved while the model was taught; what was not saved is lost"
            )

    def clean(self) -> None:
        """Remove what killed processes left half-written; the folder must be locked."""
        for path in self.path.glob(".learner.safetensors.*"):
            path.unlink(missing_ok=True)
