"""Backbones, the heads that grow, and what goes in and comes out."""

from ramify.networks.build import build_backbone, feature_backbone
from ramify.networks.heads import Heads
from ramify.networks.inputs import FeatureInputs, ImageInputs
from ramify.networks.levels import LevelMask, Targets, cross_entropy
from ramify.networks.model import Model, feature_size
from ramify.networks.resnet import ResNet

__all__ = [
    "FeatureInputs",
    "Heads",
    "ImageInputs",
    "LevelMask",
    "Model",
    "ResNet",
    "Targets",
    "build_backbone",
    "cross_entropy",
    "feature_backbone",
    "feature_size",
]
