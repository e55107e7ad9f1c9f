"""The loop that every Python client runs: requests come as lines of JSON on standard input, outcomes leave as lines.

A request has `id`, `url`, `api`, `model`, `stream`, `messages`, `prompt`, `tools` (argument names by tool) and `extra`
(members to add to the body). The first line out is `ready`. An outcome has the request's `id` and either `object`, what the client made of the answer,
with `ran`, the tools that an agent ran, or `error`.
"""

import asyncio
import concurrent.futures
import json
import sys

# More than the harness has under way.
THREADS = 32


def schema(keys):
    return {"type": "object", "properties": {key: {"type": "string"} for key in keys}}


def described(error):
    """What two runs of one error have in common."""
    return {
        "type": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "body": getattr(error, "body", None),
    }


def serve(run):
    asyncio.run(loop(run))


async def loop(run):
    asyncio.get_running_loop().set_default_executor(concurrent.futures.ThreadPoolExecutor(THREADS))
    tasks = set()

    async def one(request):
        try:
            outcome = await run(request)
        except Exception as error:
            outcome = {"error": described(error), "message": str(error)}
        print(json.dumps({"id": request["id"], **outcome}), flush=True)

    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        task = asyncio.create_task(one(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
