"""A learner's network as a file for serving, compared with the learner before it is written."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ramify.arrays import Singles
from ramify.errors import RamifyError
from ramify.files import beside
from ramify.methods import Trainer
from ramify.networks.encoder import EncodedInputs
from ramify.networks.inputs import ImageInputs, channels
from ramify.networks.resnet import ResNet

TOLERANCE = 1e-4  # of a probability
BATCHES = (2, 5)  # sizes that are compared; the batch size of the file is free
Outputs = list[Singles]


class Served(nn.Module):
    """uint8 images [n, 3, size, size] → the probabilities of each level's classes, coarsest level first.

    Features [n, size] in the place of images where the learner takes these.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, trainer: Trainer) -> None:
        super().__init__()
        self.model = copy.deepcopy(trainer.model).cpu().eval()
        self.model.load_state_dict(trainer.weights())
        self.model.precision = "fp32"
        inputs = trainer.inputs
        self.encoder: nn.Module | None = None
        if isinstance(inputs, EncodedInputs):
            self.encoder, self.dtype = copy.deepcopy(inputs.encoder.module).cpu(), inputs.dtype
            inputs = inputs.encoder.inputs
        self.takes = "images" if isinstance(inputs, ImageInputs) else "features"
        if isinstance(inputs, ImageInputs):
            for name in ("mean", "std"):  # of its own: what is made while an exporter traces must not be kept
                self.register_buffer(name, channels(getattr(inputs, name), torch.device("cpu")).clone())
        self.shape, self.given = inputs.shape, inputs.dtype
        self.rows = [torch.from_numpy(trainer.classes.of_level(h)) for h in trainer.classes.levels]

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Probabilities of each level, [n, classes of the level]."""
        values = images.float()
        if self.takes == "images":
            values = values.sub(self.mean).div(self.std)
        if self.encoder is not None:
            values = self.encoder(values).flatten(1).to(self.dtype).float()  # rounded as it is kept
        logits = self.model(values)[1]
        return tuple(logits[:, rows].softmax(1) for rows in self.rows)


@dataclass(frozen=True)
class Frozen:
    """The network as it is now, its labels by level, and what it answers to a few made-up images."""

    served: Served
    labels: str
    batches: list[Tensor]
    answers: list[list[Tensor]]

    @classmethod
    def of(cls, trainer: Trainer) -> Frozen:
        """A copy of an trainer that stands still."""
        trainer.prepare()
        served, classes = Served(trainer), trainer.classes
        labels = {f"level{h}": [classes.labels[c] for c in classes.of_level(h)] for h in classes.levels}
        draws = np.random.default_rng(0)
        shapes = ((n, *served.shape) for n in BATCHES)
        values = [torch.from_numpy(draws.integers(0, 256, shape, dtype=np.uint8)) for shape in shapes]
        batches = [v if served.given == torch.uint8 else (v / 255).to(served.given) for v in values]
        logits = [trainer.logits(images).float().cpu() for images in batches]
        answers = [[values[:, rows].softmax(1) for rows in served.rows] for values in logits]
        return cls(served, json.dumps(labels), batches, answers)

    def write(self, path: Path) -> None:
        """Write `path`, .onnx or .pt2, if it answers as the learner does."""
        kinds = {".onnx": _onnx, ".pt2": _torch}
        if path.suffix not in kinds:
            raise RamifyError(
                f"{path}: the name must end in .onnx (ONNX), .pt2 (torch.export) or .safetensors (weights)"
            )
        with beside(path) as temporary, _quiet():
            run = kinds[path.suffix](self.served, self.batches[0], self.labels, temporary)
            for images, answers in zip(self.batches, self.answers, strict=True):
                for wanted, found in zip(answers, run(images), strict=True):
                    away = float(np.abs(wanted.numpy() - found).max())
                    if not away <= TOLERANCE:
                        raise RamifyError(
                            f"{path}: the exported network answers otherwise, by {away:.2g}: not written"
                        )


def write_backbone(trainer: Trainer, path: Path) -> None:
    """The backbone's weights, as `--network.weights` takes them; ResNets in the usual layout, untrimmed."""
    if not isinstance(trainer.inputs, ImageInputs):
        raise RamifyError(
            f"{path}: the network is frozen, or there is none: its weights are those that it began with"
        )
    trainer.prepare()
    model = copy.deepcopy(trainer.model).cpu()
    model.load_state_dict(trainer.weights())
    backbone = model.backbone
    weights = backbone.to_standard() if isinstance(backbone, ResNet) else backbone.state_dict()
    with beside(path) as temporary:
        save_file({name: value.clone().contiguous() for name, value in weights.items()}, temporary)


def _traced(served: Served, images: Tensor) -> torch.export.ExportedProgram:
    with torch.no_grad():
        return torch.export.export(served, (images,), dynamic_shapes=({0: torch.export.Dim("n")},))


def _torch(served: Served, images: Tensor, labels: str, path: Path) -> Callable[[Tensor], Outputs]:
    with path.open("wb") as file:
        torch.export.save(_traced(served, images), file, extra_files={"labels.json": labels})
    with path.open("rb") as file:
        loaded = torch.export.load(file).module()
    return lambda batch: [found.detach().numpy() for found in loaded(batch)]


def _onnx(served: Served, images: Tensor, labels: str, path: Path) -> Callable[[Tensor], Outputs]:
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  (torch's exporter needs it)
    except ImportError as error:
        raise RamifyError(f"{error.name} is not installed; pip install 'ramify[onnx]'") from None
    names = list(json.loads(labels))
    with torch.no_grad():
        program = torch.onnx.export(
            _traced(served, images),
            input_names=[served.takes],
            output_names=names,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    model.metadata_props.append(onnx.StringStringEntryProto(key="labels", value=labels))
    path.write_bytes(model.SerializeToString())
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda batch: list(session.run(None, {served.takes: batch.numpy()}))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporters' remarks from the user."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
