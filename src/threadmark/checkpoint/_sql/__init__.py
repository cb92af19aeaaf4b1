"""What savers on SQL databases have in common: operations as generators of effects.

The statements differ from database to database and stand together in one module for each; what is done
with them, and in which order, is written here once. Nothing here knows a database or a driver.
"""
