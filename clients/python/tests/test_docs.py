"""The README and the guide, walked as they are written: only the port is another one."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gate import BINARY, ROOT, Served

README = ROOT / "clients/python/README.md"
GUIDE = ROOT / "docs/guides/langgraph.md"
WITHIN_S = 60.0


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


class Reader:
    """Somebody who follows a page in a new folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "countersign.toml").write_text(f'listen = "{self.address}"\nserver = "http://{self.address}"\n')
        (folder / "bin").mkdir()
        (folder / "bin/countersign").symlink_to(BINARY)
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        self.environment = {"PATH": path, "PYTHONPATH": str(ROOT / "clients/python/src")}
        self.server: Served | None = None

    def types(self, script: str) -> None:
        """Every line of a block of commands, but for what installs packages."""
        for line in script.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["export"]:
                name, _, value = words[1].partition("=")
                self.environment[name] = value
            elif words == ["countersign", "serve", "&"]:
                self.server = Served(["serve"], self.folder, self.environment)
            elif words and words[0] != "pip":
                self.runs(words)

    def python(self, program: str) -> str:
        """A program, saved and run."""
        url = f"http://{self.address}"
        assert "Client(key=" in program
        (self.folder / "program.py").write_text(program.replace("Client(key=", f'Client("{url}", key='))
        return self.runs([sys.executable, "program.py"])

    def runs(self, words: list[str]) -> str:
        ran = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
        return ran.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    if reader.server is not None:
        reader.server.stop()


def shown(page: Path, at: int) -> list[str]:
    """The lines of output that a page promises, without the place where it leaves something out."""
    return [line for line in blocks(page, "text")[at].splitlines() if line != "…"]


def test_the_readme_works_as_written(reader: Reader) -> None:
    _, setup = blocks(README, "sh")
    race, decorated = blocks(README, "python")
    reader.types(setup)
    printed = reader.python(race).splitlines()
    assert all(line in printed for line in shown(README, 0)), printed
    assert any(line.startswith("look again: ") for line in printed)
    # The account is frozen by now.
    assert "account-is-active" in reader.python(decorated)
    reader.types("""countersign fact put Account 42 '{"status":"active","balance":900000,"owner":"ada"}'""")
    assert reader.python(decorated) == "told the customer about 100\n"


def test_the_guide_to_langgraph_works_as_written(reader: Reader) -> None:
    [setup] = blocks(GUIDE, "sh")
    [program] = blocks(GUIDE, "python")
    reader.types(setup)
    printed = reader.python(program).splitlines()
    assert all(line in printed for line in shown(GUIDE, 0)), printed
    assert printed[-1] == "ai: The account was frozen in the meantime, so I did not refund."


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
