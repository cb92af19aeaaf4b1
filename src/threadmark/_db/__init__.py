"""How threadmark talks to databases: effects, and the drivers that perform them.

An operation is a generator that yields *effects* (a statement, many statements, a transaction) and
receives their rows. A driver performs the effects on a connection, sync or async, so each operation
is written once. Nothing here knows what is stored.
"""
