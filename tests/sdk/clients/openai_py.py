"""The openai package."""

import asyncio

import driver
import openai

KEY = "sk-test"


def asked(request):
    tools = [
        {"type": "function", "function": {"name": name, "description": name, "parameters": driver.schema(keys)}}
        for name, keys in request["tools"].items()
    ]
    more = {"extra_body": request["extra"]} if request["extra"] else {}
    return {"model": request["model"], "messages": request["messages"], "tools": tools, **more}


def run_sync(request):
    with openai.OpenAI(api_key=KEY, base_url=request["url"]) as client:
        if not request["stream"]:
            return client.chat.completions.create(**asked(request)).to_dict()
        with client.chat.completions.stream(**asked(request)) as events:
            for _ in events:
                pass
            return events.get_final_completion().to_dict()


async def run_async(request):
    async with openai.AsyncOpenAI(api_key=KEY, base_url=request["url"]) as client:
        if not request["stream"]:
            return (await client.chat.completions.create(**asked(request))).to_dict()
        async with client.chat.completions.stream(**asked(request)) as events:
            async for _ in events:
                pass
            return (await events.get_final_completion()).to_dict()


async def run(request):
    if request["mode"] == "sync":
        return {"object": await asyncio.to_thread(run_sync, request)}
    return {"object": await run_async(request)}


driver.serve(run)
