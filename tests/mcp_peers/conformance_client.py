"""A small client for the suite's client scenarios: lists everything, calls everything. The URL is the last argument."""

import asyncio
import json
import os
import sys
import warnings

import mcp_types as types
from mcp.client.client import Client

warnings.simplefilter("ignore")
SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
SAMPLES = {"string": "text", "integer": 2, "number": 2.5, "boolean": True, "array": [], "object": {}}


def sample(schema: dict):
    """Arguments that a schema asks for."""
    properties = schema.get("properties", {})
    return {
        name: SAMPLES.get(properties.get(name, {}).get("type"), "text")
        for name in schema.get("required", [])
    }


async def elicit(_context, params) -> types.ElicitResult:
    """Accepts, with the defaults that the question has."""
    schema = getattr(params, "requested_schema", None) or {}
    defaults = {
        name: field.get("default", SAMPLES.get(field.get("type"), "text"))
        for name, field in schema.get("properties", {}).items()
    }
    return types.ElicitResult(action="accept", content=defaults)


async def attempt(what, *args):
    """Some scenarios answer with errors on purpose."""
    try:
        return await what(*args)
    except Exception as error:
        print(f"{what.__name__}{args}: {error!r}", file=sys.stderr)
        return None


async def calls(client: Client) -> None:
    tools = (await client.list_tools()).tools
    if SCENARIO == "json-schema-2020-12-preservation":
        focal, echo = tools
        await attempt(client.call_tool, echo.name, {"schema": focal.input_schema})
        return
    planned = CONTEXT.get("toolCalls") or [
        {"name": tool.name, "arguments": sample(tool.input_schema)} for tool in tools
    ]
    for call in planned:
        await attempt(client.call_tool, call["name"], call["arguments"])


async def main(url: str) -> None:
    mode = "legacy" if VERSION < "2026" else "auto"
    async with Client(url, mode=mode, elicitation_callback=elicit) as client:
        await calls(client)
        if SCENARIO.startswith("http-standard"):
            for prompt in getattr(await attempt(client.list_prompts), "prompts", []):
                await attempt(client.get_prompt, prompt.name, {})
            for resource in getattr(await attempt(client.list_resources), "resources", []):
                await attempt(client.read_resource, str(resource.uri))


asyncio.run(main(sys.argv[-1]))
