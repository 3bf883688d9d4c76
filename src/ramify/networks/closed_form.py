"""A head in closed form: class means and one shared covariance of features (linear discriminant analysis)."""

from __future__ import annotations

import torch
from torch import Tensor


def discriminant(features: Tensor, classes: Tensor, count: int, shrinkage: float) -> tuple[Tensor, Tensor]:
    """Rows [count, f] and biases [count] whose logits are the classes' log-likelihoods up to a common term.

    The covariance is that of the features around their class's mean, shrunk towards a multiple of the
    identity. A class without features has the mean of the others' rows and biases: it is neither favoured
    nor ruled out.
    """
    features = features.double().cpu()
    classes = classes.cpu()
    sizes = torch.bincount(classes, minlength=count).double()
    means = torch.zeros(count, features.shape[1], dtype=torch.double).index_add_(0, classes, features)
    means /= sizes.clamp(min=1)[:, None]
    apart = features - means[classes]
    known = sizes > 0
    covariance = apart.T @ apart / max(1, len(features) - int(known.sum()))
    target = covariance.diagonal().mean().clamp(min=1e-12)
    covariance = (1 - shrinkage) * covariance + shrinkage * target * torch.eye(len(covariance))
    rows = torch.linalg.solve(covariance, means.T, left=True).T
    biases = -0.5 * (rows * means).sum(1)
    rows[~known], biases[~known] = rows[known].mean(0), biases[known].mean()
    return rows.float(), biases.float()
