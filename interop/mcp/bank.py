"""A bank on the official SDK: what the servers from the registry do not do (ask back, report progress, speak HTTP)."""

import sys

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("bank")
READS = ToolAnnotations(read_only_hint=True)


class Account(BaseModel):
    status: str
    balance: int


class Sure(BaseModel):
    sure: bool


@server.tool(annotations=READS)
def get_account(account: str) -> Account:
    """Read an account."""
    return Account(status="active", balance=len(account))


@server.tool()
def transfer(account: str, amount: int) -> str:
    """Move money."""
    return f"moved {amount} from {account}"


@server.tool(annotations=READS)
async def audit(context: Context) -> str:
    """Look at everything, and say how far it is."""
    for done in (1, 2, 3):
        await context.report_progress(done, 3)
    return "all is well"


@server.tool(annotations=READS)
async def are_you_sure(context: Context) -> str:
    """Ask the person in front of the client."""
    answer = await context.elicit("Sure?", Sure)
    return f"{answer.action} {getattr(answer.data, 'sure', None)}"


given_up = 0


@server.tool(annotations=READS)
async def wait_for_the_manager() -> str:
    """Take longer than anybody waits."""
    global given_up
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        given_up += 1
        raise
    return "the manager is here"


@server.tool(annotations=READS)
def waits_given_up() -> int:
    """How many waits were cancelled."""
    return given_up


@server.tool(annotations=READS)
async def open_or_close_the_branch(context: Context) -> str:
    """Change the list of tools, and say so in the way of either revision."""
    is_open = any(tool.name == "branch" for tool in await server.list_tools())
    if is_open:
        server.remove_tool("branch")
    else:
        server.add_tool(lambda: "a branch", name="branch", description="Nobody has approved this one.")
    await context.session.send_tool_list_changed()
    await context.notify_tools_changed()
    return "closed" if is_open else "open"


@server.resource("bank://rules")
def rules() -> str:
    """What the bank goes by."""
    return "be fair"


@server.prompt()
def greet(name: str) -> str:
    """How to say hello."""
    return f"Say hello to {name}."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
