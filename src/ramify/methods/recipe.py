"""A method is a few choices: what to keep, rehearse and minimise, how fast to learn, how to answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from ramify.errors import RamifyError
from ramify.hierarchy import Ties, found_tree
from ramify.memory import Batch, Forward, Policy, Workbench
from ramify.memory.workbench import Weights
from ramify.methods.settings import Settings, field_name
from ramify.named import blamed, find_named
from ramify.networks import FeatureInputs, Targets
from ramify.randomness import Generators
from ramify.rehearsal import Rehearsal
from ramify.state import Stateful
from ramify.training.objectives import CrossEntropy
from ramify.training.rates import Rate

if TYPE_CHECKING:
    from ramify.methods.trainer import Trainer


class Answer(Stateful):
    """How to answer: with the network as it is."""

    @property
    def begun(self) -> bool:
        """Whether long training for it is on its way, to be gone on with."""
        return False

    def learned(self, bench: Workbench, forward: Forward) -> None:
        """An update has been made."""

    def weights(self, trainer: Trainer) -> Weights:
        """The parameters with which the model is to be asked, where they are not the trained ones."""
        return trainer.averaged()

    def ties(self, trainer: Trainer) -> Ties:
        """The tree that the learner has found."""
        return found_tree(trainer)


Augmentation = Callable[[Workbench, Batch], Tensor]
Mixing = Callable[[Workbench, Batch, Tensor, Targets], tuple[Tensor, Targets]]


@dataclass(frozen=True)
class Recipe:
    """The parts of one learner. The last ones are for methods that need them.

    `augment` and `mix` are those of the settings unless the method has its own; with `ripe`, AutoAugment and
    CutMix change a stored image in full half of the time when it was rehearsed so often, and a new one not at
    all (`Spread` counts it). `features` makes what the heads are given from the backbone. `consolidate` is
    called at the end of a task. `memory_size` is for a method that keeps some samples elsewhere, or none.
    """

    keep: Policy
    rehearse: Rehearsal
    minimise: CrossEntropy
    rate: Rate
    answer: Answer = field(default_factory=Answer)
    augment: Augmentation | None = None
    mix: Mixing | None = None
    ripe: float = 0.0
    features: Callable[[nn.Module, FeatureInputs], nn.Module] | None = None
    consolidate: Callable[[Trainer], None] | None = None
    memory_size: int | None = None

    def parts(self) -> dict[str, Stateful]:
        """Those that may change while they learn, by name."""
        return {name: part for name, part in vars(self).items() if isinstance(part, Stateful)}


Build = Callable[[Settings, Generators], Recipe]


@dataclass(frozen=True)
class Method:
    """A registered method: how its recipe is built, and what can be said of it without building one."""

    name: str
    build: Build
    settings: Mapping[str, type[Any]] = field(default_factory=dict)
    """Tables of settings that it adds, by name."""
    task_free: bool = True
    """Whether it works without being told where tasks end."""
    told_paths: bool = False
    """Whether it is given the true class of each sample at every level."""
    offline: bool = False
    """Whether it learns only at the end, from all of the stream."""
    keeps_stream: bool = False
    """Whether its memory holds the whole stream; a run makes it large enough."""
    closed_form: bool = False
    """Whether it learns from sums over features, without updates by gradient."""
    bound: Literal["floor", "ceiling"] | None = None
    """What others are held against: those below a floor have gained nothing by what they cost."""
    trains_when_asked: bool = False
    decode: str = "heads"
    """How its answers are read unless told otherwise (`ramify.hierarchy`)."""
    average: float = 0.0
    """Share of the past in the averaged weights that answer unless told otherwise; 0: the trained ones do."""
    memory_epochs: Literal["never", "task ends", "answers"] = "never"
    """When it trains for many epochs on the whole of memory."""

    def __call__(self, settings: Settings, rng: Generators) -> Recipe:
        """The parts of a learner; what goes wrong in one of your own is told as such."""
        with blamed(f"the method {self.name}"):
            recipe: object = self.build(settings, rng)
        if not isinstance(recipe, Recipe):
            found = type(recipe).__name__
            raise RamifyError(f"the method {self.name} returned {found}; it must return a Recipe")
        return recipe


METHODS: dict[str, Method] = {}


def method(
    name: str, settings: type[Any] | Mapping[str, type[Any]] | None = None, **facts: Any
) -> Callable[[Build], Method]:
    """Register a method under a name; see `Method` for the facts that can be told of it.

    `settings`: a frozen dataclass with the method's own settings (`--mine.alpha 0.3` on the command line,
    `settings[MineSettings].alpha` in the code), or several by the names of their tables.

    >>> @method("mine")                                               # doctest: +SKIP
    ... def mine(settings, rng):
    ...     return Recipe(keep=..., rehearse=..., minimise=..., rate=...)
    """
    groups = {field_name(name): settings} if isinstance(settings, type) else dict(settings or {})

    def register(build: Build) -> Method:
        known = METHODS.get(name)
        if known is not None and known.build.__module__.startswith("ramify."):
            raise RamifyError(f"the method {name!r} is ramify's own: give yours another name")
        METHODS[name] = Method(name, build, groups, **facts)
        return METHODS[name]

    return register


def as_method(found: Any) -> Method:
    """A method as it is, or a plain function of settings and generators as one."""
    if isinstance(found, Method):
        return found
    return Method(str(getattr(found, "__name__", type(found).__name__)), found)


def find_method(name: str) -> Method:
    """A method by its name, or a user's own as `package.module:attribute`."""
    return as_method(find_named(name, METHODS, "method"))
