"""Checkpoints: the saver contract in `base`, then a module or folder for each backend."""
