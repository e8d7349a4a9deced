"""Write anew what is generated: docs/tables.md, and the summary of the demo in README.md.

    python docs/refresh.py            rewrite them (``make docs``)

``tests/test_docs.py`` fails where they are not current.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from aftershock.table_docs import page_text

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- summary of make demo -->\n", "<!-- end of summary -->\n"


def demo_summary(out: str) -> str:
    """What ``aftershock run`` prints for the demo bundle."""
    command = [sys.executable, "-m", "aftershock", "run", "examples/demo/logs"]
    command += ["--config", "examples/demo/aftershock.toml", "--out", out, "--overwrite"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def with_summary(readme: str, summary: str) -> str:
    """The README with that summary as an indented block between its marks."""
    block = "".join(f"    {line}".rstrip() + "\n" for line in summary.strip("\n").splitlines())
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{block}\n{END}", readme, flags=re.DOTALL)


def main() -> None:
    """Rewrite both."""
    (ROOT / "docs" / "tables.md").write_text(page_text(), encoding="utf-8")
    readme = ROOT / "README.md"
    readme.write_text(with_summary(readme.read_text("utf-8"), demo_summary("build/demo")), encoding="utf-8")


if __name__ == "__main__":
    main()
