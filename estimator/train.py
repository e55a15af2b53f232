"""Entry point: flags → config → one call → exit code.

It is short because everything that trains is in `loop.py`, and what reads a trained model in `evaluate.py`, where a notebook
can call it too.
"""

from midepoch import cli
from midepoch.errors import UserError


def train(config, stopping=None):
    """Trains as the config says; imports TensorFlow only now, so that a mistyped flag is answered at once."""
    cli.quiet_tensorflow()
    require_estimator()
    from estimator import loop

    return loop.train_and_evaluate(config, stopping=stopping)


def evaluate(config):
    """Prints the metrics of a checkpoint as a line of JSON."""
    cli.quiet_tensorflow()
    require_estimator()
    from estimator import evaluate as saved

    cli.print_json([saved.evaluate(config)])


def predict(config):
    """Prints the outputs for each evaluation example as a line of JSON."""
    cli.quiet_tensorflow()
    require_estimator()
    from estimator import evaluate as saved

    cli.print_json(saved.predict(config))


def require_estimator() -> None:
    """Raises UserError where TensorFlow has no `tf.estimator`."""
    import tensorflow as tf

    if not hasattr(tf, "estimator"):
        raise UserError(
            f"TensorFlow {tf.__version__} has no tf.estimator, 2.15 was the last that has it; "
            "run the estimator under Python 3.11 with tensorflow==2.15.1, or use lowlevel here"
        )


def main() -> None:
    """The console script `midepoch-estimator`."""
    cli.run(train, {"evaluate": evaluate, "predict": predict})


if __name__ == "__main__":
    main()
