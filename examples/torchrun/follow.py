# SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Show what the training of all replicas writes, and end with it."""

import os
import time
from pathlib import Path

NAME = f"/checkpoints/{os.environ['BACKENDAI_SESSION_ID']}"


def main() -> None:
    """Print each line once, until the training is done."""
    log, done, shown = Path(f"{NAME}.log"), Path(f"{NAME}.done"), 0
    while True:
        ended = done.exists()  # first, so that no line comes after the last look
        lines = log.read_text().splitlines() if log.exists() else []
        for line in lines[shown:]:
            print(line, flush=True)
        shown = len(lines)
        if ended:
            return
        time.sleep(0.5)


if __name__ == "__main__":
    main()
