"""Augmentation, CutMix within a level, objectives and learning-rate schedules."""
