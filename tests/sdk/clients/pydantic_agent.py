"""The pydantic-ai package."""

import anthropic
import driver
import openai
from pydantic_ai import Agent, Tool
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

PARTS = ("part_kind", "content", "tool_name", "args", "tool_call_id", "signature")


def model(request):
    if request["api"] == "chat":
        client = openai.AsyncOpenAI(api_key="sk-test", base_url=request["url"])
        return client, OpenAIChatModel(request["model"], provider=OpenAIProvider(openai_client=client))
    client = anthropic.AsyncAnthropic(api_key="sk-test", base_url=request["url"])
    return client, AnthropicModel(request["model"], provider=AnthropicProvider(anthropic_client=client))


def tool(name, keys, ran):
    async def invoke(**_arguments):
        ran.append(name)
        return f"{name}: done"

    return Tool.from_schema(invoke, name=name, description=name, json_schema=driver.schema(keys))


def shown(message):
    parts = [{key: getattr(part, key) for key in PARTS if hasattr(part, key)} for part in message.parts]
    return {"parts": parts, "reason": getattr(message, "finish_reason", None)}


async def run(request):
    ran = []
    client, of_api = model(request)
    tools = [tool(name, keys, ran) for name, keys in request["tools"].items()]
    settings = {"extra_body": request["extra"]} if request["extra"] else {}
    agent = Agent(of_api, tools=tools, model_settings=settings)

    async def watch(_context, events):
        async for _ in events:
            pass

    async with client:
        result = await agent.run(request["prompt"], event_stream_handler=watch if request["stream"] else None)
    return {"object": {"messages": [shown(m) for m in result.all_messages()], "final": result.output}, "ran": ran}


driver.serve(run)
