VERBS = ("rename", "merge", "split", "move", "forget", "relabel", "forget_samples", "forget_source")
