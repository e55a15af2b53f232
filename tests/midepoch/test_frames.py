"""Frames: the fast ways of finding them find what hopping from one to the next finds."""

import gzip
import zlib

import numpy as np
import pytest

from midepoch import frames


def expected_offsets(values):
    return np.cumsum([0, *(len(value) + 16 for value in values)])[:-1].tolist()


@pytest.mark.parametrize(
    "lengths",
    [
        [5] * 100,
        [5] * 15 + [6],
        [5] * 40 + [6] * 40 + [5] * 40,
        [5] * 5000 + list(range(50)) * 30 + [7] * 5000,
        list(range(40)) * 60,
        [35615, 3, 3],  # starts as GZIP does
        [0x9C78, 3],  # as ZLIB does
        [3 * 1024 * 1024, 1, 2 * 1024 * 1024, 5],
        [0] * 20,
        [1],
    ],
)
def test_offsets(tmp_path, write_records, lengths):
    values = [bytes(length) for length in lengths]
    path = write_records(str(tmp_path / "some"), values)
    assert frames.compression(path) == ""
    offsets, damage = frames.scan(path)
    assert damage is None
    assert offsets.dtype == np.int64 and offsets.tolist() == expected_offsets(values)
    content = open(path, "rb").read()
    packed = tmp_path / "packed"
    for kind, data in [
        ("GZIP", gzip.compress(content)),
        ("ZLIB", zlib.compress(content)),
        ("GZIP", gzip.compress(content[:30]) + gzip.compress(content[30:])),
    ]:
        packed.write_bytes(data)
        assert frames.compression(str(packed)) == kind
        offsets, damage = frames.scan(str(packed))
        assert damage is None
        assert offsets.tolist() == expected_offsets(values)


@pytest.mark.parametrize("bad", [0, 1, 14, 15, 16, 17, 47, 48, 99])
@pytest.mark.parametrize("same", [True, False])
def test_wrong_length_anywhere_in_a_run_of_equal_ones(tmp_path, write_records, bad, same):
    values = [bytes(5 if same else 5 + number % 3) for number in range(100)]
    path = write_records(str(tmp_path / "some"), values)
    at = expected_offsets(values)
    with open(path, "r+b") as file:
        file.seek(at[bad] + 9)
        byte = file.read(1)[0]
        file.seek(at[bad] + 9)
        file.write(bytes([byte ^ 1]))
    offsets, damage = frames.scan(path)
    assert offsets.tolist() == at[:bad]
    assert damage == frames.Damage(bad, at[bad], "the checksum of its length is wrong")


def test_file_cut_at_every_byte(tmp_path, write_records):
    values = [bytes(2)] * 17 + [b"abc"]
    path = write_records(str(tmp_path / "some"), values)
    content, ends = open(path, "rb").read(), [*expected_offsets(values), 17 * 18 + 19]
    for size in range(len(content)):
        (tmp_path / "cut").write_bytes(content[:size])
        offsets, damage = frames.scan(str(tmp_path / "cut"))
        whole = [end for end in ends[:-1] if end + (19 if end == 17 * 18 else 18) <= size]
        assert offsets.tolist() == whole
        if size in ends:
            assert damage is None  # cut between two records: a shorter file that is whole
        else:
            assert (damage.record, damage.offset) == (len(whole), ends[len(whole)])


def test_compressed_file_cut_or_changed_anywhere_is_damaged(tmp_path, write_records):
    path = write_records(str(tmp_path / "some"), [b"some text", b"and another"] * 3)
    packed = gzip.compress(open(path, "rb").read(), mtime=0)
    harmed = tmp_path / "harmed"
    for size in range(12, len(packed)):
        harmed.write_bytes(packed[:size])
        assert frames.scan(str(harmed))[1] is not None, size
    for at in range(10, len(packed)):
        harmed.write_bytes(packed[:at] + bytes([packed[at] ^ 4]) + packed[at + 1 :])
        assert frames.scan(str(harmed))[1] is not None, at


def test_progress_adds_up_to_the_file(tmp_path, write_records):
    plain = write_records(str(tmp_path / "some"), [bytes(number % 7) for number in range(3000)] + [bytes(9)] * 3000)
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(open(plain, "rb").read()))
    for path in (plain, str(packed)):
        done = []
        frames.scan(path, done.append)
        assert sum(done) == (tmp_path / path).stat().st_size
