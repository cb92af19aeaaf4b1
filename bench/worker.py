"""A process that does the work of one library: a request per line in, its figures per line out."""

from __future__ import annotations

import json
import logging
import sys
import warnings

from bench.workloads import WORKLOADS


def main(root: str) -> None:
    """Answer requests until the input ends."""
    warnings.simplefilter("ignore")
    logging.disable()
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints must not get between the answers
    for line in sys.stdin:
        name, folder, options = json.loads(line)
        answers.write(json.dumps(WORKLOADS[name](root, folder, **options)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
