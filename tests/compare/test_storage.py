from compare.storage import stored


def test_files_of_one_kind_are_counted_together(tmp_path):
    files = {
        "model.ckpt-50.index": 3, "model.ckpt-100.index": 4, "model.ckpt-50.data-00000-of-00002": 10,
        "model.ckpt-50.data-00001-of-00002": 1, "checkpoint": 5, "events.out.tfevents.17.vm-3.22": 6,
        "best_weights/model.ckpt-50.index": 2, "export/1796059373/saved_model.pb": 7, "export/1796059373/variables/x": 8,
        "weights.07.h5": 9,
    }  # fmt: skip
    for name, size in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    found = {kind["where"]: (kind["files"], kind["bytes"]) for kind in stored(str(tmp_path))}
    assert found == {
        "model.ckpt-<n>.index": (2, 7),
        "model.ckpt-<n>.data-00000-of-00002": (1, 10),
        "model.ckpt-<n>.data-00001-of-00002": (1, 1),
        "checkpoint": (1, 5),
        "events.out.tfevents.<n>": (1, 6),
        "best_weights/model.ckpt-<n>.index": (1, 2),
        "export/<n>/…": (2, 15),
        "weights.<n>.h5": (1, 9),
    }
    what = {kind["where"]: kind["what"] for kind in stored(str(tmp_path))}
    assert what["model.ckpt-<n>.index"].startswith("last checkpoints") and what["weights.<n>.h5"] == ""
