"""The anthropic package."""

import asyncio

import anthropic
import driver

KEY = "sk-test"


def asked(request):
    tools = [
        {"name": name, "description": name, "input_schema": driver.schema(keys)}
        for name, keys in request["tools"].items()
    ]
    more = {"extra_body": request["extra"]} if request["extra"] else {}
    return {
        "model": request["model"],
        "max_tokens": 1000,
        "messages": request["messages"],
        "tools": tools,
        **more,
    }


def run_sync(request):
    with anthropic.Anthropic(api_key=KEY, base_url=request["url"]) as client:
        if not request["stream"]:
            return client.messages.create(**asked(request)).to_dict()
        with client.messages.stream(**asked(request)) as events:
            for _ in events:
                pass
            return events.get_final_message().to_dict()


async def run_async(request):
    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=request["url"]) as client:
        if not request["stream"]:
            return (await client.messages.create(**asked(request))).to_dict()
        async with client.messages.stream(**asked(request)) as events:
            async for _ in events:
                pass
            return (await events.get_final_message()).to_dict()


async def run(request):
    if request["mode"] == "sync":
        return {"object": await asyncio.to_thread(run_sync, request)}
    return {"object": await run_async(request)}


driver.serve(run)
