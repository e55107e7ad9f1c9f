"""The openai-agents package."""

import driver
import openai
from agents import Agent, FunctionTool, ModelSettings, OpenAIChatCompletionsModel, Runner


def tool(name, keys, ran):
    async def invoke(_context, _arguments):
        ran.append(name)
        return f"{name}: done"

    return FunctionTool(
        name=name,
        description=name,
        params_json_schema=driver.schema(keys),
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


async def run(request):
    ran = []
    async with openai.AsyncOpenAI(api_key="sk-test", base_url=request["url"]) as client:
        agent = Agent(
            name="test",
            model=OpenAIChatCompletionsModel(model=request["model"], openai_client=client),
            model_settings=ModelSettings(extra_body=request["extra"] or None),
            tools=[tool(name, keys, ran) for name, keys in request["tools"].items()],
        )
        if request["stream"]:
            result = Runner.run_streamed(agent, request["prompt"], max_turns=4)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, request["prompt"], max_turns=4)
    return {"object": {"items": result.to_input_list(), "final": result.final_output}, "ran": ran}


driver.serve(run)
