"""The bench of the index, on a few records."""

from compare.bench import indexing
from midepoch import records


def test_files_are_as_asked_for(tmp_path):
    paths = indexing.write_files(str(tmp_path), 1003, (3, 6))
    index = records.build_index(paths)
    assert index.num_records == 1003
    lengths = {int(after - at) - 16 for offsets in index.offsets for at, after in zip(offsets, offsets[1:])}
    assert lengths == {3, 4, 5}


def test_table(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["indexing", "400"])
    indexing.main()
    assert [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()[2:]] == [
        f"| {what}" for what in indexing.LENGTHS
    ]
