"""What a command may import: a photograph is answered in little more than torch itself takes to start."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from ramify.learner import Learner

SLOW = ("sympy", "torch._dynamo", "torch.distributed.fsdp", "scipy", "pandas", "rich", "pyarrow", "onnx")
OTHERS = ("ramify.reports", "ramify.sweeps", "ramify.bench", "ramify.datasets.download")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A learner that has learned, so that moments of its optimiser are saved."""
    images = np.random.default_rng(0).integers(0, 256, (16, 16, 16, 3), dtype=np.uint8)
    learner = Learner("er", image_size=16, network={"name": "resnet18", "width": 0.05}, batch_size=8)
    learner.partial_fit(images, ["a", "b"] * 8, 1)
    folder = tmp_path_factory.mktemp("startup")
    learner.save(folder / "model")
    Image.fromarray(images[0]).save(folder / "one.png")
    return folder, learner


def test_predict_imports_no_compiler_and_none_of_the_later_rooms(model):
    folder, _ = model
    code = (
        "import sys, gc\nfrom ramify.cli import main\n"
        f"code = main(['predict', {str(folder / 'model')!r}, {str(folder / 'one.png')!r}])\n"
        f"print([name for name in {(*SLOW, *OTHERS)!r} if name in sys.modules], code, gc.isenabled())"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1] == "[] 0 True"


def test_what_is_opened_to_be_asked_learns_on_as_before(model, tmp_path):
    folder, learner = model
    images = np.random.default_rng(1).integers(0, 256, (16, 16, 16, 3), dtype=np.uint8)
    asked = Learner.load(folder / "model")
    asked.predict(images)
    saved = Learner.load(folder / "model")
    saved.save(tmp_path / "again")  # moments that no Adam has taken over yet are saved as well
    for other in (learner, asked, saved):
        other.partial_fit(images, ["a", "c"] * 8, 1)
    again = Learner.load(tmp_path / "again").partial_fit(images, ["a", "c"] * 8, 1)
    expected = learner._trainer.model.state_dict()
    for other in (asked, saved, again):
        for name, value in other._trainer.model.state_dict().items():
            np.testing.assert_array_equal(value.numpy(), expected[name].numpy(), name)
