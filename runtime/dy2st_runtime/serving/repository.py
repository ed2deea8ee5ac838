"""The models of a server by name and version: found in folders, loaded, replaced when their files change, unloaded."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from dy2st_runtime.archive.archive import FORWARD
from dy2st_runtime.errors import Dy2stError, ServingError
from dy2st_runtime.serving.logs import log
from dy2st_runtime.serving.model import Stamp, Version, stamp_of
from dy2st_runtime.serving.options import Options
from dy2st_runtime.serving.protocol.failures import BadRequestError, NotFoundError, UnavailableError

SUFFIX = ".dy2st"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}")
_VERSION = re.compile(r"[1-9][0-9]{0,17}")


@dataclasses.dataclass(frozen=True)
class Found:
    """What a request is for.

    Attributes:
        name: as the client says it.
        number: of the version.
        version: the loaded archive.
        method: which of its methods.
    """

    name: str
    number: str
    version: Version
    method: str


class Entry:
    """A model that is known, loaded or not.

    Attributes:
        name: of the model.
        source: its archive, or the folder with one for each version.
        versions: those that are loaded, by their numbers; replaced as a whole.
        reasons: why a version is not there, or not the one of the file.
        wanted: whether it is to be loaded.
    """

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source
        self.versions: Mapping[str, Version] = {}
        self.reasons: dict[str, str] = {}
        self.wanted = False
        self.seen: dict[str, Stamp] = {}
        self.failed: dict[str, Stamp] = {}

    def newest(self) -> str | None:
        """Return the highest number of a version that is loaded."""
        return max(self.versions, key=int, default=None)


def archives_of(source: str) -> dict[str, str]:
    """Return the archives of a model by version: a file is version 1, a folder holds ``2.dy2st`` or ``2/model.dy2st``.

    A folder with ``model.dy2st`` and no other version has version 1 in it.

    Args:
        source: the file or folder; without such files there are none.
    """
    if not os.path.isdir(source):
        return {"1": source} if os.path.isfile(source) else {}
    result = dict[str, str]()
    for entry in os.listdir(source):
        inner = os.path.join(source, entry)
        number = entry.removesuffix(SUFFIX)
        path = inner if entry.endswith(SUFFIX) else os.path.join(inner, "model" + SUFFIX)
        if _VERSION.fullmatch(number) and os.path.isfile(path):
            result[number] = path
    alone = os.path.join(source, "model" + SUFFIX)
    return result or ({"1": alone} if os.path.isfile(alone) else {})


def models_in(folder: str) -> dict[str, str]:
    """Return the models in a folder: ``name.dy2st``, or folders with versions, by their names.

    Raises:
        ServingError: it is no folder.
    """
    try:
        entries = sorted(os.listdir(folder))
    except OSError as error:
        raise ServingError(f"cannot look for models in {folder}: {error.strerror}") from None
    result = dict[str, str]()
    for entry in entries:
        path, name = os.path.join(folder, entry), entry.removesuffix(SUFFIX)
        is_model = entry.endswith(SUFFIX) if os.path.isfile(path) else bool(archives_of(path))
        if is_model and _NAME.fullmatch(name):
            result.setdefault(name, path)
    return result


class Repository:
    """All models of a server.

    Args:
        options: of the server.
        changed: called with a model's name and ``"loaded"``, ``"failed"`` or ``"unloaded"`` where that has happened.

    Raises:
        ServingError: a name is none, or there is nothing to serve.
    """

    def __init__(self, options: Options, changed: Callable[[str, str], None] = lambda name, what: None) -> None:
        self.options, self._changed = options, changed
        self._lock = threading.RLock()  # held while models come and go, not while they are found
        self._looking = threading.Lock()
        self._entries: Mapping[str, Entry] = {}
        self._closing: list[threading.Thread] = []
        for name, source in options.models.items():
            if not _NAME.fullmatch(name):
                raise ServingError(
                    f"{name!r} cannot be the name of a model: it has letters, digits, '_', '-', '.', and no sign first"
                )
            self._entries = {**self._entries, name: Entry(name, source)}
        if not options.models and options.repository is None:
            raise ServingError("there is nothing to serve: name an archive, or a repository")

    def load_all(self) -> None:
        """Load what is to be there from the beginning.

        Raises:
            ServingError: a model that was named cannot be loaded; one of a repository that cannot has a reason in the index.
        """
        for name in self.options.models:
            self.load(name, strict=True)
        self._look_for_models()
        for name in [name for name in self._entries if name not in self.options.models]:
            with contextlib.suppress(BadRequestError):  # the log and the index say it
                self.load(name)

    # -- finding -------------------------------------------------------------------------------------------------------------

    def find(self, name: str, number: str | None = None) -> Found:
        """Return what a request is for.

        Args:
            name: of a model, or ``model.method`` for another method than ``forward``.
            number: of the version; the highest one if left out or empty.

        Raises:
            NotFoundError: there is none.
            UnavailableError: it is not loaded.
        """
        entry, method = self._entries.get(name), ""
        if entry is None:
            base, _, method = name.rpartition(".")
            entry = self._entries.get(base) if method else None
        if entry is None:
            raise NotFoundError(f"there is no model {name[:128]!r}")
        chosen = number or entry.newest()
        version = entry.versions.get(chosen or "")
        if version is None:
            self._refuse(entry, number)
        assert version is not None and chosen is not None
        if not method:
            method = FORWARD if FORWARD in version.methods else version.methods[0]
        elif method not in version.methods:
            raise NotFoundError(f"model {entry.name!r} has no method {method[:128]!r}; it has {', '.join(version.methods)}")
        return Found(name, chosen, version, method)

    def _refuse(self, entry: Entry, number: str | None) -> None:
        if number and entry.versions:
            raise NotFoundError(f"model {entry.name!r} has no version {number[:20]!r}; it has {', '.join(sorted(entry.versions))}")
        why = "; ".join(dict(entry.reasons).values()) or "it was not loaded, or was unloaded"
        raise UnavailableError(f"model {entry.name!r} is not loaded: {why}")

    def numbers_of(self, name: str) -> list[str]:
        """Return the loaded versions of a model, the lowest first."""
        entry = self._entries.get(name) or self._entries.get(name.rpartition(".")[0])
        return [] if entry is None else sorted(entry.versions, key=int)

    @property
    def is_ready(self) -> bool:
        """Whether all that are wanted are loaded."""
        return all(entry.versions for entry in self._entries.values() if entry.wanted)

    def loaded(self) -> list[tuple[str, str, Version]]:
        """Return name, version and archive of all that are loaded."""
        return [(entry.name, number, version) for entry in self._entries.values() for number, version in entry.versions.items()]

    def index(self, ready: bool = False) -> list[dict[str, Any]]:
        """Return all models that are known, as the index of the protocol has them.

        Args:
            ready: whether to leave out those that are not loaded.
        """
        self._look_for_models()
        result = []
        for entry in self._entries.values():
            versions, reasons = entry.versions, dict(entry.reasons)
            numbers = sorted({*versions, *reasons}, key=int)
            for number in numbers:
                is_loaded = number in versions
                if is_loaded or not ready:
                    result.append(_line(entry.name, number, is_loaded, reasons.get(number, "")))
                others = versions[number].methods if is_loaded else ()
                result += [_line(f"{entry.name}.{method}", number, True, "") for method in others if method != FORWARD]
            if not numbers and not ready:
                result.append(_line(entry.name, "", False, "unloaded" if entry.wanted else "not loaded"))
        return result

    def _look_for_models(self) -> None:
        if self.options.repository is None:
            return
        with self._looking:
            there = models_in(self.options.repository)
            new = {name: Entry(name, source) for name, source in there.items() if name not in self._entries}
            kept = {
                name: entry
                for name, entry in self._entries.items()
                if name in there or name in self.options.models or entry.versions or entry.wanted
            }
            self._entries = {**kept, **new}

    # -- coming and going ----------------------------------------------------------------------------------------------------

    def load(self, name: str, *, strict: bool = False) -> None:
        """Load a model, or load it again; what was there goes on until then, and where that fails.

        Args:
            name: of a model that is known.
            strict: whether it is the server, and no client, that wants it.

        Raises:
            BadRequestError: a version cannot be loaded; with ``strict`` a ``ServingError``.
            NotFoundError: there is no such model.
        """
        with self._lock:
            self._look_for_models()
            entry = self._entry(name)
            entry.wanted = True
            archives = archives_of(entry.source)
            entry.reasons = {}
            if not archives:
                entry.reasons = {"1": f"there is no archive at {entry.source}"}
            old, new = entry.versions, dict[str, Version]()
            for number, path in archives.items():
                version = self._read(entry, number, path) or old.get(number)
                if version is not None:
                    new[number] = version
            entry.versions = new if archives else old
            self._retire([version for number, version in old.items() if entry.versions.get(number) is not version])
            if entry.reasons:
                text = f"cannot load model {name!r}: {'; '.join(entry.reasons.values())}"
                raise ServingError(text) if strict else BadRequestError(text)

    def unload(self, name: str) -> None:
        """Unload a model; what was asked of it is still done.

        Raises:
            NotFoundError: there is no such model.
        """
        with self._lock:
            entry = self._entry(name)
            old, entry.versions = entry.versions, {}
            entry.wanted, entry.reasons = False, {}
            self._retire(list(old.values()))
        log("info", "unloaded", model=name)
        self._changed(name, "unloaded")

    def _entry(self, name: str) -> Entry:
        entry = self._entries.get(name)
        if entry is None:
            raise NotFoundError(f"there is no model {name[:128]!r}")
        return entry

    def _read(self, entry: Entry, number: str, path: str) -> Version | None:
        stamp = None
        try:
            stamp = entry.seen[path] = stamp_of(path, self.options)
            version = Version(path, self.options)
        except (Dy2stError, OSError, MemoryError) as error:
            entry.reasons[number] = str(error).partition("\n")[0]
            if stamp is not None:
                entry.failed[path] = stamp
            log("error", "cannot load", model=entry.name, version=number, path=path, reason=entry.reasons[number])
            self._changed(entry.name, "failed")
            return None
        entry.reasons.pop(number, None)
        log("info", "loaded", model=entry.name, version=number, path=path, methods=list(version.methods), writes=version.writes)
        self._changed(entry.name, "loaded")
        return version

    def _retire(self, versions: list[Version]) -> None:
        """Let what is asked of versions that are replaced be done, elsewhere."""
        for version in versions:
            thread = threading.Thread(target=version.scheduler.close, args=(self.options.drain_timeout,), daemon=True)
            thread.start()
            self._closing = [other for other in self._closing if other.is_alive()] + [thread]

    # -- changes of files ----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Load again what has changed on the disk since, once its file stays as it is."""
        with self._lock:
            for entry in [entry for entry in self._entries.values() if entry.wanted]:
                archives = archives_of(entry.source)
                for number in [number for number in entry.versions if number not in archives]:
                    entry.reasons[number] = "its file is gone; the model goes on as it was"
                for number, path in archives.items():
                    self._refresh_one(entry, number, path)

    def _refresh_one(self, entry: Entry, number: str, path: str) -> None:
        try:
            stamp = stamp_of(path, self.options)
        except OSError:
            return
        old = entry.versions.get(number)
        if old is not None and old.stamp == stamp and old.path == path:
            entry.reasons.pop(number, None)
            return
        if entry.failed.get(path) == stamp:
            return
        if entry.seen.get(path) != stamp:  # it may still be written
            entry.seen[path] = stamp
            return
        version = self._read(entry, number, path)
        if version is None:
            if old is not None:
                entry.reasons[number] = f"the new file cannot be loaded, the old model goes on: {entry.reasons[number]}"
            return
        entry.versions = {**entry.versions, number: version}
        self._retire([] if old is None else [old])

    def close(self, timeout: float) -> bool:
        """Take no more calls, and wait until those that are there have run.

        Args:
            timeout: how long to wait, in seconds.

        Returns:
            Whether all have run.
        """
        with self._lock:
            versions = [version for _, _, version in self.loaded()]
        self._retire(versions)
        for thread in self._closing:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._closing)


def _line(name: str, number: str, is_loaded: bool, reason: str) -> dict[str, Any]:
    return {"name": name, "version": number, "state": "READY" if is_loaded else "UNAVAILABLE", "reason": reason}
