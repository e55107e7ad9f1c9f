"""The langchain package with langchain-openai and langchain-anthropic."""

import driver
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI

PARTS = ("type", "content", "tool_calls", "invalid_tool_calls", "tool_call_id", "usage_metadata")


def model(request):
    common = {"model": request["model"], "api_key": "sk-test", "base_url": request["url"], "streaming": request["stream"]}
    if request["api"] == "chat":
        return ChatOpenAI(**common, extra_body=request["extra"] or None)
    more = {"model_kwargs": {"extra_body": request["extra"]}} if request["extra"] else {}
    return ChatAnthropic(**common, **more, max_tokens=1000)


def tool(name, keys, ran):
    async def invoke(**_arguments):
        ran.append(name)
        return f"{name}: done"

    return StructuredTool(name=name, description=name, args_schema=driver.schema(keys), coroutine=invoke)


def blocks(content):
    """Content in its long form, without the blocks' positions: a note takes one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [{key: value for key, value in block.items() if key != "index"} for block in content]


def shown(message):
    parts = {key: getattr(message, key) for key in PARTS if hasattr(message, key)}
    told = message.response_metadata
    return {**parts, "content": blocks(message.content), "reason": told.get("finish_reason") or told.get("stop_reason")}


async def run(request):
    ran = []
    tools = [tool(name, keys, ran) for name, keys in request["tools"].items()]
    agent = create_agent(model(request), tools)
    result = await agent.ainvoke({"messages": [{"role": "user", "content": request["prompt"]}]})
    return {"object": [shown(m) for m in result["messages"]], "ran": ran}


driver.serve(run)
