"""Real servers behind `countersign mcp try`, with no rule written for any of them.

Each task reads and then writes, and uses every tool of its server that writes. It runs four times: straight on the server; through the
gate, undisturbed; through the gate, while something that it read is changed behind its back before each write; and through the gate,
while things are changed that it never read. What counts is what the server has in the end, and not what the client was told.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COUNTERSIGN = os.environ["COUNTERSIGN"]
NODE_SERVERS = Path(os.environ["NODE_SERVERS"])
SQLITE = os.environ["SQLITE_SERVER"]
GIT = os.environ["GIT_SERVER"]
ENV = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
AUTHOR = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
# Answers that do not come are a failure, and not a wait.
ANSWER_WITHIN = 60


class Client:
    """A client over standard input and output."""

    def __init__(self, command, cwd):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=ENV
        )
        self.asked = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "task", "version": "1"}}
        self.request("initialize", hello)
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.asked += 1
        self.send({"id": self.asked, "method": method, "params": params})
        until = time.monotonic() + ANSWER_WITHIN
        while time.monotonic() < until:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"no answer to {method}: {self.process.stderr.read()}")
            message = json.loads(line)
            if message.get("id") == self.asked:
                return message
        raise AssertionError(f"no answer to {method} in {ANSWER_WITHIN} s")

    def call(self, tool, **arguments):
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            raise AssertionError(f"{tool}: {answer['error']}")
        return answer["result"]

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.process.stdout.close()
            self.process.stderr.close()


def text(result):
    return "\n".join(item.get("text", "") for item in result.get("content", []))


def refused(result):
    meta = result.get("_meta", {}).get("countersign", {})
    code = meta.get("code") or meta.get("error", {}).get("code")
    return code if result.get("isError") and str(code).startswith("reading_") else None


class Files:
    """Files, of `@modelcontextprotocol/server-filesystem`."""

    name = "filesystem"
    writes = {"write_file", "edit_file", "create_directory", "move_file"}

    def __init__(self, folder):
        self.root = folder / "files"
        self.root.mkdir()
        (self.root / "plan.txt").write_text("buy 10 apples\n")
        (self.root / "list.txt").write_text("tea\nrice\n")
        (self.root / "unread.txt").write_text("nothing to see\n")

    def command(self):
        return ["node", str(NODE_SERVERS / "server-filesystem/dist/index.js"), str(self.root)]

    def steps(self):
        root = self.root
        read = ("read_text_file", {"path": str(root / "plan.txt")})
        return [
            ([read], ("write_file", {"path": str(root / "done.txt"), "content": "bought\n"})),
            ([("read_text_file", {"path": str(root / "list.txt")})], (
                "edit_file", {"path": str(root / "list.txt"), "edits": [{"oldText": "tea", "newText": "green tea"}]})),
            ([("list_directory", {"path": str(root)})], ("create_directory", {"path": str(root / "old")})),
            ([("list_directory", {"path": str(root / "old")})], (
                "move_file", {"source": str(root / "done.txt"), "destination": str(root / "old/done.txt")})),
        ]

    def disturb(self, number):
        with (self.root / "plan.txt").open("a") as plan:
            plan.write(f"and {number} pears\n")

    def disturb_unread(self, number):
        (self.root / "unread.txt").write_text(f"changed {number}\n")

    def state(self):
        found = {str(path.relative_to(self.root)): path.read_text() for path in sorted(self.root.rglob("*")) if path.is_file()}
        found.pop("plan.txt")
        found.pop("unread.txt")
        return found


class Memory:
    """Notes as a graph, of `@modelcontextprotocol/server-memory`."""

    name = "memory"
    writes = {
        "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations", "delete_relations",
    }

    def __init__(self, folder):
        self.file = folder / "memory.jsonl"
        lines = [
            {"type": "entity", "name": name, "entityType": "person", "observations": ["works"]}
            for name in ("ann", "bob", "eve")
        ]
        self.file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")

    def command(self):
        return ["env", f"MEMORY_FILE_PATH={self.file}", "node", str(NODE_SERVERS / "server-memory/dist/index.js")]

    def steps(self):
        look = ("open_nodes", {"names": ["ann", "bob"]})
        knows = {"from": "ann", "to": "bob", "relationType": "knows"}
        zoe = {"name": "zoe", "entityType": "person", "observations": []}
        return [
            ([look], ("create_entities", {"entities": [zoe]})),
            ([look], ("create_relations", {"relations": [knows]})),
            ([look], ("add_observations", {"observations": [{"entityName": "ann", "contents": ["paid"]}]})),
            ([look], ("delete_observations", {"deletions": [{"entityName": "ann", "observations": ["works"]}]})),
            ([look], ("delete_relations", {"relations": [knows]})),
            ([look], ("delete_entities", {"entityNames": ["zoe"]})),
        ]

    def change(self, name, number):
        lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        for line in lines:
            if line.get("name") == name:
                line["observations"].append(f"was seen {number} times")
        self.file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")

    def disturb(self, number):
        self.change("bob", number)

    def disturb_unread(self, number):
        self.change("eve", number)

    def state(self):
        lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        for line in lines:
            if line.get("type") == "entity":
                line["observations"] = [it for it in line["observations"] if "was seen" not in it]
        return sorted(json.dumps(line, sort_keys=True) for line in lines)


class Sqlite:
    """A database, of `mcp-server-sqlite`: no tool says of itself whether it writes."""

    name = "sqlite"
    writes = {"write_query", "create_table", "append_insight"}

    def __init__(self, folder):
        self.file = folder / "shop.db"
        with self.open() as book:
            book.executescript(
                "create table stock (item text primary key, count integer); insert into stock values ('tea', 10), ('rice', 10);"
                "create table log (line text);"
            )

    def open(self):
        return sqlite3.connect(self.file, timeout=30)

    def command(self):
        return [SQLITE, "--db-path", str(self.file)]

    def steps(self):
        look = ("read_query", {"query": "select item, count from stock where item = 'tea'"})
        return [
            ([look], ("write_query", {"query": "update stock set count = count - 3 where item = 'tea'"})),
            ([("list_tables", {})], ("create_table", {"query": "create table sold (item text)"})),
            ([look], ("append_insight", {"insight": "tea sells"})),
        ]

    def disturb(self, number):
        with self.open() as book:
            book.execute("update stock set count = count + 100 where item = 'tea'")

    def disturb_unread(self, number):
        with self.open() as book:
            book.execute("insert into log values (?)", (str(number),))

    def state(self):
        with self.open() as book:
            tea = book.execute("select count % 100 from stock where item = 'tea'").fetchone()
            return [tea, book.execute("select name from sqlite_master order by name").fetchall()]


class Git:
    """A repository, of `mcp-server-git`."""

    name = "git"
    writes = {"git_add", "git_commit", "git_reset", "git_create_branch", "git_checkout"}

    def __init__(self, folder):
        self.root = folder / "repository"
        self.root.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "t")
        self.git("config", "user.email", "t@example.com")
        (self.root / "a.txt").write_text("one\n")
        self.git("add", "a.txt")
        self.git(*AUTHOR, "commit", "-q", "-m", "one")
        (self.root / "a.txt").write_text("two\n")

    def git(self, *words):
        done = subprocess.run(["git", *words], cwd=self.root, env=ENV, capture_output=True, text=True, check=True)
        return done.stdout

    def command(self):
        return [GIT, "--repository", str(self.root)]

    def steps(self):
        repo = {"repo_path": str(self.root)}
        look = ("git_status", repo)
        return [
            ([look], ("git_add", {**repo, "files": ["a.txt"]})),
            ([look], ("git_reset", repo)),
            ([look], ("git_add", {**repo, "files": ["a.txt"]})),
            ([look], ("git_commit", {**repo, "message": "two"})),
            ([look], ("git_create_branch", {**repo, "branch_name": "next"})),
            ([look], ("git_checkout", {**repo, "branch_name": "next"})),
        ]

    def disturb(self, number):
        (self.root / f"new-{number}.txt").write_text("a file that status lists\n")

    def disturb_unread(self, number):
        self.git("config", "task.number", str(number))

    def state(self):
        log = self.git("log", "--format=%s %T", "--all")
        return [log, self.git("branch", "--format=%(refname)"), self.git("symbolic-ref", "HEAD"), (self.root / "a.txt").read_text()]


class Count:
    """What happened in one run."""

    def __init__(self):
        self.writes = self.refusals = self.stale = 0


def work(client, world, disturb=None):
    """Does the task; where a write is refused, looks at what it is told and makes the call again."""
    seen = Count()
    used = set()
    for number, (reads, (tool, arguments)) in enumerate(world.steps()):
        for read, of in reads:
            answer = client.call(read, **of)
            assert not answer.get("isError"), f"{world.name}: {read} {of}: {text(answer)}"
        if disturb:
            before = world.state()
            disturb(number)
        for attempt in range(4):
            answer = client.call(tool, **arguments)
            if not refused(answer):
                break
            seen.refusals += 1
            if disturb and world.state() != before:
                seen.stale += 1
            meta = answer["_meta"]["countersign"]
            assert len(text(answer).split("\n{")[0]) <= 2048, f"{world.name}: a refusal of {len(text(answer))} bytes"
            for again in meta.get("retry", {}).get("calls", []):
                client.call(again["tool"], **again.get("arguments", {}))
        assert not refused(answer), f"{world.name}: {tool} is refused each time: {text(answer)}"
        assert not answer.get("isError"), f"{world.name}: {tool} {arguments}: {text(answer)}"
        seen.writes += 1
        used.add(tool)
    assert used == world.writes, f"{world.name}: {world.writes ^ used} is not in the task"
    return seen


def run(kind, way, disturb=None):
    folder = Path(tempfile.mkdtemp(prefix="as-read-"))
    try:
        world = kind(folder)
        command = world.command()
        if way == "gate":
            quoted = " ".join("'" + word + "'" for word in command)
            command = [COUNTERSIGN, "mcp", "try", quoted, "--name", kind.name, "--data", str(folder / "gate")]
        client = Client(command, folder)
        try:
            count = work(client, world, disturb and (lambda number: getattr(world, disturb)(number)))
        finally:
            client.end()
        state = world.state()
        if way == "gate":
            audit = subprocess.run([COUNTERSIGN, "audit", "--data", str(folder / "gate")], capture_output=True, text=True)
            assert audit.returncode == 0, f"{kind.name}: the audit differs: {audit.stdout}{audit.stderr}"
        return count, state
    finally:
        shutil.rmtree(folder)


def main():
    print("server      writes  refused: undisturbed  read things changed  unread things changed  stale writes")
    for kind in (Files, Memory, Sqlite, Git):
        _, plain = run(kind, "plain")
        quiet, state = run(kind, "gate")
        assert state == plain, f"{kind.name}: another end state through the gate: {state} and not {plain}"
        assert quiet.refusals == 0, f"{kind.name}: {quiet.refusals} refusals although nothing was disturbed"
        loud, state = run(kind, "gate", "disturb")
        assert state == plain, f"{kind.name}: another end state when disturbed: {state} and not {plain}"
        assert loud.refusals > 0, f"{kind.name}: nothing was refused"
        assert loud.stale == 0, f"{kind.name}: {loud.stale} writes ran although they were refused"
        assert loud.refusals <= loud.writes, f"{kind.name}: {loud.refusals} refusals of {loud.writes} writes"
        far, state = run(kind, "gate", "disturb_unread")
        assert state == plain, f"{kind.name}: another end state when other things changed: {state} and not {plain}"
        assert far.refusals == 0, f"{kind.name}: {far.refusals} refusals because of what it never read"
        row = (kind.name, quiet.writes, quiet.refusals, loud.refusals, far.refusals, loud.stale)
        print("{:<11} {:>6}  {:>20}  {:>19}  {:>21}  {:>12}".format(*row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
