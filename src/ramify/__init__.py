"""ramify: online continual learning while the labels keep branching into finer ones."""

__version__ = "0.1.0"
