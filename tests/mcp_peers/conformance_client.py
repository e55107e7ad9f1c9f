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


class Memory:
    """What the client knows of itself and of the server: nothing at first, but for one that is registered already."""

    def __init__(self, known) -> None:
        self.client, self.tokens = known, None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens) -> None:
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client) -> None:
        self.client = client


def signed_in(url: str, context: dict, front: str | None):
    """An HTTP client that signs in. With `front` the requests for the server's endpoint go there under the server's own name, as
    where a proxy has taken the name of the server; its metadata and the authorization server are outside."""
    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata

    class Through(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request):
            if front and str(request.url) == url:
                at = httpx2.URL(front)
                request = httpx2.Request(
                    request.method,
                    request.url.copy_with(host=at.host, port=at.port),
                    headers=request.headers,
                    stream=request.stream,
                    extensions=request.extensions,
                )
            return await super().handle_async_request(request)

    given = []

    async def redirect(to: str) -> None:
        """The user's browser, and a user who agrees."""
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(to)
        given.append(httpx2.URL(answer.headers["location"]).params)

    async def callback() -> AuthorizationCodeResult:
        params = given[-1]
        return AuthorizationCodeResult(
            code=params["code"], state=params.get("state"), iss=params.get("iss")
        )

    redirects = ["http://localhost:3030/callback"]
    known = None
    if "client_id" in context:
        known = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=context.get("client_secret"),
            token_endpoint_auth_method="client_secret_basic",
            redirect_uris=redirects,
        )
    provider = OAuthClientProvider(
        url,
        OAuthClientMetadata(client_name="holdpoint-peers", redirect_uris=redirects),
        Memory(known),
        redirect_handler=redirect,
        callback_handler=callback,
        client_metadata_url="https://conformance-test.local/client-metadata.json",
    )
    return httpx2.AsyncClient(auth=provider, transport=Through(), timeout=30)


async def run(url: str, scenario: str, context: dict, version: str, front: str | None) -> None:
    import mcp_types as types
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async def elicit(_context, params) -> types.ElicitResult:
        content = defaults(getattr(params, "requested_schema", None) or {})
        return types.ElicitResult(action="accept", content=content)

    mode = "legacy" if version < "2026" else "auto"
    if scenario.startswith("auth/"):
        async with signed_in(url, context, front) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=mode) as client:
                await calls(client, scenario, {})
        return
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
            "front": given.get("HOLDPOINT_FRONT"),
        }
        connection.sendall(json.dumps(scenario).encode() + b"\n")
        return int(connection.makefile().readline() or 1)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    sys.exit(ask(*sys.argv[2:]))
