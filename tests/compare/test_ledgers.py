from compare import ledgers


def test_last_line_of_a_step_counts_and_cut_lines_are_passed_over(tmp_path):
    path = tmp_path / "examples.jsonl"
    path.write_text(
        '{"step": 1, "example_ids": [3], "loss": 2.0}\n{"step": 2, "example_ids": [4], "loss": 1.5}\n{"step": 3, "exam\n'
        '{"step": 2, "example_ids": [5], "loss": 1.25}\n{"step": 3, "example_ids": [6], "loss": 1.0}\n{"step": 4'
    )
    ledger = ledgers.read(str(path))
    assert ledger.ids == {1: [3], 2: [5], 3: [6]}
    assert ledger.losses == {1: 2.0, 2: 1.25, 3: 1.0}
    assert ledger.pieces == [[(1, 2.0), (2, 1.5)], [(2, 1.25), (3, 1.0)]]
    assert ledger.done_again == 1
    assert ledger.up_to(2).ids == {1: [3], 2: [5]} and ledger.up_to(2).losses == {1: 2.0, 2: 1.25}


def test_ledger_without_losses_and_no_ledger(tmp_path):
    (tmp_path / "a").write_text('{"step": 1, "example_ids": [3, 1]}\n')
    assert ledgers.read(str(tmp_path / "a")) == ({1: [3, 1]}, {}, [], 0)
    assert ledgers.read(str(tmp_path / "b")) is None
