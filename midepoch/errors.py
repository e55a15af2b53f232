"""Errors for people: what only the user can put right, and the line of a long message that says what happened."""

import re


class UserError(Exception):
    """Something only the user can put right; its text is the one line they see.

    The line says what is wrong, the value received, and how to fix it. The programs print it and exit with code 1.
    """


_COLOUR = re.compile("\x1b\\[[0-9;]*m")
# What TensorFlow and Keras write around the line that says what happened.
_AROUND = re.compile(
    r"in user code:|Node: |Graph execution error:|Exception encountered when calling|Detected at node|<stack traces|"
    r'File "|Traceback'
)


def one_line(error: BaseException, limit: int = 300) -> str:
    """Returns the first line of an exception's message that says something, cut to `limit` characters.

    Args:
      error: the exception; its message may hold colours, stack frames and introductions of TensorFlow and Keras.
      limit: characters, at least 1.
    """
    said, in_frame = [], False
    for line in _COLOUR.sub("", str(error)).splitlines():
        around = _AROUND.match(line.strip())
        is_code = in_frame and line[:1].isspace()  # a frame's second line
        if line.strip() and not around and not is_code:
            said.append(line.strip())
        in_frame = bool(around) and around.group() == 'File "'
    text = said[0] if said else type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"
