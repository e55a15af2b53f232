"""The mirror: `estimator/` and `lowlevel/` have the same files and the same public names, apart from the exceptions below.

The files are parsed, not imported, so the test needs no TensorFlow.
"""

import ast
import os

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = ("estimator", "lowlevel")

# What Estimator calls, where lowlevel's loop is written out.
_HOOK = "tf.estimator owns the loop and calls its hooks and listeners; lowlevel/loop.py does the same in plain order"
# A graph's tensors are found by name; lowlevel returns them from a function.
_TENSOR_NAME = "hooks find tensors of the graph by name; in lowlevel the train step returns them"

# (file, name) → why the other program has no such name. Sides: where the name stands.
EXCEPTIONS = {
    "estimator": {
        ("export.py", "serving_input_receiver_fn"): "an Estimator builds the graph itself, from inputs made by a function",
        ("export.py", "receiver_fn"): "the same",
        ("evaluate.py", "scratch_estimator"): "an Estimator writes its evaluations into its model_dir, so it gets a scratch one",
        ("train.py", "require_estimator"): "only this program needs a TensorFlow that has tf.estimator",
        ("loop.py", "run_config"): "RunConfig is Estimator's own; the other loop reads TrainConfig directly",
        ("model.py", "MEAN_LOSS"): "Estimator keeps the metric name `loss` for its own mean of batch means",
        ("model.py", "make_model_fn"): "an Estimator wants a function that builds graphs; the counterpart is the class Model",
        ("model.py", "model_fn"): "the same",
        ("model.py", "before_run"): _HOOK,
        ("model.py", "per_example"): "== between tensors means something else in a graph; caught where it shows",
        ("inputs.py", "resumable"): "puts the iterator into the Saver; a tf.train.Checkpoint tracks it without help",
        ("inputs.py", "input_fn"): "an Estimator builds its input itself, in its own graph, so it wants a function",
        ("inputs.py", "ITERATOR"): "the iterator's name in the checkpoint; in lowlevel it is the keyword of tf.train.Checkpoint",
        ("inputs.py", "EXAMPLES_SEEN"): "the counter's name in the checkpoint; in lowlevel it is the keyword of tf.train.Checkpoint",
        ("inputs.py", "EXAMPLE_IDS"): _TENSOR_NAME,
        ("inputs.py", "POSITION_AFTER"): _TENSOR_NAME,
        ("checkpoints.py", "is_over"): "the hook tells Estimator when to end; in lowlevel it is the condition of the loop",
        ("checkpoints.py", "CommittingSaver"): "saving, hooking and evaluating are three classes of the framework; the counterpart "
        "is the one class Checkpoints",
        ("checkpoints.py", "SaveOnTheGrid"): "the same",
        ("checkpoints.py", "committing_scaffold"): "by a Scaffold an Estimator takes a Saver that is not its own",
        ("checkpoints.py", "EvaluateAndKeepBest"): "the same; in lowlevel it is the method evaluate_and_keep_best",
        ("checkpoints.py", "restore_from_elsewhere"): "Estimator restores from its model_dir only; from elsewhere by an init_fn",
        ("checkpoints.py", "begin"): _HOOK,
        ("checkpoints.py", "after_create_session"): _HOOK,
        ("checkpoints.py", "before_run"): _HOOK,
        ("checkpoints.py", "after_run"): _HOOK,
        ("checkpoints.py", "after_save"): _HOOK,
        ("checkpoints.py", "end"): _HOOK,
    },
    "lowlevel": {
        ("model.py", "Model"): "variables, optimizer and iterator are Python objects that somebody has to own; in an Estimator "
        "the graph does",
        ("model.py", "train_steps"): "many steps in one call; an Estimator makes one session call a step",
        ("model.py", "train"): "the same",
        ("export.py", "serving_signatures"): "the counterpart of serving_input_receiver_fn: traced functions",
        ("export.py", "serve_features"): "the same",
        ("export.py", "serve_examples"): "the same",
        ("evaluate.py", "restored_model"): "an Estimator takes a checkpoint path in evaluate, predict and export_saved_model",
        ("checkpoints.py", "restore_weights"): "the same",
        ("checkpoints.py", "Checkpoints"): "the counterpart of the three classes in estimator/checkpoints.py",
        ("checkpoints.py", "commit"): "a CheckpointManager takes a callback; the Saver's steps are written out in save_and_commit",
    },
}


def files(program):
    return {name for name in os.listdir(os.path.join(ROOT, program)) if name.endswith(".py")}


def public_names(source):
    """Returns the public names that a file defines: functions, classes, methods, functions in functions, constants."""
    tree = ast.parse(source)
    names = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        names |= {leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def read(program, name):
    with open(os.path.join(ROOT, program, name), encoding="utf-8") as file:
        return file.read()


def one_sided(sources):
    """Returns {program: {(file, name)}}: what each program has and the other has not.

    Args:
      sources: {program: {file: source}}.
    """
    names = {program: {(f, n) for f, text in sources[program].items() for n in public_names(text)} for program in PROGRAMS}
    first, second = PROGRAMS
    return {first: names[first] - names[second], second: names[second] - names[first]}


def all_sources():
    return {program: {name: read(program, name) for name in files(program)} for program in PROGRAMS}


def test_the_same_file_names():
    assert files("estimator") == files("lowlevel")


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_public_names_apart_from_the_exceptions(program):
    assert one_sided(all_sources())[program] - set(EXCEPTIONS[program]) == set(), (
        "a public name stands in one program only: give it to the other one too, or list it in EXCEPTIONS with its reason"
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_exception_is_out_of_date(program):
    assert set(EXCEPTIONS[program]) - one_sided(all_sources())[program] == set(), "this exception is not needed any more"


def test_every_exception_has_a_reason():
    assert all(len(reason) >= len("the same") for listed in EXCEPTIONS.values() for reason in listed.values())


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("added", ["def anew():\n    pass\n", "class Anew:\n    pass\n", "ANEW = 1\n", "class _P:\n    def anew(self): pass\n"])
def test_control_a_name_added_on_one_side_is_caught(program, added):
    sources = all_sources()
    sources[program]["loop.py"] += added
    assert one_sided(sources)[program] - set(EXCEPTIONS[program])


@pytest.mark.parametrize("name", sorted(files("estimator") & files("lowlevel")))
def test_shared_functions_stand_in_the_same_order(name):
    """The diff of two files that name the same things in another order teaches nothing."""
    orders = []
    for program in PROGRAMS:
        tree = ast.parse(read(program, name))
        functions = sorted((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)), key=lambda n: n.lineno)
        orders.append([n.name for n in functions if not n.name.startswith("_")])
    shared = set(orders[0]) & set(orders[1])
    first, second = ([n for n in order if n in shared] for order in orders)
    assert first == second


@pytest.mark.parametrize("name", sorted(files("estimator") & files("lowlevel")))
def test_neither_program_imports_the_other(name):
    for program, other in (PROGRAMS, PROGRAMS[::-1]):
        for node in ast.walk(ast.parse(read(program, name))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            assert not any(module.split(".")[0] == other for module in modules), f"{program}/{name} imports {modules}"
