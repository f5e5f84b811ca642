"""Real servers behind `countersign mcp try`, with no rule written for any of them.

Each task reads and then writes, and uses every tool of its server that writes. It runs straight on the server, and then through the
gate: undisturbed; while something beside its write is changed in what it read, with all readings counting and with those alone that its
writes carry values of; while what it read is deleted, renamed, or becomes another kind of thing; while another session changes it
through the gate; while things are changed that it never read; and with a server that vanishes before it is read again, or after that and
before the call. Where only what writes carry counts, each server also has writes of the very thing that is changed. Then the task runs
once more under a pact that was drafted from the server's tools. What counts is what the server has in the end, and not what the client
was told. Every write before which something changed that the task had read must have been refused: one that ran is stale, whatever came
of it. The same tasks straight on the server, disturbed as well, show that this would be noticed: there every write is stale.
"""

import json
import os
import re
import secrets
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
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


class Http:
    """A client over HTTP, with a session of its own."""

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __init__(self, url):
        self.url, self.session, self.asked = url, None, 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "task", "version": "1"}}
        self.request("initialize", hello)
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, message):
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if self.session:
            headers["mcp-session-id"] = self.session
        request = urllib.request.Request(self.url, json.dumps(message).encode(), headers)
        with self.opener.open(request, timeout=ANSWER_WITHIN) as answer:
            self.session = answer.headers.get("mcp-session-id") or self.session
            lines = answer.read().decode().splitlines()
        lines = [line.removeprefix("data: ") for line in lines if line.startswith(("data: ", "{"))]
        return [json.loads(line) for line in lines if line]

    def request(self, method, params):
        self.asked += 1
        messages = self.post({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params})
        return next(message for message in messages if message.get("id") == self.asked)

    call = Client.call


class Listening:
    """A gateway that listens, with a client of its own."""

    def __init__(self, command, cwd):
        command = [*command, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=cwd, env=ENV)
        for line in self.process.stderr:
            if line.startswith("Listening on "):
                break
        else:
            raise AssertionError("does not listen")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        url = line.removeprefix("Listening on ").strip()
        self.client, self.other = Http(url), Http(url)

    def call(self, tool, **arguments):
        return self.client.call(tool, **arguments)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


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
    reads = {
        "read_file", "read_text_file", "read_media_file", "read_multiple_files", "list_directory", "list_directory_with_sizes",
        "directory_tree", "search_files", "get_file_info", "list_allowed_directories",
    }

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

    def own(self):
        plan, list_ = self.root / "plan.txt", self.root / "list.txt"
        look, look_at_list = ("read_text_file", {"path": str(plan)}), ("read_text_file", {"path": str(list_)})
        edits = [{"oldText": "tea", "newText": "green tea"}]
        return [
            (look, ("write_file", {"path": str(plan), "content": "buy nothing\n"}), lambda: plan.write_text("buy 11 apples\n")),
            (look_at_list, ("edit_file", {"path": str(list_), "edits": edits}), lambda: list_.write_text("tea\nsalt\n")),
            (look_at_list, ("move_file", {"source": str(list_), "destination": str(self.root / "moved.txt")}),
             lambda: list_.write_text("green tea\nmilk\n")),
        ]

    def disturb(self, number):
        with (self.root / "plan.txt").open("a") as plan:
            plan.write(f"and {number} pears\n")

    def disturb_unread(self, number):
        (self.root / "unread.txt").write_text(f"changed {number}\n")

    def plan(self):
        return next(path for path in (self.root / "plan.txt", self.root / "moved.txt") if path.exists())

    def disturb_deleted(self, number):
        plan = self.root / "plan.txt"
        plan.unlink() if plan.exists() else plan.write_text("buy 10 apples\n")

    def disturb_renamed(self, number):
        plan = self.plan()
        plan.rename(self.root / ("moved.txt" if plan.name == "plan.txt" else "plan.txt"))

    def disturb_type(self, number):
        plan = self.root / "plan.txt"
        if plan.is_dir():
            plan.rmdir()
            plan.write_text("buy 10 apples\n")
        else:
            plan.unlink()
            plan.mkdir()

    def through(self, client, number):
        return client.call("write_file", path=str(self.root / "plan.txt"), content=f"buy {number} pears\n")

    def state(self):
        found = {str(path.relative_to(self.root)): path.read_text() for path in sorted(self.root.rglob("*")) if path.is_file()}
        for name in ("plan.txt", "moved.txt", "unread.txt"):
            found.pop(name, None)
        return found


class Memory:
    """Notes as a graph, of `@modelcontextprotocol/server-memory`."""

    name = "memory"
    writes = {
        "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations", "delete_relations",
    }
    reads = {"open_nodes", "read_graph", "search_nodes"}

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

    def own(self):
        look = lambda name: ("open_nodes", {"names": [name]})
        knows = {"from": "ann", "to": "bob", "relationType": "knows"}
        return [
            (look("ann"), ("add_observations", {"observations": [{"entityName": "ann", "contents": ["paid"]}]}),
             lambda: self.change("ann", 1)),
            (look("ann"), ("create_relations", {"relations": [knows]}), lambda: self.change("ann", 2)),
            (look("ann"), ("delete_observations", {"deletions": [{"entityName": "ann", "observations": ["works"]}]}),
             lambda: self.change("ann", 3)),
            (look("bob"), ("delete_entities", {"entityNames": ["bob"]}), lambda: self.change("bob", 4)),
        ]

    def rewrite(self, change):
        lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        lines = [line for line in map(change, lines) if line]
        self.file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")

    def disturb_deleted(self, number):
        bob = {"type": "entity", "name": "bob", "entityType": "person", "observations": ["works"]}
        if '"bob", "entityType"' in self.file.read_text():
            self.rewrite(lambda line: None if line.get("name") == "bob" else line)
        else:
            self.file.write_text(self.file.read_text().rstrip("\n") + "\n" + json.dumps(bob) + "\n")

    def disturb_renamed(self, number):
        other = {"bob": "rob", "rob": "bob"}
        self.rewrite(lambda line: {**line, "name": other.get(line["name"], line["name"])} if "name" in line else line)

    def disturb_type(self, number):
        self.rewrite(lambda line: {**line, "entityType": f"robot {number}"} if line.get("name") == "bob" else line)

    def through(self, client, number):
        observations = [{"entityName": "bob", "contents": [f"was seen {number} times more"]}]
        return client.call("add_observations", observations=observations)

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
        lines = [line for line in lines if line.get("name") not in ("bob", "rob")]
        return sorted(json.dumps(line, sort_keys=True) for line in lines)


class Sqlite:
    """A database, of `mcp-server-sqlite`: no tool says of itself whether it writes."""

    name = "sqlite"
    writes = {"write_query", "create_table", "append_insight"}
    reads = {"read_query", "list_tables", "describe_table"}

    def __init__(self, folder):
        self.file = folder / "shop.db"
        with self.open() as book:
            book.executescript(
                "create table stock (item text primary key, count integer); insert into stock values ('tea', 10), ('rice', 10), ('darjeeling', 10);"
                "create table log (line text);"
            )

    def open(self):
        return sqlite3.connect(self.file, timeout=30)

    def command(self):
        return [SQLITE, "--db-path", str(self.file)]

    def steps(self):
        look = ("read_query", {"query": "select item, count from stock order by item"})
        return [
            ([look], ("write_query", {"query": "update stock set count = count - 3 where item = 'tea'"})),
            ([("list_tables", {})], ("create_table", {"query": "create table sold (item text)"})),
            ([look], ("append_insight", {"insight": "tea sells"})),
        ]

    def sells(self, item):
        with self.open() as book:
            book.execute("update stock set count = count - 1 where item = ?", (item,))

    # Values are found by words of six characters and more: of a row that is named by a shorter one, nothing is carried.
    def own(self):
        look = ("read_query", {"query": "select item, count from stock where item = 'darjeeling'"})
        return [
            (look, ("write_query", {"query": "update stock set count = count - 3 where item = 'darjeeling'"}),
             lambda: self.sells("darjeeling")),
            (look, ("write_query", {"query": "delete from stock where item = 'darjeeling'"}), lambda: self.sells("darjeeling")),
        ]

    def disturb(self, number):
        with self.open() as book:
            book.execute("update stock set count = count + 100 where item like 'ri%'")

    def disturb_deleted(self, number):
        with self.open() as book:
            if not book.execute("delete from stock where item = 'rice'").rowcount:
                book.execute("insert into stock values ('rice', 10)")

    def disturb_renamed(self, number):
        with self.open() as book:
            book.execute("update stock set item = case item when 'rice' then 'rice, long' else 'rice' end where item like 'ri%'")

    def disturb_type(self, number):
        with self.open() as book:
            book.execute("update stock set count = case typeof(count) when 'text' then 10 else 'ten' end where item = 'rice'")

    def through(self, client, number):
        return client.call("write_query", query="update stock set count = count + 1 where item = 'rice'")

    def disturb_unread(self, number):
        with self.open() as book:
            book.execute("insert into log values (?)", (str(number),))

    def state(self):
        with self.open() as book:
            tea = book.execute("select count from stock where item = 'tea'").fetchone()
            return [tea, book.execute("select name from sqlite_master order by name").fetchall()]


class Git:
    """A repository, of `mcp-server-git`."""

    name = "git"
    writes = {"git_add", "git_commit", "git_reset", "git_create_branch", "git_checkout"}
    reads = {"git_status", "git_diff_unstaged", "git_diff_staged", "git_diff", "git_log", "git_show", "git_branch"}

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
        look = [("git_status", repo), ("git_branch", {**repo, "branch_type": "local"})]
        return [
            (look, ("git_add", {**repo, "files": ["a.txt"]})),
            (look, ("git_reset", repo)),
            (look, ("git_add", {**repo, "files": ["a.txt"]})),
            (look, ("git_commit", {**repo, "message": "two"})),
            (look, ("git_create_branch", {**repo, "branch_name": "next"})),
            (look, ("git_checkout", {**repo, "branch_name": "next"})),
        ]

    def own(self):
        repo = {"repo_path": str(self.root)}
        return [
            (("git_diff_unstaged", repo), ("git_add", {**repo, "files": ["a.txt"]}), lambda: (self.root / "a.txt").write_text("three\n")),
            (("git_branch", {**repo, "branch_type": "local"}), ("git_checkout", {**repo, "branch_name": "main"}),
             lambda: self.git("branch", "main-2")),
        ]

    def disturb(self, number):
        (self.root / f"new-{number}.txt").write_text("a file that status lists\n")

    def disturb_deleted(self, number):
        note = self.root / "note.txt"
        note.unlink() if note.exists() else note.write_text("a file that status lists\n")

    def disturb_renamed(self, number):
        note, other = self.root / "note.txt", self.root / "other.txt"
        if note.exists():
            note.rename(other)
        else:
            other.unlink(missing_ok=True)
            note.write_text("a file that status lists\n")

    def disturb_type(self, number):
        note = self.root / "note.txt"
        if note.is_dir():
            (note / "inside").unlink()
            note.rmdir()
            note.write_text("a file\n")
        else:
            note.unlink(missing_ok=True)
            note.mkdir()
            (note / "inside").write_text("in a folder of this name\n")

    # Whatever its tools change that status lists would become part of the task's own commit.
    def through(self, client, number):
        return client.call("git_create_branch", repo_path=str(self.root), branch_name=f"other-{number}")

    def disturb_unread(self, number):
        self.git("config", "task.number", str(number))

    def state(self):
        log = self.git("log", "--format=%s %T", "--all")
        branches = [name for name in self.git("branch", "--format=%(refname)").splitlines() if "/other-" not in name]
        return [log, branches, self.git("symbolic-ref", "HEAD"), (self.root / "a.txt").read_text()]


class Count:
    """What happened in one run."""

    def __init__(self):
        # Stale: a write ran at once although what the task had read had changed. Sneaked: the server changed under a refusal.
        self.writes = self.refusals = self.stale = self.sneaked = 0


def work(client, world, disturb=None):
    """Does the task; where a write is refused, looks at what it is told and makes the call again."""
    seen = Count()
    used = set()
    for number, (reads, (tool, arguments)) in enumerate(world.steps()):
        for read, of in reads:
            client.call(read, **of)
        if disturb:
            disturb(number)
            before = world.state()
        refusals = 0
        for attempt in range(4):
            answer = client.call(tool, **arguments)
            if not refused(answer):
                break
            refusals += 1
            if disturb and world.state() != before:
                seen.sneaked += 1
            meta = answer["_meta"]["countersign"]
            assert len(text(answer).split("\n{")[0]) <= 2048, f"{world.name}: a refusal of {len(text(answer))} bytes"
            for again in meta.get("retry", {}).get("calls", []):
                client.call(again["tool"], **again.get("arguments", {}))
        seen.refusals += refusals
        seen.stale += bool(disturb) and refusals == 0
        assert refusals <= 1, f"{world.name}: {tool} is refused {refusals} times: {text(answer)}"
        assert not answer.get("isError"), f"{world.name}: {tool} {arguments}: {text(answer)}"
        seen.writes += 1
        used.add(tool)
    assert used == world.writes, f"{world.name}: {world.writes ^ used} is not in the task"
    return seen


def work_own(client, world):
    """Changes the very thing that each write is about: it must be refused, and be done when the call is made again."""
    seen = Count()
    for (read, of), (tool, arguments), change in world.own():
        assert not client.call(read, **of).get("isError")
        change()
        before = world.state()
        answer = client.call(tool, **arguments)
        seen.writes += 1
        seen.refusals += bool(refused(answer))
        seen.stale += not refused(answer)
        seen.sneaked += bool(refused(answer)) and world.state() != before
        for again in answer.get("_meta", {}).get("countersign", {}).get("retry", {}).get("calls", []):
            client.call(again["tool"], **again.get("arguments", {}))
        if refused(answer):
            answer = client.call(tool, **arguments)
        assert not answer.get("isError"), f"{world.name}: {tool} {arguments}: {text(answer)}"
    return seen


def drafted(kind, command, folder):
    """A gate with a pact that is drafted from the server's tools, each approved as the draft's head says; the command of a gateway."""
    def run(*words):
        done = subprocess.run([COUNTERSIGN, *words], cwd=folder, env=ENV, capture_output=True, text=True)
        assert done.returncode == 0, f"{kind.name}: {words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    data = ("--data", "gate")
    (folder / "countersign.toml").write_text(f"[mcp.upstream.{kind.name}]\ncommand = {json.dumps(command)}\n")
    run("init", "--open", *data)
    run("fact", "put", "Agent", "coder-1", json.dumps({"roles": [], "standing": "active", "org": "acme", "trust": 700}), *data)
    run("pact", "init", "--mcp", shlex.join(command), "--name", kind.name, "--out", "pact.toml")
    draft = (folder / "pact.toml").read_text()
    for tool in kind.writes:
        assert f"[action.{tool}]" in draft, f"{kind.name}: {tool} is left out: {draft}"
    approve = re.search(r"^#   countersign (mcp approve .*)$", draft, re.MULTILINE)[1]
    run(*shlex.split(approve), "--yes", *data)
    run("pact", "check", "pact.toml")
    run("pact", "publish", "pact.toml", *data)
    return [COUNTERSIGN, "mcp", "serve", *data, "--agent", "coder-1"]


def work_vanishing(client, world, mode):
    """Does the first step while its server vanishes: nothing may run, and nothing later by itself."""
    seen = Count()
    reads, (tool, arguments) = world.steps()[0]
    for read, of in reads:
        assert not client.call(read, **of).get("isError")
    before = world.state()
    mode.write_text(world.vanishes)
    answer = client.call(tool, **arguments)
    assert answer.get("isError"), f"{world.name}: it was done without its server: {text(answer)}"
    seen.refusals += 1
    assert not mode.exists(), f"{world.name}: the server did not vanish"
    # Read once more: whatever might run by itself would have run in front of that.
    for read, of in reads:
        client.call(read, **of)
    seen.sneaked += world.state() != before
    again = client.call(tool, **arguments)
    if in_doubt := again.get("isError") and re.search(r"`(countersign effect resolve \S+ failed [^`]*)`", text(again)):
        # No one knows whether the first was done, so it is not made again until someone has looked.
        assert world.state() == before, f"{world.name}: {tool} ran while it was refused: {text(again)}"
        resolve = [COUNTERSIGN, *shlex.split(in_doubt[1].replace("TEXT", "'its file is as it was'"))[1:]]
        resolved = subprocess.run(resolve, env=ENV, capture_output=True, text=True)
        assert "error:" not in resolved.stderr, f"{resolve}: {resolved.stderr}"
        again = client.call(tool, **arguments)
    assert not again.get("isError"), f"{world.name}: {tool} after its server came back: {text(again)}"
    seen.writes += 1
    return seen


def run(kind, way, disturb=None, more=(), vanishes=None):
    # Always one word: what counts as carried is found by words, and in a name that `mkdtemp` makes there may be a `_`.
    folder = Path(tempfile.gettempdir()) / f"as-read-{secrets.token_hex(8)}"
    folder.mkdir()
    try:
        world = kind(folder)
        command, mode = world.command(), folder / "vanish"
        if vanishes:
            world.vanishes = vanishes
            command = [sys.executable, str(Path(__file__).with_name("vanishing.py")), str(mode), *command]
        if way == "drafted":
            command = drafted(kind, command, folder)
        elif way != "plain":
            quoted = " ".join("'" + word + "'" for word in command)
            command = [COUNTERSIGN, "mcp", "try", quoted, "--name", kind.name, "--data", str(folder / "gate"), *more]
        client = (Listening if way == "listening" else Client)(command, folder)
        try:
            if vanishes:
                count = work_vanishing(client, world, mode)
            elif disturb == "own":
                count = work_own(client, world)
            elif disturb == "through":
                count = work(client, world, lambda number: world.through(client.other, number))
            else:
                if way == "plain":
                    listed = {tool["name"] for tool in client.request("tools/list", {})["result"]["tools"]}
                    assert listed == kind.reads | kind.writes, f"{kind.name}: {listed ^ (kind.reads | kind.writes)}"
                count = work(client, world, disturb and (lambda number: getattr(world, disturb)(number)))
        finally:
            client.end()
        state = world.state()
        if way != "plain":
            audit = subprocess.run([COUNTERSIGN, "audit", "--data", str(folder / "gate")], capture_output=True, text=True)
            assert audit.returncode == 0, f"{kind.name}: the audit differs: {audit.stdout}{audit.stderr}"
        return count, state
    finally:
        shutil.rmtree(folder)


# What is changed in what the task has read, none of it what its writes are about.
BESIDE = ["disturb", "disturb_deleted", "disturb_renamed", "disturb_type", "through"]
CARRIED = ("--rests-on", "carried")


def check(kind, plain, count, state, what):
    assert state == plain, f"{kind.name}: another end state ({what}): {state} and not {plain}"
    assert count.sneaked == 0, f"{kind.name}: {count.sneaked} writes ran although they were refused ({what})"


def check_refused(kind, count, what):
    told = f"{kind.name}: {count.stale} of {count.writes} writes ran on what had changed since it was read ({what})"
    assert count.stale == 0 and count.refusals == count.writes, told


def main():
    columns = "{:<11} {:>6} {:>6}  {:>7} {:>8} {:>7} {:>7} {:>8} {:>7} {:>7}  {:>7} {:>8} {:>6} {:>7} {:>7}"
    head = (
        "server", "writes", "quiet", "changed", "carried", "carried", "deleted", "renamed", "retyped", "other", "vanish", "vanish", "unread",
        "drafted", "drafted",
    )
    print("refused writes, by what was changed before each write")
    print(columns.format(*head))
    print(columns.format("", "", "", "", "beside", "own", "", "", "", "session", "reread", "call", "", "quiet", "changed"))
    writes = refusals = carried = 0
    for kind in (Files, Memory, Sqlite, Git):
        _, plain = run(kind, "plain")
        bare, _ = run(kind, "plain", "disturb")
        assert bare.stale == bare.writes, f"{kind.name}: without the gate no write is seen to be stale, so this test sees nothing"
        quiet, state = run(kind, "gate")
        check(kind, plain, quiet, state, "undisturbed")
        assert quiet.refusals == 0, f"{kind.name}: {quiet.refusals} refusals although nothing was disturbed"
        row = [kind.name, quiet.writes, quiet.refusals]
        for disturb in BESIDE:
            way = "listening" if disturb == "through" else "gate"
            loud, state = run(kind, way, disturb)
            check(kind, plain, loud, state, disturb)
            check_refused(kind, loud, disturb)
            row.append(loud.refusals)
            if disturb == "disturb":
                narrow, state = run(kind, way, disturb, CARRIED)
                check(kind, plain, narrow, state, "carried")
                assert narrow.refusals <= loud.refusals, f"{kind.name}: resting on less refuses more"
                row.append(narrow.refusals)
                own, _ = run(kind, way, "own", CARRIED)
                assert own.sneaked == 0, f"{kind.name}: {own.sneaked} writes ran although they were refused (own)"
                check_refused(kind, own, "the very thing that the write names")
                row.append(f"{own.refusals}/{own.writes}")
                writes, refusals, carried = writes + loud.writes, refusals + loud.refusals, carried + narrow.refusals
        for vanishes in ("reread", "call"):
            gone, _ = run(kind, "gate", vanishes=vanishes)
            assert gone.sneaked == 0, f"{kind.name}: something ran though its server had vanished ({vanishes})"
            row.append(gone.refusals)
        far, state = run(kind, "gate", "disturb_unread")
        check(kind, plain, far, state, "unread")
        assert far.refusals == 0, f"{kind.name}: {far.refusals} refusals because of what it never read"
        row.append(far.refusals)
        for disturb in (None, "disturb"):
            under, state = run(kind, "drafted", disturb)
            check(kind, plain, under, state, f"drafted, {disturb}")
            if disturb:
                check_refused(kind, under, "drafted")
            else:
                assert under.refusals == 0, f"{kind.name}: {under.refusals} refusals under a drafted pact although nothing was disturbed"
            row.append(under.refusals)
        print(columns.format(*row), flush=True)
    print(f"of {writes} writes beside whose matter something changed: {refusals} refused once, and {carried} where they rest on what they carry")
    return 0


if __name__ == "__main__":
    sys.exit(main())
