"""Lines of code: of Python files, without blank lines, comments and docstrings."""

import ast
import io
import tokenize
from typing import Sequence

_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def count(source: str) -> int:
    """Returns the number of lines of a Python source that hold code."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented) and ast.get_docstring(node, False)]
    docstrings = {line for node in nodes for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = {line for t in tokens if t.type not in _NO_CODE for line in range(t.start[0], t.end[0] + 1)}
    return len(code - docstrings)


def count_files(paths: Sequence[str]) -> int:
    """Returns the lines of code in some files."""
    lines = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines += count(file.read())
    return lines
