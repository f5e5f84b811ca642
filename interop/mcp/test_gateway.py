"""The gateway between the official Python SDK and real servers, over both transports, in both revisions.

Everything is on loopback and bounded in time; every process is started here and ended here, by its id.
"""

import asyncio
import contextlib
import http.server
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult

COUNTERSIGN = os.environ["COUNTERSIGN"]
HERE = pathlib.Path(__file__).parent
BIN = pathlib.Path(sys.executable).parent
MODES = ["legacy", "2026-07-28", "auto"]
PATIENCE = 60.0


class World:
    """A folder with a gate that runs, an agent, and a repository."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.repository = folder / "repository"
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", str(self.repository)]
        subprocess.run(["git", "init", "-q", "-b", "main", str(self.repository)], check=True)
        (self.repository / "a.txt").write_text("one\n")
        subprocess.run([*git, "add", "a.txt"], check=True)
        subprocess.run([*git, "commit", "-qm", "first"], check=True)
        (self.repository / "a.txt").write_text("two\n")
        self.run("init", "--open")
        self.gate, self.url = self.listening("serve", "--listen", "127.0.0.1:0")
        agent = '{"roles":[],"standing":"active","org":"acme","trust":500}'
        self.run("fact", "put", "Agent", "coder-1", agent, "--server", self.url)
        self.upstreams = {
            "time": [str(BIN / "mcp-server-time"), "--local-timezone", "UTC"],
            "git": [str(BIN / "mcp-server-git"), "--repository", str(self.repository)],
            "fetch": [str(BIN / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips"],
            "bank": [sys.executable, str(HERE / "bank.py")],
        }

    def run(self, *words: str) -> str:
        done = subprocess.run([COUNTERSIGN, *words], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def listening(self, *words: str) -> tuple[subprocess.Popen[str], str]:
        """Starts something that listens, and gives its address."""
        process = subprocess.Popen([COUNTERSIGN, *words], cwd=self.folder, stderr=subprocess.PIPE, text=True)
        said = ""
        for line in process.stderr:
            said += line
            if line.startswith("Listening on "):
                # What it says later must not fill the pipe.
                threading.Thread(target=process.stderr.read, daemon=True).start()
                return process, line.removeprefix("Listening on ").strip()
        raise AssertionError(f"{words} ended: {said}")

    def flags(self, *names: str) -> list[str]:
        words = []
        for name in names:
            command = self.upstreams[name]
            words += ["--upstream", f"{name}={command if isinstance(command, str) else ' '.join(command)}"]
        return words

    def approve(self, *names: str) -> None:
        self.run("mcp", "approve", *self.flags(*names), "--server", self.url)

    def gateway(self, *names: str) -> list[str]:
        return ["mcp", "serve", "--agent", "coder-1", "--server", self.url, *self.flags(*names)]

    def stdio(self, *names: str, mode: str, **more) -> Client:
        parameters = StdioServerParameters(command=COUNTERSIGN, args=self.gateway(*names), cwd=str(self.folder))
        return Client(stdio_client(parameters), mode=mode, read_timeout_seconds=PATIENCE, **more)

    def direct(self, name: str, mode: str) -> Client:
        command = self.upstreams[name]
        if isinstance(command, str):
            return Client(command, mode=mode, read_timeout_seconds=PATIENCE)
        return Client(stdio_client(StdioServerParameters(command=command[0], args=command[1:])), mode=mode)


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert code == 0, code


@contextlib.contextmanager
def over_http(world: World, *names: str):
    process, url = world.listening(*world.gateway(*names), "--listen", "127.0.0.1:0")
    try:
        yield lambda mode, **more: Client(url, mode=mode, read_timeout_seconds=PATIENCE, **more)
    finally:
        stop(process)


def plain(model) -> object:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def tools_of(client: Client) -> list[object]:
    return [plain(tool) for tool in (await client.list_tools()).tools]


async def the_same_as_without(world: World, connect, name: str, mode: str, calls) -> None:
    """Tools and results are what the server itself gives."""
    async with world.direct(name, mode) as client:
        tools = await tools_of(client)
        results = [plain(await client.call_tool(tool, arguments)) for tool, arguments in calls]
    async with connect(mode) as client:
        assert await tools_of(client) == tools, name
        for (tool, arguments), expected in zip(calls, results, strict=True):
            assert plain(await client.call_tool(tool, arguments)) == expected, (name, mode, tool)


async def refused(client: Client, tool: str, arguments: dict) -> None:
    result = await client.call_tool(tool, arguments)
    said = result.meta["countersign"]
    assert result.is_error and said["verdict"] == "rejected" and said["retry"] == {"how": "never"}, result
    text = result.content[0].text
    assert "countersign mcp approve" in text and f"/{tool.split('__')[-1]} --guard as-read" in text, result


def page() -> tuple[http.server.HTTPServer, str]:
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"hello from loopback"
            self.send_response(200)
            self.send_header("content-type", "text/plain")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/"


async def real_servers(world: World) -> None:
    site, url = page()
    world.approve("time", "git", "fetch")
    repository = {"repo_path": str(world.repository)}
    calls = {
        "time": [("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"})],
        "git": [("git_status", repository), ("git_diff_unstaged", repository), ("git_log", repository)],
        "fetch": [("fetch", {"url": url})],
    }
    for name, some in calls.items():
        for mode in MODES[:2]:
            await the_same_as_without(world, lambda mode, name=name: world.stdio(name, mode=mode), name, mode, some)
        with over_http(world, name) as connect:
            for mode in MODES[:2]:
                await the_same_as_without(world, connect, name, mode, some)
        print("ok", name)
    with over_http(world, "time", "git", "fetch") as connect:
        for mode in MODES:
            async with connect(mode) as client:
                names = {tool["name"] for tool in await tools_of(client)}
                assert {"time__convert_time", "git__git_status", "fetch__fetch"} <= names, names
                status = await client.call_tool("git__git_status", repository)
                assert "a.txt" in status.content[0].text, status
                await refused(client, "git__git_commit", {**repository, "message": "no"})
    print("ok three servers as one")
    site.shutdown()


async def asking_back(client: Client, modern: bool) -> None:
    account = await client.call_tool("get_account", {"account": "abc"})
    assert account.structured_content == {"status": "active", "balance": 3}, account
    seen = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total))

    audited = await client.call_tool("audit", {}, progress_callback=progress)
    assert audited.content[0].text == "all is well" and seen == [(1, 3), (2, 3), (3, 3)], (audited, seen)
    assert (await client.read_resource("bank://rules")).contents[0].text == "be fair"
    assert "Ada" in (await client.get_prompt("greet", {"name": "Ada"})).messages[0].content.text
    await refused(client, "transfer", {"account": "abc", "amount": 1})
    if not modern:
        assert (await client.call_tool("are_you_sure", {})).content[0].text == "accept True"


async def yes(_context, _params) -> ElicitResult:
    return ElicitResult(action="accept", content={"sure": True})


async def bank(world: World, how: str) -> None:
    for mode in MODES[:2]:
        async with world.stdio("bank", mode=mode, elicitation_callback=yes) as client:
            await asking_back(client, mode != "legacy")
    with over_http(world, "bank") as connect:
        for mode in MODES[:2]:
            async with connect(mode, elicitation_callback=yes) as client:
                await asking_back(client, mode != "legacy")
    print("ok a bank", how)


async def bank_over_http(world: World) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(HERE / "bank.py"), str(port)], stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert time.monotonic() < until and server.poll() is None, "the bank does not listen"
            time.sleep(0.05)
        world.upstreams["bank"] = f"http://127.0.0.1:{port}/mcp"
        world.approve("bank")
        await bank(world, "over HTTP")
    finally:
        server.terminate()
        server.wait(PATIENCE)


async def many(world: World) -> None:
    """Clients at the same time, each with its own session, and nothing left of them."""
    process, url = world.listening(*world.gateway("time"), "--listen", "127.0.0.1:0")

    async def one(number: int) -> None:
        async with Client(url, mode=MODES[number % 2], read_timeout_seconds=PATIENCE) as client:
            for _ in range(2):
                converted = {"source_timezone": "UTC", "time": f"{number:02}:00", "target_timezone": "UTC"}
                result = await client.call_tool("convert_time", converted)
                assert f"T{number:02}:00:00" in result.content[0].text, result

    await asyncio.gather(*(one(number) for number in range(8)))
    stop(process)
    left = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout
    assert left == "", left
    print("ok eight clients at once")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(pathlib.Path(folder))
        try:
            await real_servers(world)
            await many(world)
            world.approve("bank")
            await bank(world, "over standard input and output")
            await bank_over_http(world)
        finally:
            stop(world.gate)
        world.run("audit")
    print("ok")


if __name__ == "__main__":
    asyncio.run(main())
