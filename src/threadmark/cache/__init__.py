"""Results of nodes that outlive a run: the contract in `base`, then a module for each backend."""
