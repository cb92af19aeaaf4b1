"""The command: `python -m bench [--quick] [--peer-python PATH] [--postgres DSN] [--out FILE]`."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path

from bench.measure import OWN_ENVIRONMENT, ROOT, Side
from bench.report import HEAD, cells, document, line, table
from bench.rows import FULL, QUICK, Row, rows

MORE = {"Serializer": "bench.serde", "Store": "bench.store", "Postgres": "bench.postgres"}


def main() -> None:
    """Measure, show and write down."""
    options = arguments()
    ours = Side("threadmark", sys.executable)
    peer = Side("langgraph", options.peer_python)
    try:
        plan = QUICK if options.quick else FULL
        found: list[Row] = []
        print(line(HEAD), line(["---"] * len(HEAD)), sep="\n", flush=True)
        for row in rows(ours, peer, plan, options.postgres):
            print(line(cells(row)), flush=True)
            found.append(row)
    finally:
        ours.close()
        peer.close()
    tables = {"Runs": table(found), **more(options.quick)}
    if options.out is not None:
        options.out.write_text(document(tables, options.peer_python), encoding="utf-8")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    peer = str(OWN_ENVIRONMENT if OWN_ENVIRONMENT.exists() else sys.executable)
    parser = argparse.ArgumentParser(prog="bench", description="Measure beside LangGraph.")
    parser.add_argument("--quick", action="store_true", help="do little, to see that it works")
    parser.add_argument("--peer-python", default=peer, help="the Python that has LangGraph")
    parser.add_argument("--postgres", metavar="DSN", help="measure on this database too")
    parser.add_argument("--out", type=Path, help="the file to write")
    options = parser.parse_args()
    if options.out is None and not options.quick:
        options.out = ROOT / "docs" / "benchmarks.md"
    return options


def more(quick: bool) -> dict[str, list[str]]:
    """Return the tables of the parts that have benchmarks of their own."""
    tables = {}
    for title, name in MORE.items():
        if importlib.util.find_spec(name) is None:
            continue
        lines = importlib.import_module(name).rows(quick=quick)
        tables[title] = lines
        print("", title, "", *lines, sep="\n", flush=True)
    return tables


if __name__ == "__main__":
    main()
