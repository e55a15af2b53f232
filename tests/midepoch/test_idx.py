"""IDX files, plain and gz: what is in them, and one line for each way in which they can be wrong."""

import gzip
import os

import numpy as np
import pytest

from midepoch.errors import UserError
from midepoch.idx import find_idx, read_idx

VALUES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
WHOLE = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]) + VALUES.tobytes()


@pytest.fixture(params=["idx", "idx.gz"])
def write(request, tmp_path):
    """`write(data)`: a file of these bytes, plain or packed; its path."""

    def make(data):
        path = tmp_path / request.param
        path.write_bytes(gzip.compress(data) if request.param.endswith(".gz") else data)
        return str(path)

    return make


def error_of(path, num_dimensions=3):
    with pytest.raises(UserError) as caught:
        read_idx(path, num_dimensions)
    text = str(caught.value)
    assert path in text and "\n" not in text
    return text


def test_values_come_back(write):
    assert np.array_equal(read_idx(write(WHOLE), 3), VALUES)


def test_one_dimension(write):
    assert read_idx(write(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 255])), 1).tolist() == [7, 0, 255]


def test_no_values(write):
    assert read_idx(write(bytes([0, 0, 8, 1, 0, 0, 0, 0])), 1).shape == (0,)


@pytest.mark.parametrize(
    "data, num_dimensions, found, wanted",
    [
        (WHOLE, 1, "0x00000803", "0x00000801"),  # images in the place of labels
        (bytes([0, 0, 13, 3]) + WHOLE[4:], 3, "0x00000d03", "0x00000803"),  # floats
        (b"<html>" * 9, 3, "0x3c68746d", "0x00000803"),
    ],
)
def test_wrong_magic_number(write, data, num_dimensions, found, wanted):
    assert f"has the magic number {found}, not {wanted}" in error_of(write(data), num_dimensions)


@pytest.mark.parametrize("size", [0, 3, 4, 15])
def test_cut_in_its_header(write, size):
    assert f"is cut short: it ends {size} bytes into its header" in error_of(write(WHOLE[:size]))


@pytest.mark.parametrize("missing", [1, 24])
def test_cut_in_its_values(write, missing):
    assert f"is cut short: {missing} bytes are missing; its header says 2 × 3 × 4" in error_of(write(WHOLE[:-missing]))


def test_longer_than_it_says(write):
    assert "is 2 bytes too long; its header says 2 × 3 × 4" in error_of(write(WHOLE + b"xx"))


def test_dimensions_beyond_all_bounds(write):
    assert "is cut short" in error_of(write(bytes([0, 0, 8, 3]) + b"\xff" * 12))


def test_gz_cut_anywhere(tmp_path):
    path = tmp_path / "idx.gz"
    packed = gzip.compress(WHOLE)
    for size in range(1, len(packed)):
        path.write_bytes(packed[:size])
        text = error_of(str(path))
        assert "is cut short" in text or "is no readable gzip file" in text, (size, text)


@pytest.mark.parametrize("data", [WHOLE, b"<html>not found</html>"])
def test_gz_that_is_none(tmp_path, data):
    path = tmp_path / "idx.gz"
    path.write_bytes(data)
    assert "is no readable gzip file" in error_of(str(path))


def test_gz_with_a_flipped_bit(tmp_path):
    path = tmp_path / "idx.gz"
    packed = bytearray(gzip.compress(WHOLE))
    packed[len(packed) // 2] ^= 0x10
    path.write_bytes(packed)
    assert "is no readable gzip file" in error_of(str(path))


def test_folder_in_its_place(tmp_path):
    assert "cannot read" in error_of(str(tmp_path))


def test_find_takes_plain_before_gz_and_names_what_is_missing(tmp_path):
    with pytest.raises(UserError, match="holds neither idx nor idx.gz"):
        find_idx(str(tmp_path), "idx")
    (tmp_path / "idx.gz").write_bytes(b"")
    assert os.path.basename(find_idx(str(tmp_path), "idx")) == "idx.gz"
    (tmp_path / "idx").write_bytes(b"")
    assert os.path.basename(find_idx(str(tmp_path), "idx")) == "idx"
