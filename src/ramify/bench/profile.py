"""Where the time of an update goes, part by part, beside the same parts of the bare loop."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from time import thread_time
from typing import Any

from ramify.bench.table import paper, small
from ramify.bench.workload import BareLoop, MidStream, Workload

METHODS = ("er", "clib", "fms", "pl-fms", "canopy")
NETWORKS = {"ResNet18 × ½": small, "ResNet34, the paper's settings": paper}
PARTS = (
    *("gather", "augment", "normalise", "CutMix", "forward", "loss", "backward", "step"),
    *("keep", "votes", "importance", "answers", "rest"),
)


class Clock:
    """Seconds of this thread's processor under the name of the innermost part at work."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._parts = ["rest"]
        self._closed = False  # the innermost part has all that it asks of others
        self._since = thread_time()

    def _turn(self) -> None:
        now = thread_time()
        self.spent[self._parts[-1]] += now - self._since  # type: ignore[assignment]
        self._since = now

    def begin(self) -> None:
        """Count from now."""
        self._turn()
        self.spent.clear()

    def end(self, count: int) -> dict[str, float]:
        """Seconds of each part since `begin`, over `count`."""
        self._turn()
        return {part: seconds / count for part, seconds in self.spent.items()}

    def watch(self, part: str, owner: Any, *methods: str, whole: bool = False) -> None:
        """Count the time in these methods of an object for `part`; nothing where it has none of the name.

        What a method asks of another that is watched counts for the other, unless it is counted as a `whole`.
        """
        for name in methods:
            if getattr(owner, name, None) is not None:
                object.__setattr__(owner, name, self._timed(part, getattr(owner, name), whole))

    def _timed(self, part: str, call: Callable[..., Any], whole: bool) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if self._closed:
                return call(*args, **kwargs)
            self._turn()
            self._parts.append(part)
            self._closed = whole
            try:
                return call(*args, **kwargs)
            finally:
                self._closed = False
                self._turn()
                self._parts.pop()

        return run


def watch_method(clock: Clock, stream: MidStream) -> None:
    """Tell the parts of a method apart."""
    trainer = stream.trainer
    recipe = trainer.recipe
    keep = recipe.keep
    clock.watch("gather", trainer, "_take")  # the making of samples
    clock.watch("rest", trainer, "_arrive", "update")
    clock.watch("gather", trainer.ahead, "batches")
    clock.watch("augment", trainer.augment, "draw", "apply")
    clock.watch("normalise", trainer.inputs, "ready")
    clock.watch("CutMix", trainer.mix, "draw", "paste")
    clock.watch("forward", trainer.model, "forward", "remember_statistics", "set_training")
    clock.watch("loss", recipe.minimise, "loss")
    clock.watch("backward", recipe.minimise, "differentiate")
    clock.watch("step", trainer.optimizer, "step")
    clock.watch("step", recipe.rate, "value", "learned")
    clock.watch("keep", keep, "arrive", "settle", "learned")
    clock.watch("votes", getattr(keep, "votes", None), "see", "forget", "related")
    clock.watch("importance", getattr(keep, "importance", None), "learned", "admit", "mark", "decrease")
    clock.watch("importance", trainer, "examine", whole=True)
    clock.watch("answers", recipe.answer, "learned")
    clock.watch("answers", trainer.average, "learned")


Profile = dict[str, dict[str, float]]  # loop -> part -> seconds an update


def profile_update(work: Workload, blocks: int = 15, block: int = 24) -> Profile:
    """Median seconds of each part of an update, of the method and of the bare loop, in turn."""
    stream, bare = work.mid_stream(), BareLoop(work)
    ours, theirs = Clock(), Clock()
    watch_method(ours, stream)
    for part in ("forward", "loss", "backward", "step"):
        theirs.watch(part, bare, part)
    found: dict[str, list[dict[str, float]]] = {work.method: [], "bare": []}
    for _ in range(1 + blocks):  # the first is warm-up
        before = stream.trainer.updates
        ours.begin()
        stream.updates(block)
        found[work.method].append(ours.end(stream.trainer.updates - before))
        theirs.begin()
        bare(block)
        found["bare"].append(theirs.end(block))
    return {loop: _medians(spent[1:]) for loop, spent in found.items()}


def _medians(blocks: list[dict[str, float]]) -> dict[str, float]:
    spent = {part: statistics.median(block.get(part, 0.0) for block in blocks) for part in PARTS}
    return spent | {"together": statistics.median(sum(block.values()) for block in blocks)}


def profile_network(network: str, blocks: int = 15, block: int = 24) -> Profile:
    """The methods of `METHODS` on one of `NETWORKS`; the bare loop is the one beside the first of them."""
    found: Profile = {}
    for method in METHODS:
        found = profile_update(NETWORKS[network](method), blocks, block) | found
    return found


def profile_table(network: str, profile: Profile) -> str:
    """As Markdown, milliseconds an update."""
    loops = ["bare", *(method for method in METHODS if method in profile)]
    rows = [f"| {network}, ms an update | {' | '.join(loops)} |", "|---" * (1 + len(loops)) + "|"]
    for part in (*PARTS, "together"):
        spent = [1e3 * profile[loop][part] for loop in loops]
        if any(spent):
            rows.append(f"| {part} | {' | '.join(f'{ms:.2f}' if ms else '' for ms in spent)} |")
    return "\n".join(rows)
