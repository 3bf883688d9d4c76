"""A method is four choices: what to keep, what to rehearse, what to minimise, how fast to learn."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ramify.errors import RamifyError
from ramify.memory import Policy
from ramify.randomness import Generators
from ramify.rehearsal import Rehearsal
from ramify.state import Stateful
from ramify.training.objectives import CrossEntropy
from ramify.training.schedules import Rate

if TYPE_CHECKING:
    from torch import Tensor

    from ramify.methods.engine import Engine
    from ramify.methods.settings import Settings


class Answer(Stateful):
    """How the model is made ready to be asked, for methods that do more than run the network."""

    def prepare(self, engine: Engine) -> None:
        """Called before predictions."""

    def correct(self, logits: Tensor) -> Tensor:
        """Change the logits of a prediction."""
        return logits


@dataclass(frozen=True)
class Recipe:
    """The parts of one learner. The last three are for methods that need them:

    `consolidate` is called at the end of a task (such a method is not task-free), `answer` before and in
    predictions, and `told_paths` gives the learner the true class of each sample at every level.
    """

    keep: Policy
    rehearse: Rehearsal
    minimise: CrossEntropy
    rate: Rate
    consolidate: Callable[[Engine], None] | None = None
    answer: Answer | None = None
    told_paths: bool = False
    offline: bool = False  # learns only at the end, from all of the stream

    @property
    def task_free(self) -> bool:
        """Whether the method works without being told where tasks end."""
        return self.consolidate is None


Method = Callable[["Settings", Generators], Recipe]
METHODS: dict[str, Method] = {}


def method(name: str) -> Callable[[Method], Method]:
    """Register a method under a name.

    >>> @method("mine")                                               # doctest: +SKIP
    ... def mine(settings, rng):
    ...     return Recipe(keep=..., rehearse=..., minimise=..., rate=...)
    """

    def register(build: Method) -> Method:
        METHODS[name] = build
        return build

    return register


def find_method(name: str) -> Method:
    """A method by its name, or a user's own as `package.module:attribute`."""
    if name in METHODS:
        return METHODS[name]
    if ":" in name:
        module, _, attribute = name.partition(":")
        try:
            found: Method = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise RamifyError(
                f"method {name!r} cannot be imported ({error}); give package.module:name"
            ) from None
        return found
    near = difflib.get_close_matches(name, METHODS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(METHODS)}; or package.module:name"
    raise RamifyError(f"no method {name!r}; {hint}")


def build_recipe(method: Method, settings: Settings, rng: Generators) -> Recipe:
    """The parts of a method; what goes wrong in one of your own is told as such."""
    name = getattr(method, "__name__", type(method).__name__)
    try:
        recipe = method(settings, rng)
    except RamifyError:
        raise
    except Exception as error:
        raise RamifyError(f"the method {name} failed ({type(error).__name__}: {error})") from error
    if not isinstance(recipe, Recipe):
        raise RamifyError(f"the method {name} returned {type(recipe).__name__}; it must return a Recipe")
    return recipe
