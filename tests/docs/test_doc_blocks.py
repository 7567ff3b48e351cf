"""What the tests of the documentation rest on: blocks and commands are read right, and a wrong command is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from doc_blocks import blocks, command_lines, same_words, simple_commands
from doc_commands import said_to_ours, understand

PAGE = """# A page

<!-- run -->
```bash
vesper lineage unified   # a comment with an apostrophe: it's one
vesper train online_web --config '{"online":
  {"workers": 2}}' > out.txt 2>&1
A=1 make demo && python -m trainer base \\
  --home x | tee log &
```

<!-- run but sources pull, make demo: they take an hour -->
```
vesper sources pull aitz
vesper sources list
make demo SIZE=tiny
```

<!-- not run: needs a phone -->
```console
$ adb devices
List of devices attached
```
```text
printed
```
"""


def test_blocks_and_their_commands(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    bash, some, console, text = blocks(page)
    assert (bash.mark, bash.line, bash.place) == ("run", 4, "page.md:4")
    assert [simple_commands(line) for line in command_lines(bash)] == [
        [["vesper", "lineage", "unified"]],
        [["vesper", "train", "online_web", "--config", '{"online":\n  {"workers": 2}}']],
        [["make", "demo"], ["python", "-m", "trainer", "base", "--home", "x"], ["tee", "log"]],
    ]
    assert some.left_out == ("sources pull", "make demo") and not bash.left_out and not console.left_out
    commands = [words for line in command_lines(some) for words in simple_commands(line)]
    assert [some.leaves_out(words) for words in commands] == [True, False, True]
    assert console.mark == "not run: needs a phone" and command_lines(console) == ["adb devices"]
    assert console.follows == "printed\n" and text.language == "text" and not bash.follows


def test_what_is_said_to_programs_of_ours_is_found_wherever_they_run() -> None:
    devices = ["vesper", "devices", "list"]
    assert said_to_ours(devices) == devices
    assert said_to_ours(["docker", "compose", "-f", "x.yaml", "exec", "-e", "A=1", "code", *devices]) == devices
    assert said_to_ours(["docker", "exec", "box", "ls"]) == said_to_ours(["helm", "upgrade", "vesper", "x"]) == []


def test_figures_are_no_words() -> None:
    assert same_words("items 15, share 0.733\n  in 74a4eca974a63276") == same_words(
        "items 3,  share 1 in 17b391e336ad6ba5"
    )
    assert same_words("items 15") != same_words("rows 15")


@pytest.mark.parametrize(
    "words",
    [
        "vesper unify aitz --row x",
        "vesper frobnicate",
        "vesper promote gold/aitz --lst",
        "make nothing",
        "make demo FLAVOUR=1",
        "python -m trainer.nothing",
        "python docs/nothing.py",
        "python -m trainer base",
        "torchrun --nproc-per-node 2 -m dagster_project.cli train nothing",
        "deploy/none.sh x",
        "frobnicate",
    ],
)
def test_a_wrong_command_is_found(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError):
        understand(words.split())
