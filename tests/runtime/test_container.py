import io
import zipfile
import zlib

import pytest

from dy2st_runtime import LoadError
from dy2st_runtime.archive.container import ALIGNMENT, Container, write

MEMBERS = {"manifest.json": b"{}", "empty": b"", "weights": bytes(range(256)) * 3}


def written(members=MEMBERS):
    file = io.BytesIO()
    write(file, members)
    return file.getvalue()


def read_all(data):
    container = Container(io.BytesIO(data))
    container.check()
    return {name: container.read(name) for name in container.members}


def test_members_come_back_as_they_were_written():
    assert read_all(written()) == MEMBERS
    assert read_all(written({"a": b""})) == {"a": b""}


def test_the_same_members_give_the_same_bytes():
    assert written() == written()


def test_other_tools_read_it():
    with zipfile.ZipFile(io.BytesIO(written())) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == MEMBERS
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def test_members_are_aligned_and_stored_as_they_are():
    data = written()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            name, extra = (int.from_bytes(data[info.header_offset + at :][:2], "little") for at in (26, 28))
            start = info.header_offset + 30 + name + extra
            assert start % ALIGNMENT == 0
            assert data[start : start + info.file_size] == MEMBERS[info.filename]


def test_every_length_that_was_cut_short():
    data = written()
    for length in range(len(data)):
        with pytest.raises(LoadError, match="cut short|empty|not a dy2st archive"):
            read_all(data[:length])


def test_each_flipped_bit_is_noticed():
    data = bytearray(written({"a": b"xyz", "manifest.json": b"{}"}))
    for place in range(len(data)):
        for bit in range(8):
            data[place] ^= 1 << bit
            with pytest.raises(LoadError):
                read_all(data)
            data[place] ^= 1 << bit


@pytest.mark.parametrize("change", [lambda d: b"x" + d, lambda d: d + b"x", lambda d: d + d, lambda d: d[:200] + b"\0" + d[200:]])
def test_something_before_behind_or_between(change):
    with pytest.raises(LoadError):
        read_all(change(written()))


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04", b"\x80\x04pickle" * 99, b"PK\x03\x04" * 99, b"PK\x05\x06" + bytes(18)])
def test_data_that_is_no_container_is_refused(data):
    with pytest.raises(LoadError):
        read_all(data)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_packed_by_another_tool(compression):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in MEMBERS.items():
            archive.writestr(name, data)
    with pytest.raises(LoadError, match="zip file of another kind"):
        read_all(file.getvalue())


def test_a_member_that_comes_twice_is_refused():
    file = io.BytesIO()

    class Twice(dict):
        def items(self):
            return [("a", b"1"), ("a", b"2")]

        def values(self):
            return [b"1", b"2"]

    write(file, Twice())
    with pytest.raises(LoadError, match="a member twice"):
        read_all(file.getvalue())


def test_reading_a_missing_member_is_refused():
    with pytest.raises(LoadError, match="no member other"):
        Container(io.BytesIO(written())).read("other")


def test_sizes_beyond_the_file_allocate_nothing():
    data = written({"a": b"x"})
    huge = (1 << 63).to_bytes(8, "little")
    changed = data.replace((1).to_bytes(8, "little") * 2, huge * 2)
    assert changed != data
    with pytest.raises(LoadError, match="larger than itself"):
        read_all(changed)


def test_the_checksum_is_checked_without_the_hash():
    data = written({"a": b"xyz"})
    changed = data.replace(b"xyz", b"xyy")
    assert zlib.crc32(b"xyz") != zlib.crc32(b"xyy")
    with pytest.raises(LoadError, match="its member a was altered"):
        read_all(changed)
