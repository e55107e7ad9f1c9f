"""A small client for the suite's client scenarios: lists everything, calls everything.

    conformance_client.py --serve SOCKET      loads the SDK once, then runs each scenario in a fork
    conformance_client.py --at SOCKET URL     has it run the scenario of the environment at the URL

The suite starts a client per scenario, and loading the SDK costs more than the scenario.
"""

import json
import os
import pathlib
import socket
import sys

SAMPLES = {"string": "text", "integer": 2, "number": 2.5, "boolean": True, "array": [], "object": {}}


def sample(schema: dict) -> dict:
    """Arguments that a schema asks for."""
    properties = schema.get("properties", {})
    return {
        name: SAMPLES.get(properties.get(name, {}).get("type"), "text")
        for name in schema.get("required", [])
    }


def defaults(schema: dict) -> dict:
    """An answer with the defaults that a question has."""
    return {
        name: field.get("default", SAMPLES.get(field.get("type"), "text"))
        for name, field in schema.get("properties", {}).items()
    }


async def attempt(what, *args):
    """Some scenarios answer with errors on purpose."""
    try:
        return await what(*args)
    except Exception as error:
        print(f"{what.__name__}{args}: {error!r}", file=sys.stderr)
        return None


async def calls(client, scenario: str, context: dict) -> None:
    tools = (await client.list_tools()).tools
    if scenario == "json-schema-2020-12-preservation":
        focal, echo = tools
        await attempt(client.call_tool, echo.name, {"schema": focal.input_schema})
        return
    planned = context.get("toolCalls") or [
        {"name": tool.name, "arguments": sample(tool.input_schema)} for tool in tools
    ]
    for call in planned:
        await attempt(client.call_tool, call["name"], call["arguments"])


async def run(url: str, scenario: str, context: dict, version: str) -> None:
    import mcp_types as types
    from mcp.client.client import Client

    async def elicit(_context, params) -> types.ElicitResult:
        content = defaults(getattr(params, "requested_schema", None) or {})
        return types.ElicitResult(action="accept", content=content)

    mode = "legacy" if version < "2026" else "auto"
    async with Client(url, mode=mode, elicitation_callback=elicit) as client:
        await calls(client, scenario, context)
        if scenario.startswith("http-standard"):
            for prompt in getattr(await attempt(client.list_prompts), "prompts", []):
                await attempt(client.get_prompt, prompt.name, {})
            for resource in getattr(await attempt(client.list_resources), "resources", []):
                await attempt(client.read_resource, str(resource.uri))


def in_fork(connection: socket.socket) -> None:
    """Runs one scenario; the exit code is the answer."""
    import asyncio
    import warnings

    warnings.simplefilter("ignore")
    code = 1
    try:
        asyncio.run(run(**json.loads(connection.makefile().readline())))
        code = 0
    except BaseException as error:
        print(repr(error), file=sys.stderr)
    connection.sendall(b"%d\n" % code)
    os._exit(code)


def reap() -> None:
    """Forks that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def serve(path: str) -> None:
    import mcp.client.client  # noqa: F401  what takes the time

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen()
    pathlib.Path(path + ".new").rename(path)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            in_fork(connection)
        connection.close()
        reap()


def ask(path: str, url: str) -> int:
    given = os.environ
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        scenario = {
            "url": url,
            "scenario": given.get("MCP_CONFORMANCE_SCENARIO", ""),
            "context": json.loads(given.get("MCP_CONFORMANCE_CONTEXT") or "{}"),
            "version": given.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25"),
        }
        connection.sendall(json.dumps(scenario).encode() + b"\n")
        return int(connection.makefile().readline() or 1)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    sys.exit(ask(*sys.argv[2:]))
