"""The zip file of an archive, in one canonical form.

Members are stored one after the other without compression, each aligned so that it can be mapped into memory, with
fixed times and rights. So the bytes around the members follow from their names, sizes and checksums alone: the reader
computes them as the writer did and compares. What differs by one bit, in a field that nobody uses as well, is refused,
and so is all that makes other zip files dangerous: compression, links, paths, duplicates, overlaps, something before or
behind.

Every record is a zip64 record, whatever the size: one form, and any current zip tool reads it.
"""

from __future__ import annotations

import dataclasses
import io
import mmap
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from dy2st_runtime.errors import LoadError

Part = bytes | memoryview
Contents = bytes | tuple[Part, ...]
"""What a member holds: in one piece, or in several that follow each other."""

ALIGNMENT = 64
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR = struct.Struct("<4sIQI")
_END = struct.Struct("<4sHHHHIIH")
_SIZES = struct.Struct("<HHQQ")  # the zip64 extra field of a local header
_SIZES_AND_OFFSET = struct.Struct("<HHQQQ")  # the one of a directory entry
_PADDING = struct.Struct("<HHH")  # the extra field that zipalign made known: alignment, then zeros

_TAIL = _END64.size + _LOCATOR.size + _END.size
_NEEDED, _MADE_BY = 45, 3 << 8 | 45  # zip64; on Unix
_DATE = 1 << 5 | 1  # the first of January 1980, where zip time starts
_RIGHTS = 0o100644 << 16
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_LONGEST_DIRECTORY = 1 << 20
_ALTERED = "its directory was altered, or it is a zip file of another kind"


@dataclasses.dataclass(frozen=True)
class Member:
    """What the bytes around a member depend on."""

    name: str
    size: int
    checksum: int


@dataclasses.dataclass(frozen=True)
class _Layout:
    """Everything of a file but the contents of its members."""

    headers: tuple[bytes, ...]
    offsets: tuple[int, ...]
    directory: bytes

    @property
    def size(self) -> int:
        return self.offsets[-1] + len(self.directory)


def _lay_out(members: Sequence[Member]) -> _Layout:
    headers, offsets, entries = [], [], []
    position = 0
    for member in members:
        header = _local_header(member, position)
        headers.append(header)
        offsets.append(position + len(header))
        entries.append(_directory_entry(member, position))
        position += len(header) + member.size
    directory = b"".join(entries)
    end64 = _END64.pack(
        b"PK\x06\x06", _END64.size - 12, _MADE_BY, _NEEDED, 0, 0, len(entries), len(entries), len(directory), position
    )
    locator = _LOCATOR.pack(b"PK\x06\x07", 0, position + len(directory), 1)
    end = _END.pack(b"PK\x05\x06", 0, 0, _FULL16, _FULL16, _FULL32, _FULL32, 0)
    return _Layout(tuple(headers), (*offsets, position), directory + end64 + locator + end)


def _local_header(member: Member, position: int) -> bytes:
    name = member.name.encode("ascii")
    fixed = _LOCAL.size + len(name) + _SIZES.size + _PADDING.size
    zeros = -(position + fixed) % ALIGNMENT
    extra = _SIZES.pack(1, 16, member.size, member.size) + _PADDING.pack(0xD935, 2 + zeros, ALIGNMENT) + bytes(zeros)
    sizes = (_FULL32, _FULL32)
    return _LOCAL.pack(b"PK\x03\x04", _NEEDED, 0, 0, 0, _DATE, member.checksum, *sizes, len(name), len(extra)) + name + extra


def _directory_entry(member: Member, position: int) -> bytes:
    name = member.name.encode("ascii")
    extra = _SIZES_AND_OFFSET.pack(1, 24, member.size, member.size, position)
    return (
        _CENTRAL.pack(
            b"PK\x01\x02", _MADE_BY, _NEEDED, 0, 0, 0, _DATE, member.checksum, _FULL32, _FULL32,
            len(name), len(extra), 0, 0, 0, _RIGHTS, _FULL32,
        ) + name + extra
    )  # fmt: skip


def parts(contents: Contents) -> tuple[Part, ...]:
    """Return the pieces of a member's contents."""
    return contents if isinstance(contents, tuple) else (contents,)


def write(file: BinaryIO, members: Mapping[str, Contents]) -> None:
    """Write a container; the same members give the same bytes."""
    layout = _lay_out([_measure(name, contents) for name, contents in members.items()])
    for header, contents in zip(layout.headers, members.values(), strict=True):
        file.write(header)
        for part in parts(contents):
            file.write(part)
    file.write(layout.directory)


def _measure(name: str, contents: Contents) -> Member:
    size = checksum = 0
    for part in parts(contents):
        size, checksum = size + len(part), zlib.crc32(part, checksum)
    return Member(name, size, checksum)


class Container:
    """A container that is open for reading.

    Attributes:
        members: its members by name, in order.

    Raises:
        LoadError: the file has no directory of members where a container has it.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._length = file.seek(0, io.SEEK_END)
        described = _read_directory(file, self._length)
        self.members = {member.name: member for member in described}
        if len(self.members) != len(described):
            raise LoadError("it has a member twice")
        if sum(member.size for member in described) > self._length:
            raise LoadError("its members are larger than itself: it was cut short or altered")
        self._layout = _lay_out(described)

    def check(self) -> None:
        """Compare every byte that belongs to no member with what the writer would have written.

        Raises:
            LoadError: one differs.
        """
        layout = self._layout
        if layout.size != self._length:
            raise LoadError(f"it has {self._length} bytes where its members need {layout.size}: it was cut short or altered")
        for header, end in zip(layout.headers, layout.offsets, strict=False):
            if _read_at(self._file, end - len(header), len(header)) != header:
                raise LoadError(_ALTERED)
        if _read_at(self._file, layout.offsets[-1], len(layout.directory)) != layout.directory:
            raise LoadError(_ALTERED)

    def read(self, name: str) -> bytes:
        """Return the contents of a member.

        Raises:
            LoadError: it is missing, reaches beyond the file, or does not have its checksum.
        """
        offset, member = self._find(name)
        data = _read_at(self._file, offset, member.size)
        _compare(member, data)
        return data

    def map(self, name: str) -> memoryview | None:
        """Return the contents of a member where they lie in the file; what is written to them stays in this process.

        The view must not outlive the contents of the file: nobody may write to it or cut it short. The checksum is left to the
        caller, who has a better one.

        Returns:
            The contents; ``None`` where the file cannot be mapped.

        Raises:
            LoadError: it is missing, or reaches beyond the file.
        """
        offset, member = self._find(name)
        try:
            mapped = mmap.mmap(self._file.fileno(), self._length, access=mmap.ACCESS_COPY)
        except (OSError, ValueError):  # no memory that could be reserved, a file system that cannot, a file that is none
            return None
        return memoryview(mapped)[offset : offset + member.size]

    def _find(self, name: str) -> tuple[int, Member]:
        if name not in self.members:
            raise LoadError(f"it has no member {name}")
        member = self.members[name]
        offset = self._layout.offsets[list(self.members).index(name)]
        if offset + member.size > self._length:
            raise LoadError(f"its member {name} reaches beyond its end: it was cut short or altered")
        return offset, member


def _compare(member: Member, data: Part) -> None:
    if len(data) != member.size or zlib.crc32(data) != member.checksum:
        raise LoadError(f"its member {member.name} was altered: the checksum differs")


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _read_directory(file: BinaryIO, length: int) -> list[Member]:
    if _read_at(file, 0, 4) != b"PK\x03\x04":
        raise LoadError("it is not a dy2st archive" if length else "it is empty")
    if length < _TAIL:
        raise LoadError("it was cut short")
    tail = _read_at(file, length - _TAIL, _TAIL)
    signature, *_, size, offset = _END64.unpack_from(tail)
    if signature != b"PK\x06\x06" or tail[-_END.size :][:4] != b"PK\x05\x06":
        raise LoadError("it was cut short, or is a zip file of another kind")
    if size > _LONGEST_DIRECTORY or offset + size + _TAIL != length:
        raise LoadError("its directory does not fit its length: it was cut short or altered")
    return _parse_directory(_read_at(file, offset, size))


def _parse_directory(data: bytes) -> list[Member]:
    members = []
    position = 0
    while position < len(data):
        try:
            fields = _CENTRAL.unpack_from(data, position)
            checksum, name_length, extra_length = fields[7], fields[10], fields[11]
            start = position + _CENTRAL.size
            name = data[start : start + name_length].decode("ascii")
            size = _SIZES_AND_OFFSET.unpack_from(data, start + name_length)[2]
        except (struct.error, UnicodeDecodeError):
            raise LoadError(_ALTERED) from None
        members.append(Member(name, size, checksum))
        position = start + name_length + extra_length
    return members
