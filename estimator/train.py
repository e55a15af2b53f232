"""Entry point: flags → config → one call → exit code.

It is short because everything that trains is in `loop.py`, where a notebook can call it too.
"""

from midepoch import cli
from midepoch.errors import UserError


def train(config, stopping=None):
    """Trains as the config says; imports TensorFlow only now, so that a mistyped flag is answered at once."""
    cli.quiet_tensorflow()
    require_estimator()
    from estimator import loop

    return loop.train_and_evaluate(config, stopping=stopping)


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
    cli.run(train)


if __name__ == "__main__":
    main()
