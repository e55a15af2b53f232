"""TFRecord files: the index, and damage of every kind named by file, record and byte."""

import glob
import os
import shutil
import subprocess
import sys
import zlib

import numpy as np
import pytest
import tensorflow as tf

from midepoch import checksums, frames, records
from midepoch.errors import UserError
from tests.conftest import REPOSITORY

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


def compress(source, path, wbits=31):
    """Compresses a file; `wbits` 31 is GZIP, 15 is ZLIB. Returns the path."""
    packer = zlib.compressobj(wbits=wbits)
    with open(source, "rb") as plain, open(path, "wb") as packed:
        packed.write(packer.compress(plain.read()) + packer.flush())
    return path


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


@pytest.mark.parametrize("wbits, kind, unpack", [(31, "GZIP", "gunzip <"), (15, "ZLIB", "zlib-flate")])
def test_compressed_file_cannot_be_read_by_offset(tmp_path, file, wbits, kind, unpack):
    path = compress(file, str(tmp_path / "other"), wbits)
    text = error_of(path)
    assert f"is {kind}-compressed" in text and unpack in text and "--shuffle=buffer" in text
    index = records.build_index((path,), by_offset=False)
    assert index.offsets[0].tolist() == OFFSETS
    assert [record.numpy() for record in checksums.read(index.paths)] == VALUES


def test_compressed_and_plain_files_do_not_mix(tmp_path, file):
    other = compress(file, str(tmp_path / "z.gz"))
    with pytest.raises(UserError, match="z.gz is GZIP-compressed and .*some.tfrecord is not-compressed; give files of one"):
        records.build_index((file, other), by_offset=False)


def test_vanished_file(file):
    os.remove(file)
    assert "No such file" in error_of(file)


def test_unreadable_file(tmp_path):
    assert "cannot read" in error_of(str(tmp_path))  # a folder in the file's place


# The user's folder, and what is remembered beside the data.


@pytest.fixture
def remembered(file, monkeypatch, tmp_path):
    """Makes every index worth remembering; returns where that of `file` lies."""
    monkeypatch.setattr(records, "REMEMBER_BYTES", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    return tmp_path / ".midepoch" / "some.tfrecord.index"


def scans_of(monkeypatch, *paths):
    """Builds an index and compares its offsets; returns how many files were scanned for it."""
    scanned = []
    scan = frames.scan
    with monkeypatch.context() as patch:
        patch.setattr(frames, "scan", lambda path, advance: scanned.append(path) or scan(path, advance))
        index = records.build_index(paths)
    for path, offsets in zip(paths, index.offsets):
        assert offsets.tolist() == frames.scan(path)[0].tolist()
    return len(scanned)


def test_small_data_leaves_nothing_behind(tmp_path, file):
    records.build_index((file,))
    assert os.listdir(tmp_path) == ["some.tfrecord"]


def test_index_is_remembered(file, remembered, monkeypatch):
    assert [scans_of(monkeypatch, file) for _ in range(3)] == [1, 0, 0]
    assert remembered.exists()


def test_no_glob_takes_an_index_for_data(tmp_path, file, remembered):
    records.build_index((file,))
    assert remembered.exists()
    for pattern in ("*", "*.tfrecord*", "some*", "**", ".*"):
        found = [path for path in glob.glob(str(tmp_path / pattern), recursive=True) if os.path.isfile(path)]
        assert set(found) <= {file}, pattern
    assert records.find_files(str(tmp_path / "*"), "train_files") == (file,)
    assert tf.io.gfile.glob(str(tmp_path / "*.tfrecord*")) == [file]


@pytest.mark.parametrize("change", ["size", "time"])
def test_changed_data_is_indexed_again(file, remembered, monkeypatch, write_records, change):
    assert scans_of(monkeypatch, file) == 1
    if change == "size":
        write_records(file, [b"now", b"another"])
    else:
        stat = os.stat(file)
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert scans_of(monkeypatch, file) == 1
    assert scans_of(monkeypatch, file) == 0


@pytest.mark.parametrize(
    "harm",
    [
        lambda content: content[:-8],
        lambda content: content[:-3],
        lambda content: b"",
        lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
        lambda content: bytes([content[0] ^ 1]) + content[1:],
        lambda content: content + bytes(8),
        lambda content: b"something else of somebody's" * 4,
    ],
)
def test_harmed_index_is_made_again_in_silence(file, remembered, monkeypatch, capsys, harm):
    records.build_index((file,))
    whole = remembered.read_bytes()
    remembered.write_bytes(harm(whole))
    assert scans_of(monkeypatch, file) == 1
    assert remembered.read_bytes() == whole
    assert capsys.readouterr() == ("", "")


def test_index_of_another_file_of_the_same_size_and_time_is_not_used(tmp_path, file, remembered, monkeypatch, write_records):
    other = write_records(str(tmp_path / "other.tfrecord"), [bytes(86 - 16)])
    for path in (file, other):
        os.utime(path, ns=(0, 0))
    records.build_index((file,))
    shutil.copy(remembered, remembered.with_name("other.tfrecord.index"))
    assert scans_of(monkeypatch, other) == 1


def test_read_only_data_is_remembered_in_the_users_cache(tmp_path, file, remembered, monkeypatch):
    remembered.parent.write_text("a file is in the folder's place, as the super-user may write anywhere")
    assert [scans_of(monkeypatch, file) for _ in range(2)] == [1, 0]
    assert len(list((tmp_path / "user" / "midepoch").iterdir())) == 1


def test_nowhere_to_remember_is_no_error(tmp_path, file, remembered, monkeypatch):
    for name in (".midepoch", "user"):
        (tmp_path / name).write_text("")
    assert [scans_of(monkeypatch, file) for _ in range(2)] == [1, 1]


def test_damaged_file_is_not_remembered(file, remembered):
    damage(file, 37 + 9, 1)
    error_of(file)
    assert not remembered.exists()


# In mid-training.


def test_error_of_tensorflow_over_a_damaged_record_is_explained(tmp_path, file, write_records):
    before = write_records(str(tmp_path / "a.tfrecord"), VALUES)
    index = records.build_index((before, file))
    stat = os.stat(file)
    damage(file, 37 + 12 + 3, 1)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # bits that rot leave the time of change as it is
    with pytest.raises(UserError, match="some.tfrecord: record 2 at byte 37 .* its checksum is wrong"):
        with checksums.damage_explained((index,)):
            list(checksums.read(index.paths))


def test_error_of_tensorflow_over_a_damaged_compressed_record_is_explained(tmp_path, file):
    path = compress(file, str(tmp_path / "other.gz"))
    index = records.build_index((path,), by_offset=False)
    stat = os.stat(path)
    damage(path, 30, 1)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(UserError, match="other.gz: record 0 at byte 0 is damaged"):
        with checksums.damage_explained((index,)):
            list(checksums.read(index.paths))


@pytest.mark.parametrize(
    "change, line",
    [
        (os.remove, r"some.tfrecord vanished during the run \(No such file or directory\); put the file back"),
        (lambda path: os.truncate(path, 69), r"some.tfrecord changed during the run \(86 bytes then, 69 now\)"),
        (lambda path: os.utime(path, ns=(0, 0)), r"some.tfrecord changed during the run \(another time of change\)"),
    ],
)
def test_changed_file_explains_any_error(file, change, line):
    index = records.build_index((file,))
    index.check_unchanged()
    with pytest.raises(UserError, match=line):
        with checksums.damage_explained((index,)):
            change(file)
            raise ValueError("whatever came of it")


@pytest.mark.parametrize("message", ["a checkpoint", "corrupted record at 37"])
def test_error_of_tensorflow_over_something_else_is_left_alone(file, message):
    index = records.build_index((file,))
    with pytest.raises(tf.errors.DataLossError, match=message):
        with checksums.damage_explained((index,)):
            raise tf.errors.DataLossError(None, None, message)


# The command line.


def test_listing(tmp_path, file, capsys):
    assert records.main([str(tmp_path / "*")]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == f"{file}: 4 records, 86 bytes"
    assert last == "1 file: 4 records, 86 bytes; frames whole, checksums not read (--verify)"


def test_verify_lists_every_damaged_record_of_every_file(tmp_path, write_records, capsys):
    values = [str(i).encode() * 10 for i in range(10)]  # frames of 26 bytes
    first = write_records(str(tmp_path / "a.tfrecord"), values)
    second = write_records(str(tmp_path / "b.tfrecord"), values)
    write_records(str(tmp_path / "c.tfrecord"), [])
    for record in (0, 3, 4, 9):
        damage(first, 26 * record + 12, 1)
    damage(second, 26 * 2 + 13, 1)
    damage(second, 26 * 7 + 9, 1)  # a length's checksum: what comes after it cannot be found
    assert records.main([str(tmp_path / "*"), "--verify"]) == 1
    wrong = "its checksum is wrong"
    assert capsys.readouterr().out.splitlines() == [
        *(f"{first}: record {record} at byte {26 * record}: {wrong}" for record in (0, 3, 4, 9)),
        f"{first}: 10 records, 260 bytes",
        f"{second}: record 2 at byte 52: {wrong}",
        f"{second}: record 7 at byte 182: the checksum of its length is wrong",
        f"{second}: 7 records, 260 bytes",
        f"{tmp_path / 'c.tfrecord'}: 0 records, 0 bytes",
        "3 files: 17 records, 520 bytes; damaged",
    ]
    assert records.main([first]) == 0 and records.main([second]) == 1  # lengths are checked without --verify too


def test_verify_of_whole_and_of_compressed_files(tmp_path, file, capsys):
    path = compress(file, str(tmp_path / "z.gz"))
    assert records.main([file, path, "--verify"]) == 0
    size = 86 + os.path.getsize(path)
    assert capsys.readouterr().out.endswith(f"2 files: 8 records, {size} bytes; every checksum is right\n")
    damage(path, os.path.getsize(path) - 6, 1)
    assert records.main([path, "--verify"]) == 1
    assert "z.gz: record " in capsys.readouterr().out


def test_command_line_errors_are_one_line(tmp_path, capsys):
    for arguments, line in [([], "required: GLOB"), ([str(tmp_path / "none*")], "matches no file")]:
        with pytest.raises(SystemExit) as end:
            records.main(arguments)
        assert end.value.code == 1
        assert line in capsys.readouterr().err


def test_command_line_lists_without_loading_tensorflow(file):
    code = "import sys; from midepoch import records; records.main(sys.argv[1:]); sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code, file], check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
