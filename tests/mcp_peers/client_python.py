"""Makes the calls of its standard input at the URL of its argument, with whichever Python SDK is there; prints the results."""

import asyncio
import json
import sys
import warnings

warnings.simplefilter("ignore")


def plain(result) -> dict:
    """A result of either SDK."""
    seen = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {
        "isError": seen.get("isError", False),
        "text": [part.get("text") for part in seen["content"]],
        "structured": seen.get("structuredContent"),
    }


async def make(call_tool, calls: list) -> list:
    results = []
    for name, arguments in calls:
        try:
            results.append(plain(await call_tool(name, arguments)))
        except Exception as error:
            results.append({"raised": repr(error)})
    return results


async def main(url: str, calls: list) -> list:
    try:
        from mcp.client.client import Client
    except ImportError:
        from mcp import ClientSession
        from mcp.client.streamable_http import streamablehttp_client

        async with streamablehttp_client(url) as (read, write, _):
            async with ClientSession(read, write) as session:
                await session.initialize()
                return await make(session.call_tool, calls)
    async with Client(url, mode="auto") as client:
        return await make(client.call_tool, calls)


print(json.dumps(asyncio.run(main(sys.argv[1], json.load(sys.stdin)))))
