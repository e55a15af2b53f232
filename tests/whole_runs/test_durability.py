"""The order of a save on disk: what is reported is synced, what it replaces is deleted only then. Told by the calls."""

import importlib
import os
import re
import shutil

import pytest

from tests.whole_runs import table_runs

CHECKPOINT = re.compile(r"^(best_weights/)?model\.ckpt-(\d+)\.")


@pytest.fixture
def acts(monkeypatch):
    """A list of (what, path, ...) of all that is synced, renamed and deleted, by Python and by TensorFlow's own deletion."""
    done = []

    def recorded(name, call, what):
        def wrapper(*args, **kwargs):
            done.append((name, *what(*args)))
            return call(*args, **kwargs)

        return wrapper

    file_io = importlib.import_module("tensorflow.python.lib.io.file_io")
    path_of = lambda descriptor: (os.readlink(f"/proc/self/fd/{descriptor}"),)
    monkeypatch.setattr(os, "fsync", recorded("sync", os.fsync, path_of))
    monkeypatch.setattr(os, "replace", recorded("rename", os.replace, lambda source, target: (os.path.abspath(target),)))
    monkeypatch.setattr(os, "remove", recorded("delete", os.remove, lambda path: (os.path.abspath(path),)))
    delete = recorded("delete", file_io.delete_file, lambda path: (os.path.abspath(path),))
    monkeypatch.setattr(file_io, "delete_file", delete)
    return done


def test_a_save_is_on_disk_before_it_counts_and_before_anything_older_is_deleted(trained, data, tmp_path, acts):
    program, stopped = trained
    run = tmp_path / "run"
    shutil.copytree(stopped, run)
    del acts[:]
    # By the loss as the larger the better, step 18 is a new best one, which replaces that of step 12.
    assert table_runs.train(program, run, data, stop_after=None, best_mode="max").finished
    acts = [(what, os.path.relpath(path, run)) for what, path in acts]

    commits = [place for place, (what, path) in enumerate(acts) if what == "rename" and path.endswith(".manifest.json")]
    names = [acts[place][1].replace(".manifest.json", "") for place in commits]
    assert names == ["model.ckpt-14", "model.ckpt-16", "model.ckpt-18", "best_weights/model.ckpt-18"]
    for place, name in zip(commits, names):
        before, after = acts[:place], acts[place + 1 :]
        folder = os.path.dirname(name) or "."
        # All files of the checkpoint that were there at the commit, and the manifest under its temporary name …
        files = {path for what, path in before if what == "sync" and path.startswith(name + ".")}
        assert f"{name}.index" in files and f"{name}.manifest.json.tmp" in files
        assert len([file for file in files if ".data-" in file]) == {"lowlevel": 1, "estimator": 2}[program]
        # … and then, before anything else happens, the directory with their names.
        assert after[0] == ("sync", folder)
    # An older checkpoint is deleted only after a newer one in its folder is committed and the directory synced.
    deleted = set()
    for place, (what, path) in enumerate(acts):
        if what == "delete" and CHECKPOINT.match(path):
            folder, step = os.path.dirname(path), int(CHECKPOINT.match(path).group(2))
            here = [(at, int(name.split("-")[1])) for at, name in zip(commits, names) if os.path.dirname(name) == folder]
            newer = [at for at, newer_step in here if newer_step > step]
            assert newer and newer[0] + 1 < place
            deleted.add((folder, step))
    assert {("", 10), ("", 12), ("", 13), ("best_weights", 12)} <= deleted

    # The small files the same way; the best one's metrics after the best one, and then the mark that it is evaluated.
    for name in ("metrics_eval_best_weights.json", "metrics_eval_last_weights.json", "run.json"):
        renamed = acts.index(("rename", name))
        assert ("sync", name + ".tmp") in acts[:renamed] and acts[renamed + 1] == ("sync", ".")
    order = ["best_weights/model.ckpt-18.manifest.json", "metrics_eval_best_weights.json", "metrics_eval_last_weights.json"]
    assert [path for what, path in acts if what == "rename" and path in order] == order
