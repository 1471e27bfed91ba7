#!/usr/bin/env python3
"""check_readme.py README FILE...: the README shows each file as it is compiled and run.

Each file has to be, to the letter, the one fenced block of its language (```cpp, ```c, ```json). Prints where they differ
and exits 1.
"""
import difflib
import re
import sys
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def problem(readme, file):
    """What is wrong, as text; None where the block is the file."""
    language = file.suffix.lstrip(".")
    blocks = [text for name, text in BLOCK.findall(readme.read_text()) if name == language]
    if len(blocks) != 1:
        return f"{readme.name}: expected one ```{language} block, for {file.name}; found {len(blocks)}\n"
    shown, real = blocks[0].splitlines(True), file.read_text().splitlines(True)
    if shown == real:
        return None
    diff = difflib.unified_diff(shown, real, readme.name, file.name)
    return f"{readme.name} differs from {file.name}: copy the file into its ```{language} block\n" + "".join(diff)


def main(arguments):
    if len(arguments) < 2:
        sys.stderr.write(__doc__)
        return 2
    readme, *files = map(Path, arguments)
    problems = [text for file in files if (text := problem(readme, file))]
    sys.stderr.writelines(problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
