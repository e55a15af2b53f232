"""examples.jsonl over restarts and kills."""

from midepoch.ledger import Ledger, read_ledger


def test_last_line_of_a_step_wins(tmp_path):
    path = str(tmp_path / "examples.jsonl")
    for lines in (((1, [4, 2]), (2, [0]), (3, [9])), ((2, [1]), (3, [3]))):
        ledger = Ledger(path)
        for step, ids in lines:
            ledger.add(step, ids)
        ledger.close()
    assert read_ledger(path, 3) == {1: [4, 2], 2: [1], 3: [3]}


def test_more_numbers_of_a_step_do_not_disturb_and_are_there_without_a_sync(tmp_path):
    path = tmp_path / "examples.jsonl"
    ledger = Ledger(str(path))
    ledger.add(1, [4, 2], loss=0.5)
    ledger.flush(on_disk=False)
    assert path.read_text() == '{"step": 1, "example_ids": [4, 2], "loss": 0.5}\n'
    assert read_ledger(str(path), 1) == {1: [4, 2]}


def test_steps_beyond_the_last_checkpoint_are_left_out(tmp_path):
    path = str(tmp_path / "examples.jsonl")
    ledger = Ledger(path)
    for step in (1, 2, 3):
        ledger.add(step, [step])
    ledger.close()
    assert read_ledger(path, 2) == {1: [1], 2: [2]}


def test_torn_last_line_is_ignored_and_does_not_spoil_the_next(tmp_path):
    path = tmp_path / "examples.jsonl"
    whole = '{"step": 1, "example_ids": [4, 2]}\n'
    second = '{"step": 2, "example_ids": [11, 12]}'
    for cut in range(1, len(second)):
        path.write_text(whole + second[:cut])
        assert read_ledger(str(path), 9) == {1: [4, 2]}
        ledger = Ledger(str(path))
        ledger.add(2, [7])
        ledger.close()
        assert read_ledger(str(path), 9) == {1: [4, 2], 2: [7]}


def test_flushed_lines_are_in_the_file(tmp_path):
    path = str(tmp_path / "examples.jsonl")
    ledger = Ledger(path)
    ledger.add(1, [5])
    ledger.flush()
    assert read_ledger(path, 1) == {1: [5]}
    ledger.close()


def test_empty_ledger(tmp_path):
    path = str(tmp_path / "examples.jsonl")
    Ledger(path).close()
    assert read_ledger(path, 9) == {}
