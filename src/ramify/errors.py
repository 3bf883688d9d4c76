"""The one error class of the package."""


class RamifyError(Exception):
    """A mistake that the user can mend: what was found, what was expected, what to do, in one line."""
