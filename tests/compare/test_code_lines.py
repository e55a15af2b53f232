from compare import code_lines

SOURCE = '''"""Docstring
of two lines."""

import os  # a comment behind code


# a comment
def f(x):
    """Docstring."""
    text = """a string
    of two lines"""
    return (
        x, text)
'''


def test_blank_lines_comments_and_docstrings_do_not_count():
    assert code_lines.count(SOURCE) == 6  # import, def, 2 of text, 2 of return
    assert code_lines.count("# nothing\n\n") == 0


def test_files(tmp_path):
    (tmp_path / "a.py").write_text(SOURCE)
    (tmp_path / "b.py").write_text("x = 1\n")
    assert code_lines.count_files([str(tmp_path / "a.py"), str(tmp_path / "b.py")]) == 7
