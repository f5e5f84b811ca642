"""The package, as it is built. What its README and the guide to LangGraph say is pasted by `cargo xtask test --only guides`."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.gate import ROOT

README = ROOT / "clients/python/README.md"
WITHIN_S = 60.0


def test_the_package_builds_with_its_types_and_without_its_tests(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    ran = subprocess.run(build, cwd=README.parent, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert ran.returncode == 0, ran.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    modules = {path.name for path in (README.parent / "src/countersign").glob("*.py")}
    assert {f"countersign/{name}" for name in modules | {"py.typed"}} <= set(names)
    assert not [name for name in names if "tests" in name]
