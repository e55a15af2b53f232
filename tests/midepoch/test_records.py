"""TFRecord files: the index, and damage of every kind named by file, record and byte."""

import gzip
import os

import numpy as np
import pytest
import tensorflow as tf

from midepoch import records
from midepoch.errors import UserError

VALUES = [b"first", b"", b"the third record", b"4"]
OFFSETS = [0, 21, 37, 69]


@pytest.fixture
def file(tmp_path, write_records):
    return write_records(str(tmp_path / "some.tfrecord"), VALUES)


def damage(path, at, change):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ change]))


def error_of(*paths) -> str:
    with pytest.raises(UserError) as caught:
        records.build_index(paths)
    text = str(caught.value)
    assert "\n" not in text
    assert paths[-1] in text
    return text


def test_index_of_files_that_tensorflow_wrote(tmp_path, file, write_records):
    empty = write_records(str(tmp_path / "void.tfrecord"), [])
    other = write_records(str(tmp_path / "zz.tfrecord"), [b"x" * 1000, b"y"])
    index = records.build_index((file, empty, other))
    assert [offsets.tolist() for offsets in index.offsets] == [OFFSETS, [], [0, 1016]]
    assert index.num_records == 6
    assert index.fingerprint() == [["some.tfrecord", 86, 4], ["void.tfrecord", 0, 0], ["zz.tfrecord", 1033, 2]]


def test_locate_gives_file_and_offset_of_an_example(tmp_path, file, write_records):
    empty = write_records(str(tmp_path / "void.tfrecord"), [])
    index = records.build_index((empty, file, empty, file))
    files, offsets = index.locate(np.arange(8))
    assert files.tolist() == [1] * 4 + [3] * 4
    assert offsets.tolist() == OFFSETS * 2


def test_offsets_are_where_the_records_are(file):
    index = records.build_index((file,))
    for offset, value in zip(index.offsets[0], VALUES):
        with open(file, "rb") as data:
            data.seek(offset)
            assert data.read(8) == len(value).to_bytes(8, "little")
            assert data.read(4 + len(value))[4:] == value


def test_find_files_sorts_and_leaves_out_folders(tmp_path, write_records):
    for name in ("b.tfrecord", "a.tfrecord"):
        write_records(str(tmp_path / name), [b"1"])
    (tmp_path / "c.tfrecord").mkdir()
    found = records.find_files(str(tmp_path / "*.tfrecord"), "train_files")
    assert [os.path.basename(path) for path in found] == ["a.tfrecord", "b.tfrecord"]


def test_find_files_names_flag_and_glob_if_nothing_matches(tmp_path):
    with pytest.raises(UserError, match=r"--eval_files=.*none-\* matches no file"):
        records.find_files(str(tmp_path / "none-*"), "eval_files")


@pytest.mark.parametrize(
    "size, record, offset, why",
    [
        (3, 0, 0, "ends 3 bytes into its header"),
        (37 + 11, 2, 37, "ends 11 bytes into its header"),
        (37 + 12, 2, 37, "claims 16 bytes, 20 more than the file holds"),
        (86 - 1, 3, 69, "claims 1 bytes, 1 more"),
    ],
)
def test_truncated_file(file, size, record, offset, why):
    os.truncate(file, size)
    text = error_of(file)
    assert f"record {record} at byte {offset}" in text
    assert why in text


@pytest.mark.parametrize(
    "at, why", [(37, "checksum of its length|more than the file holds"), (37 + 9, "checksum of its length is wrong")]
)
def test_flipped_bit_in_a_length_or_its_checksum(file, at, why):
    damage(file, at, 1)
    with pytest.raises(UserError, match=why):
        records.build_index((file,))


def test_wrong_length_that_leads_to_the_end_of_the_file(file):
    damage(file, 37, 16 ^ 33)  # 17 bytes more: just as far as the last record reaches
    text = error_of(file)
    assert "record 2 at byte 37" in text and "checksum of its length is wrong" in text


@pytest.mark.parametrize("at, record, offset", [(12, 0, 0), (37 + 12 + 5, 2, 37), (85, 3, 69)])
def test_flipped_bit_in_a_record_or_its_checksum(file, at, record, offset):
    damage(file, at, 0x10)
    text = error_of(file)
    assert f"record {record} at byte {offset}" in text
    assert "its checksum is wrong" in text


def test_damage_in_the_second_file_names_the_second_file(tmp_path, file, write_records):
    other = write_records(str(tmp_path / "zz.tfrecord"), VALUES)
    damage(other, 12, 1)
    error_of(file, other)


def test_large_data_is_not_read_in_full(file, monkeypatch):
    monkeypatch.setattr(records, "VERIFY_BYTES", 85)
    damage(file, 12, 1)
    assert records.build_index((file,)).num_records == 4


def test_no_record_at_all(tmp_path, write_records):
    paths = [write_records(str(tmp_path / f"{number}.tfrecord"), []) for number in range(2)]
    with pytest.raises(UserError, match="0.tfrecord and the other files hold no record"):
        records.build_index(tuple(paths))


@pytest.mark.parametrize("content", [b"id,label\n1,0\n2,1\n" * 10, b"x"])
def test_no_tfrecord_file(tmp_path, content):
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    assert "record 0 at byte 0 is damaged or this is no (uncompressed) TFRecord file" in error_of(str(path))


def test_compressed_file(tmp_path, file):
    path = tmp_path / "some.tfrecord.gz"
    with open(file, "rb") as plain:
        path.write_bytes(gzip.compress(plain.read()))
    assert "no (uncompressed) TFRecord file" in error_of(str(path))


def test_vanished_file(file):
    os.remove(file)
    assert "No such file" in error_of(file)


def test_unreadable_file(tmp_path):
    assert "cannot read" in error_of(str(tmp_path))  # a folder in the file's place


def test_error_of_tensorflow_over_a_damaged_record_is_explained(file):
    index = records.build_index((file,))
    damage(file, 37 + 12, 1)
    with pytest.raises(UserError, match="some.tfrecord: record 2 at byte 37"):
        with records.damage_explained(index.paths):
            list(tf.data.TFRecordDataset(file))


def test_error_of_tensorflow_over_a_vanished_file_is_explained(file):
    with pytest.raises(UserError, match="cannot read .*some.tfrecord"):
        with records.damage_explained((file,)):
            os.remove(file)
            list(tf.data.TFRecordDataset(file))


def test_error_of_tensorflow_over_something_else_is_left_alone(file):
    with pytest.raises(tf.errors.DataLossError, match="a checkpoint"):
        with records.damage_explained((file,)):
            raise tf.errors.DataLossError(None, None, "a checkpoint")
