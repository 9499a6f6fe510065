"""Reports of failed tests reach the process that prints them, whatever their messages hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import report_text

TESTS = """
def test_bad():
    assert False, "\\udcff"

def test_good():
    pass
"""


def test_a_lone_surrogate_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-n1", "-pno:cacheprovider", "-preport_text", "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(Path(report_text.__file__).parent)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
