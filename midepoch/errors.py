"""The two ways a run ends early, as exceptions."""


class UserError(Exception):
    """Something only the user can put right; its text is the one line they see.

    The line says what is wrong, the value received, and how to fix it. The programs print it and exit with code 1.
    """


def one_line(error: BaseException, limit: int = 300) -> str:
    """Returns the first line with text of an exception's message, cut to `limit` characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"
