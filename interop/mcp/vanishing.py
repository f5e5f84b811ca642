"""Stands in front of an MCP server over standard input, and vanishes with it when a file says so.

`reread`: when the next call of a tool comes, before the server sees it. `call`: when the next call of a tool was answered, so that what
comes after it, a call that rests on it, finds no server.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path


def vanish(mode, server):
    mode.unlink()
    server.kill()
    server.wait()
    os._exit(7)


def main():
    mode, command = Path(sys.argv[1]), sys.argv[2:]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    calls = set()

    def answers():
        for line in server.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if mode.exists() and mode.read_text() == "call" and json.loads(line).get("id") in calls:
                vanish(mode, server)

    threading.Thread(target=answers, daemon=True).start()
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            calls.add(message.get("id"))
            if mode.exists() and mode.read_text() == "reread":
                vanish(mode, server)
        server.stdin.write(line)
        server.stdin.flush()
    server.stdin.close()
    server.wait()


if __name__ == "__main__":
    main()
