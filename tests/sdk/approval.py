"""An agent of the openai-agents package, which knows nothing of Holdpoint, gets one refund done that needs an approval.

The model is a script that does what the tool's answer says: it repeats the identical call until the refund is there. The tool is
an HTTP backend's, called by a function of the agent, or an MCP server's; calls are answered at once, or wait. Meanwhile somebody
approves at the command line. Whatever the agent did, the backend has carried out one refund.
"""

import asyncio
import contextlib
import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import rig

NAME = "approval"

# For one run, with everything else running.
PATIENCE = 180

POLICY = """\
version: 1
name: approval
layers: {catalog: off, identity: off, egress: off, recipients: off, ownership: off, injection: off, tickets: enforce}
tools:
  - tool: refund
    ticket: {gate: approve, ttl: 15m, HOLDsummary: "Refund {/amount} on {/order}"}
"""

CONFIG = """\
listen:
  agents: 127.0.0.1:AGENTS
  operations: 127.0.0.1:OPERATIONS
policy: policy.yaml
upstreams:
  shop: {url: "BACKEND"}
  mcp: {url: "SERVER"}
routes:
  - name: shop
    prefix: /shop
    upstream: shop
    protocol: http_tools
    tools: [{tool: refund, method: POST, path: /refund}]
  - {name: mcp, prefix: /mcp, upstream: mcp, protocol: mcp}
principal:
  fixed: {tenant: test, subject: user-1, agent: sdk}
session: {header: holdpoint-session}
tickets: {store: tickets.db}
"""

# An MCP server that counts in a file what it carries out.
SERVER = """\
import pathlib, sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("shop", log_level="ERROR")

@server.tool()
def refund(order: str, amount: int) -> str:
    with pathlib.Path(sys.argv[2]).open("a") as ledger:
        ledger.write(f"{order} {amount}\\n")
    return "refunded as R-1"

server.run("streamable-http", port=int(sys.argv[1]))
"""

# An agent: of its own process, so that it has nothing of this one's.
AGENT = """\
import asyncio, json, sys, urllib.error, urllib.request
import openai
from agents import Agent, FunctionTool, OpenAIChatCompletionsModel, Runner
from agents.mcp import MCPServerStreamableHttp

kind, model, tools = sys.argv[1:]
KEYS = {"order": {"type": "string"}, "amount": {"type": "integer"}}
SCHEMA = {"type": "object", "properties": KEYS, "required": list(KEYS)}

def post(arguments):
    asked = urllib.request.Request(f"{tools}/shop/refund", arguments.encode(), {"content-type": "application/json"})
    asked.add_header("holdpoint-session", "one")
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()

async def invoke(_context, arguments):
    return await asyncio.to_thread(post, arguments)

async def main():
    async with openai.AsyncOpenAI(api_key="sk-test", base_url=model) as client:
        chat = OpenAIChatCompletionsModel(model="script", openai_client=client)
        if kind == "http":
            tool = FunctionTool(name="refund", description="Refunds.", params_json_schema=SCHEMA, on_invoke_tool=invoke)
            agent = Agent(name="test", model=chat, tools=[tool])
            return (await Runner.run(agent, "Refund 5 on A-1.", max_turns=60)).final_output
        params = {"url": f"{tools}/mcp", "headers": {"holdpoint-session": "one"}, "timeout": 60}
        async with MCPServerStreamableHttp(params=params, client_session_timeout_seconds=60) as server:
            agent = Agent(name="test", model=chat, mcp_servers=[server])
            return (await Runner.run(agent, "Refund 5 on A-1.", max_turns=60)).final_output

print(json.dumps(asyncio.run(main())))
"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = json.dumps(self.server.answer(body)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@contextlib.contextmanager
def serving(answer):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answer = answer
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


class Model:
    """Repeats the identical call until its output is a refund."""

    def __init__(self):
        self.calls = 0

    def __call__(self, body):
        last = body["messages"][-1]
        message = {"role": "assistant", "content": None}
        if last["role"] == "tool" and "R-1" in json.dumps(last["content"]):
            message["content"] = "It is refunded as R-1."
            reason = "stop"
        else:
            if last["role"] == "tool":
                assert "approval" in json.dumps(last["content"]), last
                time.sleep(0.2)
            self.calls += 1
            function = {"name": "refund", "arguments": json.dumps({"order": "A-1", "amount": 5})}
            message["tool_calls"] = [{"id": f"call_{self.calls}", "type": "function", "function": function}]
            reason = "tool_calls"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "script", "choices": [choice]}


def ticket(binary, folder, *arguments):
    command = [binary, "ticket", *arguments, "--store", folder / "tickets.db", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


async def approve(binary, folder):
    """Somebody who looks at what waits, and approves it a moment later."""
    while True:
        waiting = await asyncio.to_thread(ticket, binary, folder, "list", "--state", "requested")
        if waiting:
            break
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)
    asked = waiting[0]
    assert asked["summary"] == "Refund 5 on A-1", asked
    await asyncio.to_thread(ticket, binary, folder, "approve", asked["id"], "--digest", asked["digest"][:12])


async def agent(kind, model, tools):
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", AGENT, kind, model, tools],
        env=rig.clean_environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    except TimeoutError:
        process.kill()
        raise AssertionError("the agent does not end") from None
    assert process.returncode == 0, errors.decode()
    return json.loads(out)


async def one(binary, kind, hold):
    refunds = []

    def backend(body):
        refunds.append(body)
        return {"refund": "R-1"}

    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = stack.enter_context((folder / "log").open("w+"))
        model = Model()
        models, shop = stack.enter_context(serving(model)), stack.enter_context(serving(backend))
        ledger, port = folder / "ledger", rig.free_port()
        ledger.touch()
        (folder / "server.py").write_text(SERVER)
        if kind == "mcp":
            command = [sys.executable, folder / "server.py", str(port), ledger]
            stack.enter_context(rig.process(command, log, stdout=log))
        agents, operations = rig.free_port(), rig.free_port()
        written = CONFIG.replace("AGENTS", str(agents)).replace("OPERATIONS", str(operations))
        written = written.replace("BACKEND", shop).replace("SERVER", f"http://127.0.0.1:{port}/mcp")
        (folder / "holdpoint.yaml").write_text(written)
        (folder / "policy.yaml").write_text(POLICY.replace("HOLD", "hold: 25s, " if hold else ""))
        serve = [binary, "serve", "--config", folder / "holdpoint.yaml"]
        running = stack.enter_context(rig.process(serve, log, stdout=log))
        await asyncio.to_thread(rig.wait_until_ready, running, f"http://127.0.0.1:{operations}/readyz", log)
        if kind == "mcp":
            await reachable(port)
        said, _ = await asyncio.gather(agent(kind, models, f"http://127.0.0.1:{agents}"), approve(binary, folder))
        assert said == "It is refunded as R-1.", said
        done = refunds if kind == "http" else ledger.read_text().splitlines()
        assert len(done) == 1, done
        # Who waits does not ask again and again.
        assert model.calls == 1 if hold else model.calls > 1, model.calls
        kept = ticket(binary, folder, "list")
        assert [one["state"] for one in kept] == ["succeeded"], kept


async def reachable(port):
    for _ in range(600):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the MCP server does not come up")


async def run(binary, results):
    for kind in ("http", "mcp"):
        for hold in (False, True):
            name = f"{NAME} {kind} {'waiting' if hold else 'at once'}"
            await results.of(name, one(binary, kind, hold))
