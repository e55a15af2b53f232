"""Entry point: flags → config → one call → exit code.

It is short because everything that trains is in `loop.py`, where a notebook can call it too.
"""

from midepoch import cli


def train(config, stopping=None):
    """Trains as the config says; imports TensorFlow only now, so that a mistyped flag is answered at once."""
    cli.quiet_tensorflow()
    from lowlevel import loop

    return loop.train_and_evaluate(config, stopping=stopping)


def main() -> None:
    """The console script `midepoch-lowlevel`."""
    cli.run(train)


if __name__ == "__main__":
    main()
