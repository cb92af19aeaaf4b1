"""Stores: what must be remembered across threads. The contract is in `base`, then a module for each kind.

An operation is checked in `checks`, embedded in `indexing`, carried out by `operations` and `searching`
over the small operations of a `Backend`, and performed in memory or on a database.
"""
