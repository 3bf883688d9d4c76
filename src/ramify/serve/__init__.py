"""A learner behind HTTP: it answers at any time, takes labelled images as they come, and loses none."""
