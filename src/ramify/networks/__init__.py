"""Backbones and the heads that grow."""

from ramify.networks.heads import Heads
from ramify.networks.model import Model, build_backbone, feature_size
from ramify.networks.resnet import ResNet

__all__ = ["Heads", "Model", "ResNet", "build_backbone", "feature_size"]
