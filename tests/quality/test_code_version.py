"""What a digest of code counts, and what it doesn't."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

from quality.code_version import without_comments

PLAIN = 'def twice(number: int) -> int:\n    text = """\n# not a comment\n"""\n    return 2 * number + len(text)\n'
EXPLAINED = PLAIN.replace("    return", "    # why twice\n    return").replace("def", "# ---\ndef", 1)


def test_a_comment_changes_nothing_and_code_does() -> None:
    assert without_comments(EXPLAINED) == without_comments(PLAIN) == PLAIN
    assert without_comments(EXPLAINED.replace("2 *", "3 *")) != PLAIN


def test_a_line_of_a_string_counts_though_it_looks_like_a_comment() -> None:
    assert without_comments(PLAIN.replace("# not a", "# no")) != PLAIN


def test_what_is_left_of_our_own_modules_is_the_same_program() -> None:
    for path in sorted((Path(__file__).parents[2] / "quality" / "evidence").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        assert ast.dump(ast.parse(without_comments(source))) == ast.dump(ast.parse(source)), path
        comments = {
            token.start[0]
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
        }
        lines = enumerate(source.splitlines(keepends=True), 1)
        assert without_comments(source) == "".join(line for number, line in lines if number not in comments), path


def test_quotes_in_comments_and_number_signs_in_strings_are_what_they_are() -> None:
    code = """a = '#'  # it's\n# isn't\nb = "\\"\\\n# no" + r'\\'''' # no'''\n"""
    ast.parse(code)
    assert without_comments(f"{code}\t# end") == code.replace("# isn't\n", "")
