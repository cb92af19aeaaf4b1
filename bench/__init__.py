"""Measures threadmark beside LangGraph: `python -m bench`. The result is written to docs/benchmarks.md."""
