"""The one line of a long message."""

import pytest

from midepoch.errors import one_line

IN_GRAPH = """Graph execution error:

Detected at node Parse/Example defined at (most recent call last):
  File "my_task.py", line 15, in <module>

  File "my_task.py", line 14, in parse

Name: <unknown>, Feature: pixels is required but could not be found.
\t [[{{node Parse/Example}}]] [Op:__inference_f_141]"""

IN_LAYER = """Exception encountered when calling Sequential.call().

\x1b[1mInput 0 of layer 'hidden' is incompatible\x1b[0m

Arguments received by Sequential.call():
  • mask=None"""

IN_USER_CODE = """in user code:

    File "my_task.py", line 3, in call  *
        return features @ weights

    ValueError: Dimensions must be equal"""


@pytest.mark.parametrize(
    "message, line",
    [
        (IN_GRAPH, "Name: <unknown>, Feature: pixels is required but could not be found."),
        (IN_LAYER, "Input 0 of layer 'hidden' is incompatible"),
        (IN_USER_CODE, "ValueError: Dimensions must be equal"),
        ("\n  \n plain \nmore", "plain"),
        ("", "ValueError"),
        ("Graph execution error:\n", "ValueError"),
        ("x" * 400, "x" * 299 + "…"),
    ],
)
def test_line_that_says_what_happened(message, line):
    assert one_line(ValueError(message)) == line
