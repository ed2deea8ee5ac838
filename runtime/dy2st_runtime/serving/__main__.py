"""One worker of a server; :mod:`dy2st_runtime.serving.supervisor` starts it, with its options as a line of the input."""

from __future__ import annotations

import sys
import threading

from dy2st_runtime.serving.options import Options

FAILED = 3
"""The exit status of a worker that cannot start, and would not the next time."""


def main(arguments: list[str]) -> int:
    """Serve as one of several workers.

    Args:
        arguments: the number of the worker.

    Returns:
        The exit status.
    """
    from dy2st_runtime.errors import Dy2stError
    from dy2st_runtime.serving import server
    from dy2st_runtime.serving.logs import log

    options = Options.from_json(sys.stdin.readline())
    running = server.Running(options, slot=int(arguments[0]))

    def follow() -> None:
        sys.stdin.read()  # until whoever started this is gone
        running.stop()

    threading.Thread(target=follow, daemon=True).start()
    try:
        running.run()
    except (Dy2stError, OSError) as error:
        log("error", "cannot start", reason=str(error))
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
