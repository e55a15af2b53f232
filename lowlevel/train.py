"""Entry point: flags → config → one call → exit code.

It is short because everything that trains is in `loop.py`, and what reads a trained model in `evaluate.py`, where a notebook
can call it too.
"""

from midepoch import cli


def train(config, stopping=None):
    """Trains as the config says; imports TensorFlow only now, so that a mistyped flag is answered at once."""
    cli.quiet_tensorflow()
    from lowlevel import loop

    return loop.train_and_evaluate(config, stopping=stopping)


def evaluate(config):
    """Prints the metrics of a checkpoint as a line of JSON."""
    cli.quiet_tensorflow()
    from lowlevel import evaluate as saved

    cli.print_json([saved.evaluate(config)])


def predict(config):
    """Prints the outputs for each evaluation example as a line of JSON."""
    cli.quiet_tensorflow()
    from lowlevel import evaluate as saved

    cli.print_json(saved.predict(config))


def main() -> None:
    """The console script `midepoch-lowlevel`."""
    cli.run(train, {"evaluate": evaluate, "predict": predict})


if __name__ == "__main__":
    main()
