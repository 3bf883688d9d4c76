"""The door for a stream of your own: `partial_fit`, `predict`, `save`, `load`."""

from ramify.learner.labels import Label
from ramify.learner.learner import Learner
from ramify.learner.prediction import Prediction

__all__ = ["Label", "Learner", "Prediction"]
