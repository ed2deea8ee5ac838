"""A server of archives by the Open Inference Protocol, version 2, over HTTP and gRPC.

It needs the packages of the extra ``serve``, which are imported when a server starts; nothing else here imports it. An archive is
data, so that loading one runs nothing of it, and a request reaches nothing but the tensors that its program takes.
"""

from __future__ import annotations

import importlib.util

from dy2st_runtime.errors import ServingError
from dy2st_runtime.serving.options import Options

PACKAGES = {"starlette": "starlette", "uvicorn": "uvicorn", "grpc": "grpcio", "google.protobuf": "protobuf"}
"""What a server needs, by what is imported."""

__all__ = ["Options", "run"]


def run(options: Options) -> int:
    """Serve until the process is told to end by SIGTERM or SIGINT; what runs then is finished.

    Args:
        options: what to serve, and where.

    Returns:
        The exit status: 0 unless a worker could not be kept running.

    Raises:
        ServingError: a package is missing, an address is taken, or a model that is named cannot be loaded.

    Example:
        >>> run(Options())
        Traceback (most recent call last):
        dy2st_runtime.errors.ServingError: there is nothing to serve: name an archive, or a repository
        See docs/errors.md#servingerror
    """
    for module, package in PACKAGES.items():
        if not _is_there(module):
            raise ServingError(f"a server needs {package}: pip install 'dy2st[serve]'")
    from dy2st_runtime.serving import server, supervisor  # what they import is optional

    return server.run(options) if options.workers == 1 else supervisor.supervise(options)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
