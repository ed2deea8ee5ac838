"""What a server is told when it starts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Options:
    """What a server is told when it starts.

    Attributes:
        models: archives, or folders with one for each version, by the names of models.
        repository: a folder of models that clients may load and unload by name.
        host: the address to listen at.
        port: of HTTP; 0 for any that is free.
        grpc_port: of gRPC; 0 for any that is free, ``None`` for no gRPC.
        workers: how many processes.
        threads: how many calls of a model run at once in a process.
        torch_threads: threads of PyTorch inside of a call; ``None`` to leave it as it is.
        max_batch: how many calls of a model, of one example each, run together in one thread; 1 for each by itself.
        max_wait: how long the first of these waits for others, in seconds.
        queue: how many calls of a model wait at most.
        timeout: the most seconds that a request may take, unless it asks for less; ``None`` for any number.
        max_body: the most bytes of the body of a request.
        max_held: the most bytes of bodies of HTTP in memory at once.
        max_steps: the most iterations of loops in one call; ``None`` for any number.
        receive_timeout: the most seconds in which head and body of a request must have come.
        drain_timeout: the most seconds to wait for what still runs when the server ends.
        max_connections: the most connections of HTTP, and the most calls of gRPC, at once.
        poll: how often files are looked at for changes, in seconds; 0 for never.
        control: whether clients may load and unload models; ``None`` for yes if only this machine, or who knows the key, can.
        api_key: what clients must know; ``None`` for nothing.
        tls_cert, tls_key: files with the certificate and its key, in PEM.
        tls_client_ca: a file with who may sign the certificates of clients; ``None`` for clients without.
        require_signature: a file with the public key that archives must be signed with; ``None`` for any archive.
        backend: the executor; see :func:`dy2st_runtime.load`.
        namespaces: of operators; see there.
        log_requests: whether each request is logged, not only those that fail here.
        tracing: whether requests become spans of OpenTelemetry.
        shared: a folder in which the workers of a server tell each other; made by the server.
    """

    models: Mapping[str, str] = dataclasses.field(default_factory=dict)
    repository: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = 8001
    workers: int = 1
    threads: int = 1
    torch_threads: int | None = None
    max_batch: int = 1
    max_wait: float = 0.0
    queue: int = 256
    timeout: float | None = None
    max_body: int = 64 << 20
    max_held: int = 1 << 30
    max_steps: int | None = None
    receive_timeout: float = 30.0
    drain_timeout: float = 30.0
    max_connections: int = 4096
    poll: float = 1.0
    control: bool | None = None
    api_key: str | None = dataclasses.field(default=None, repr=False)
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    require_signature: str | None = None
    backend: str | None = None
    namespaces: tuple[str, ...] = ()
    log_requests: bool = False
    tracing: bool = False
    shared: str | None = None

    @property
    def allows_control(self) -> bool:
        """Whether clients may load and unload models."""
        return self.control if self.control is not None else self.api_key is not None or self.is_local

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def to_json(self) -> str:
        """Return it as text, for another process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Return what :meth:`to_json` wrote.

        Example:
            >>> Options.from_json(Options(port=0, namespaces=("torchvision",)).to_json()).namespaces
            ('torchvision',)
        """
        table: dict[str, Any] = json.loads(text)
        return cls(**table | {"namespaces": tuple(table["namespaces"])})
