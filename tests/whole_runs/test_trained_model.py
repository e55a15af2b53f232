"""What a trained model is for: its SavedModel, `--mode=evaluate` and `--mode=predict`; and a kill in mid-export."""

import concurrent.futures
import importlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from midepoch import cli, exports, model_dir
from midepoch.config import TrainConfig
from midepoch.errors import UserError
from tests import tiny_task
from tests.conftest import REPOSITORY
from tests.whole_runs import runs

EPOCHS = 2
LAST_STEP = EPOCHS * runs.STEPS_PER_EPOCH


class ByName(runs.SmallWithBatchNorm):
    """`Small` with dicts of features and of outputs."""

    def parse(self, serialized):
        x, label = super().parse(serialized)
        return {"left": x[:, :2], "right": x[:, 2:]}, label

    def call(self, model, features, training, seed):
        logits = super().call(model, tf.concat([features["left"], features["right"]], axis=1), training, seed)
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    def loss(self, labels, outputs):
        return super().loss(labels, outputs["logits"])

    def metrics(self, labels, outputs):
        return super().metrics(labels, outputs["logits"])


TASKS = {"records": ByName(), "own_dataset": runs.SmallOwnDataset()}
# Such that the first evaluation stays the best: best and last weights must not be the same ones.
BEST = {name: dict(best_metric="loss", best_mode=mode) for name, mode in (("records", "min"), ("own_dataset", "max"))}
BEST_STEP = runs.STEPS_PER_EPOCH


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def data(root):
    return runs.write_data(str(root))


@pytest.fixture(scope="module", params=TASKS)
def name(request):
    """Name of a task, of which each program has trained and exported a run in `root / <program>-<name>`."""
    return request.param


@pytest.fixture(scope="module")
def results(root, data, name):
    """{program: what its run of that task gave}."""
    files = {} if name == "own_dataset" else data
    flags = dict(export=True, num_epochs=EPOCHS, keep_checkpoint_max=0, **BEST[name], **files)
    return {program: runs.train(program, root / f"{program}-{name}", TASKS[name], **flags) for program in runs.PROGRAMS}


def eval_batches(task, data, batch_size=100):
    """Returns (features, labels) over all evaluation examples."""
    if isinstance(task, runs.SmallOwnDataset):
        return task.eval_dataset(batch_size)
    return tf.data.TFRecordDataset(tf.io.gfile.glob(data["eval_files"])).batch(batch_size).map(task.parse)


def eval_batch(task, data):
    """Returns (features by name, serialized records or None) of all evaluation examples."""
    features, _ = next(iter(eval_batches(task, data)))
    if not isinstance(features, dict):
        return {"features": features}, None
    return features, next(iter(tf.data.TFRecordDataset(tf.io.gfile.glob(data["eval_files"])).batch(100)))


def interface(directory):
    """Returns all that a SavedModel says of its signatures, without the names of tensors."""
    saved_model = saved_model_pb2.SavedModel()
    with open(os.path.join(directory, "saved_model.pb"), "rb") as file:
        saved_model.ParseFromString(file.read())
    (graph,) = saved_model.meta_graphs

    def described(tensors):
        return {key: (info.dtype, str(info.tensor_shape)) for key, info in tensors.items()}

    return list(graph.meta_info_def.tags), {
        key: (described(signature.inputs), described(signature.outputs), signature.method_name)
        for key, signature in graph.signature_def.items()
        if not key.startswith("__")
    }


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_loaded_export_gives_the_outputs_of_the_best_checkpoint(results, root, data, name, program):
    directory, task = root / f"{program}-{name}", TASKS[name]
    served = tf.saved_model.load(results[program].export).signatures
    features, records = eval_batch(task, data)
    outputs = served["serving_default"](**features)
    lines = list(reader(program).predict(TrainConfig(model_dir=str(directory), mode="predict", checkpoint="best"), task))
    assert [line["example_id"] for line in lines] == list(range(7))
    for key, array in outputs.items():
        expected = [line["outputs"][key] if name == "records" else line["outputs"] for line in lines]
        # Not to the last bit: 7 examples at once, where training evaluates 4 and 3.
        np.testing.assert_allclose(array, np.array(expected, np.float32), rtol=1e-5, atol=1e-6)
    assert set(served) == {"serving_default"} | ({"examples:serving_default"} if records is not None else set())
    if records is not None:
        from_records = served["examples:serving_default"](examples=records)
        assert sorted(from_records) == sorted(outputs)
        assert all(np.array_equal(from_records[key], outputs[key]) for key in outputs)
    # Control: another batch, another output.
    other = {key: value + 1.0 for key, value in features.items()}
    assert any(not np.allclose(array, outputs[key]) for key, array in served["serving_default"](**other).items())


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_export_says_what_it_is(results, root, name, program):
    directory = root / f"{program}-{name}"
    assert results[program].export == os.path.join(str(directory), exports.newest(str(directory)))
    note = model_dir.read_json(os.path.join(results[program].export, exports.NOTE))
    best = model_dir.read_json(str(directory / model_dir.BEST_METRICS_FILE))
    assert best["global_step"] == BEST_STEP
    assert note == {"weights": "best", "weights_step": BEST_STEP, "run_step": LAST_STEP, "task": "small", "metrics": best}
    assert [path.name for path in (directory / "export").iterdir()] == [os.path.basename(results[program].export)]


@pytest.mark.skipif(not runs.HAS_ESTIMATOR, reason="this TensorFlow has no tf.estimator")
def test_nobody_can_tell_which_program_wrote_it(results, data, name):
    first, second = (results[program].export for program in runs.PROGRAMS)
    assert interface(first) == interface(second)
    features, _ = eval_batch(TASKS[name], data)
    outputs = [tf.saved_model.load(directory).signatures["serving_default"](**features) for directory in (first, second)]
    assert sorted(outputs[0]) == sorted(outputs[1])
    for key in outputs[0]:
        assert outputs[0][key].dtype == outputs[1][key].dtype and np.array_equal(outputs[0][key], outputs[1][key])


def listing(directory):
    return {path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None) for path in directory.rglob("*")}


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_done_is_trained_and_exported(results, root, data, name, program, tmp_path, capsys):
    """Already done; then the target is raised, after the best weights were lost: one run, start after start."""
    if name == "own_dataset":
        pytest.skip("the same code")
    run = tmp_path / "run"
    shutil.copytree(root / f"{program}-{name}", run)
    exported = exports.newest(str(run))

    def train(num_epochs):
        capsys.readouterr()
        result = runs.train(program, run, TASKS[name], num_epochs=num_epochs, export=True, **BEST[name], **data)
        return result, capsys.readouterr().out

    before = listing(run)
    result, out = train(EPOCHS)
    assert result.finished and f"already done: {LAST_STEP}/{LAST_STEP} steps" in out and listing(run) == before
    assert result.export == str(run / exported)

    shutil.rmtree(run / "best_weights")
    for path in run.glob(f"model.ckpt-{BEST_STEP}.*"):  # else the best is made again from it
        path.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("midepoch.best.is_better", lambda *args: False)
        result, out = train(EPOCHS + 1)
    last = LAST_STEP + runs.STEPS_PER_EPOCH
    assert f"no weights were ever the best: exporting the last ones, of step {last}" in out
    names = sorted(os.path.join("export", path.name) for path in (run / "export").iterdir())
    assert names == [exported, exports.newest(str(run))]
    note = model_dir.read_json(os.path.join(result.export, exports.NOTE))
    assert (note["weights"], note["weights_step"], note["run_step"]) == ("last", last, last)
    assert note["metrics"] == model_dir.read_json(str(run / model_dir.LAST_METRICS_FILE))


# Evaluating and predicting.


def reader(program):
    """Returns a program's module with `evaluate` and `predict`."""
    return importlib.import_module(f"{program}.evaluate")


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_metrics_are_those_of_training_bit_for_bit_and_nothing_is_written(results, root, name, program):
    directory = root / f"{program}-{name}"
    files = {
        "best": model_dir.BEST_METRICS_FILE,
        str(directory / f"model.ckpt-{LAST_STEP}"): model_dir.LAST_METRICS_FILE,  # unlike the best ones: the control
    }
    before = listing(directory)
    lock = model_dir.Lock(str(directory))  # a process trains here
    try:
        for checkpoint, file in files.items():
            config = TrainConfig(model_dir=str(directory), mode="evaluate", checkpoint=checkpoint)
            # As text: a last digit counts, and so does the order.
            metrics = json.dumps(reader(program).evaluate(config, TASKS[name]))
            assert metrics == json.dumps(model_dir.read_json(str(directory / file)))
    finally:
        lock.release()
    assert listing(directory) == before


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_command_line_needs_the_model_dir_only(results, root, data, name, program, parse_flags, monkeypatch, capsys):
    """Standard output has the results and nothing else."""
    if name == "own_dataset":
        pytest.skip("the same code")
    directory = root / f"{program}-{name}"
    monkeypatch.setattr("midepoch.saved.load_task", {"small": TASKS[name]}.get)  # its name is in run.json
    main = importlib.import_module(f"{program}.train")
    for mode in ("evaluate", "predict"):
        parse_flags(f"--model_dir={directory}", f"--mode={mode}")
        capsys.readouterr()
        assert cli._exit_code(getattr(main, mode)) == 0
        out, err = capsys.readouterr()
        lines = [json.loads(line) for line in out.splitlines()]
        assert err == f"{mode} model.ckpt-{LAST_STEP} of {directory} (verified) · small\n"
        metrics = model_dir.read_json(str(directory / model_dir.LAST_METRICS_FILE))
        if mode == "evaluate":
            assert lines == [metrics]
        else:
            assert [sorted(line) for line in lines] == [["example_id", "outputs"]] * 7
            predicted = np.array([line["outputs"]["probabilities"] for line in lines]).argmax(axis=1)
            labels = np.concatenate([labels for _, labels in eval_batches(TASKS[name], data)])
            assert np.float32(np.mean(predicted == labels)) == np.float32(metrics["accuracy"])


def refused(config, program="lowlevel", task=None):
    with pytest.raises(UserError) as caught:
        reader(program).evaluate(config, task)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("program", runs.PROGRAMS)
def test_what_cannot_be_read(results, root, name, program, tmp_path, capsys):
    if name == "own_dataset":
        pytest.skip("the same code")
    run, task = tmp_path / "run", TASKS[name]
    shutil.copytree(root / f"{program}-{name}", run)

    def config(directory=run, **fields):
        return TrainConfig(model_dir=str(directory), mode="evaluate", **fields)

    assert "nowhere is no directory; give that of a run" in refused(config(tmp_path / "nowhere"), program)
    assert "best_weights holds no readable run.json" in refused(config(run / "best_weights"), program)
    assert "--eval_files=none-* matches no file" in refused(config(eval_files="none-*"), program, task)
    assert "--checkpoint=model.ckpt-7 is no checkpoint" in refused(config(checkpoint="model.ckpt-7"), program, task)
    assert "does not fit the model of task small" in refused(config(), program, Wider())
    (run / f"model.ckpt-{LAST_STEP}.index").write_bytes(b"")  # damaged: the one before is the latest
    capsys.readouterr()
    before = listing(run)
    assert reader(program).evaluate(config(), task)["global_step"] < LAST_STEP
    assert f"skipped model.ckpt-{LAST_STEP}: model.ckpt-{LAST_STEP}.index has 0 bytes" in capsys.readouterr().err
    assert listing(run) == before
    path = str(run / f"model.ckpt-{LAST_STEP}")
    assert f"--checkpoint={path} cannot be used: " in refused(config(checkpoint=path), program, task)
    other = {"lowlevel": "estimator", "estimator": "lowlevel"}[program]
    for prefix in run.glob("model.ckpt-*.index"):
        prefix = str(prefix)[: -len(".index")]
        manifest = model_dir.read_manifest(prefix)
        if manifest:
            del manifest["files"]
            manifest["contract"]["program"] = other
            model_dir.commit(prefix, manifest)
    line = f"--model_dir={run} belongs to {other}, this is {program}; run {other} on it"
    assert line in refused(config(), program, task)
    for path in (*run.glob("model.ckpt-*"), *run.glob("best_weights/*")):
        path.unlink()
    assert "holds no whole checkpoint (latest); train first" in refused(config(), program, task)
    assert "holds no whole checkpoint (best); give --checkpoint=latest" in refused(config(checkpoint="best"), program, task)


class Wider(ByName):
    """Another model than the one that was trained."""

    def model(self, seed):
        model = tf.keras.Sequential([tf.keras.layers.Dense(77)])
        model.build([None, 5])
        return model


# A kill in the middle of an export.

HELD = """
import glob, threading
from tests.tiny_task import Tiny

class Held(Tiny):
    def call(self, model, features, training, seed):
        if glob.glob("run/export/temp-*"):  # the SavedModel is being made
            print("in the middle of the export", flush=True)
            threading.Event().wait()
        return super().call(model, features, training, seed)
"""


def killed_in_the_export(program, folder, flags):
    """Starts a program as a process and kills it with SIGKILL while it exports."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"{program}.train", *(f"--{key}={value}" for key, value in flags.items())],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": REPOSITORY},
    )
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("in the middle"):
            process.kill()
    assert process.wait() == -9, "".join(lines)


def test_sigkill_in_the_middle_of_an_export_is_finished_at_the_next_start(tmp_path, monkeypatch, capsys):
    flags = {}
    for program in runs.PROGRAMS:
        folder = tmp_path / program
        files = tiny_task.write_data(folder / "data")
        (folder / "held.py").write_text(HELD)
        flags[program] = dict(model_dir="run", task="held:Held", num_epochs=1, batch_size=5, **files._asdict())
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda program: killed_in_the_export(program, tmp_path / program, flags[program]), runs.PROGRAMS))
    for program in runs.PROGRAMS:
        monkeypatch.chdir(tmp_path / program)
        (temporary,) = os.listdir("run/export")
        assert temporary.startswith("temp-")
        had_begun = os.listdir(f"run/export/{temporary}")
        checkpoints = listing(tmp_path / program / "run" / "best_weights")
        loop = importlib.import_module(f"{program}.loop")
        result = loop.train_and_evaluate(TrainConfig(**flags[program]), tiny_task.Tiny())
        out = capsys.readouterr().out
        what = "an export that was not finished" if had_begun else "the empty folder of an export"
        assert f"removed export/{temporary}, {what}" in out
        assert out.splitlines()[-1].startswith("done 5/5 · best accuracy")
        assert f" · {exports.newest('run')} · 2 starts, 1 kill, 0 steps done again" in out
        assert os.listdir("run/export") == [os.path.basename(result.export)]
        served = tf.saved_model.load(result.export).signatures["serving_default"]
        assert served(features=tf.zeros([3, 4]))["outputs"].shape == [3, 2]
        assert listing(tmp_path / program / "run" / "best_weights") == checkpoints
