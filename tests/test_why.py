"""What a run says of its worst mistakes: the stored training images that are nearest, by brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ramify.datasets import load_dataset
from ramify.reports.data import load_run
from ramify.runs.folder import RunFolder
from ramify.runs.run import Run
from tiny_runs import tiny


@pytest.mark.parametrize("method", ["er", "gdumb", "bic"])
def test_the_nearest_are_those_of_a_look_at_all_that_is_stored(method: str, tmp_path: Path) -> None:
    config = tiny(method)
    run = Run(config, load_dataset("garden", image_size=config.image_size), "cpu")
    folder = RunFolder(tmp_path / "run")
    with folder.locked():
        folder.begin(run, None, {})
        result = run.go(folder)
    answers = load_run(tmp_path / "run").answers
    trainer, train, test = run.trainer, run.dataset.train, run.dataset.test
    assert len(answers.nearest) > 3
    if method == "er":  # what the report wants is no cost of the method's
        assert result.images_memory == trainer.memory.size  # looked at once, for the tree
        assert result.images_evaluation == sum(
            len(test) if record.task_end else config.eval_images or len(test) for record in run.records
        )

    def features(images: np.ndarray) -> torch.Tensor:
        return torch.nn.functional.normalize(
            trainer.embed(torch.from_numpy(images), trainer.answering)[0].double()
        )

    memory = trainer.memory
    samples = memory["sample"][: memory.size]
    labels = run.stream.label[samples]
    stored = train.images[run.stream.image[samples]]
    assert np.array_equal(memory.batch(np.arange(memory.size)).inputs.numpy(), stored)
    for image, found in answers.nearest.items():
        assert (answers.predictions[image] != answers.truth[image]).any()
        assert len(found) == 3
        likeness = (features(stored) @ features(test.images[[image]])[0]).numpy()
        own = (features(train.images[found[:, 0]]) @ features(test.images[[image]])[0]).numpy()
        np.testing.assert_allclose(own, np.sort(likeness)[::-1][:3], atol=1e-5)
        for number, level, label in found:
            taught = run.stream.image[samples] == number
            assert (run.stream.level[samples][taught] == level).any()
            assert (labels[taught] == label).any()


def test_a_method_without_memory_says_nothing(tmp_path: Path) -> None:
    config = tiny("naive")
    run = Run(config, load_dataset("garden", image_size=config.image_size), "cpu")
    folder = RunFolder(tmp_path / "run")
    with folder.locked():
        folder.begin(run, None, {})
        run.go(folder)
    answers = load_run(tmp_path / "run").answers
    assert answers.nearest
    assert not any(len(found) for found in answers.nearest.values())
