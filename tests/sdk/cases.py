"""The matrix: which client asks what, in which manner the answer comes, and what must arrive."""

import dataclasses
import json

import rig

SCENARIOS = json.loads((rig.HERE / "scenarios.json").read_text())

TOOLS = {"look_up": ["query"], "send_email": ["to", "body"], "pay": ["account", "amount"]}

# The scenarios of every client.
MATRIX = ["text", "allow", "block_all", "block_first", "block_last", "malformed", "ticket"]

# Those of an SDK alone: an agent makes little of an answer without text.
SDK_ONLY = ["no_text", "block_only"]

# Scenarios in which the upstream stops for five seconds within a held call.
STALLED = ["allow", "block_first"]

# Manners that an SDK reads as they are.
SAME = ["gzip", "crlf", "comments", "split", "bytes", "interleaved", "cut", "error", "busy"]

# Encodings that not every SDK asks for: the proxy decodes them.
DECODED = ["deflate", "br", "zstd"]

# Calls that not every SDK can put together: the proxy sends them in canonical form.
MENDED = {"chat": ["same_index", "no_index", "repeated", "gaps"], "messages": ["gaps"]}

# A tool that the provider runs itself, which the policy does not list: the whole request is refused.
HOSTED = {
    "chat": {"web_search_options": {}},
    "messages": {"mcp_servers": [{"type": "url", "name": "files", "url": "https://mcp.example"}]},
}


@dataclasses.dataclass(frozen=True)
class Client:
    """A program that takes requests by the line."""

    name: str
    file: str
    apis: tuple
    # Runs tools and goes on; else it makes one request.
    agent: bool = False
    modes: tuple = ("async",)

    @property
    def javascript(self):
        return self.file.endswith(".mjs")


CLIENTS = [
    Client("openai-py", "openai_py.py", ("chat",), modes=("async", "sync")),
    Client("anthropic-py", "anthropic_py.py", ("messages",), modes=("async", "sync")),
    Client("openai-js", "openai_js.mjs", ("chat",)),
    Client("anthropic-js", "anthropic_js.mjs", ("messages",)),
    Client("openai-agents", "openai_agents.py", ("chat",), agent=True),
    Client("pydantic-ai", "pydantic_agent.py", ("chat", "messages"), agent=True),
    Client("langchain", "langchain_agent.py", ("chat", "messages"), agent=True),
    Client("ai-sdk", "ai_sdk.mjs", ("chat", "messages"), agent=True),
]


@dataclasses.dataclass(frozen=True)
class Case:
    """One request, made through the proxy and, with what it should come to, straight to the upstream."""

    client: Client
    api: str
    mode: str
    stream: bool
    scenario: str
    manner: str = ""
    upstream: str = "scripted"

    @property
    def name(self):
        words = [self.client.name, self.api, self.scenario + ("+" + self.manner if self.manner else "")]
        words.append("streamed" if self.stream else "whole")
        words += [self.mode] * (len(self.client.modes) > 1) + [self.upstream] * (self.upstream != "scripted")
        return " ".join(words)

    @property
    def codes(self):
        """What the policy blocks."""
        return [call["code"] for call in SCENARIOS[self.scenario]["calls"] if "code" in call]

    @property
    def blocked_arguments(self):
        return [call["arguments"] for call in SCENARIOS[self.scenario]["calls"] if "code" in call]

    @property
    def kept(self):
        """The tools that must run."""
        return [call["name"] for call in SCENARIOS[self.scenario]["calls"] if "code" not in call]

    @property
    def run(self):
        return self.name.replace(" ", "-").replace("+", "-")

    @property
    def model(self):
        return f"{self.scenario}{'+' * bool(self.manner)}{self.manner}@{self.run}"

    @property
    def unchanged(self):
        """Whether what arrives must be what a direct request for the same model gets."""
        return not self.codes and not self.mended

    @property
    def mended(self):
        """Whether a direct client could not read the answer."""
        return self.manner in DECODED + MENDED[self.api]

    @property
    def expected_model(self):
        if self.unchanged:
            return self.model
        manner = "" if self.mended else self.manner
        return "+".join(filter(None, [self.scenario, "kept", manner])) + f"@{self.run}"

    def request(self, base, model, extra=None):
        return {
            "url": base,
            "api": self.api,
            "model": model,
            "mode": self.mode,
            "stream": self.stream,
            "prompt": "Please help.",
            "messages": HISTORY[self.api],
            "tools": TOOLS,
            "extra": extra or {},
        }


ARGUMENTS = {"query": "Grüße ☃ 𝄞"}
NEXT = {"role": "user", "content": "Please help."}
HISTORY = {
    "chat": [
        {"role": "user", "content": "Look it up."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_9", "type": "function", "function": {"name": "look_up", "arguments": json.dumps(ARGUMENTS)}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_9", "content": "Found: Grüße ☃"},
        NEXT,
    ],
    "messages": [
        {"role": "user", "content": "Look it up."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_9", "name": "look_up", "input": ARGUMENTS}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "Found: Grüße ☃"}]},
        {"role": "assistant", "content": "Found."},
        NEXT,
    ],
}


def scripted(client, api, mode, stream):
    """The cases of the scripted upstream; those that wait come first."""

    def case(scenario, manner=""):
        return Case(client, api, mode, stream, scenario, manner)

    for scenario in STALLED:
        yield case(scenario, "stall")
    for scenario in MATRIX + SDK_ONLY * (not client.agent):
        yield case(scenario)
    if api == "messages":
        yield case("thinking")
        yield case("thinking_block")
    if stream or api == "chat":
        yield case("twice")
    if client.agent:
        return
    for manner in SAME + DECODED:
        yield case("allow", manner)
    for manner in ("br", "bytes", "interleaved"):
        yield case("block_first", manner)
    if stream:
        for manner in MENDED[api]:
            yield case("allow", manner)
            yield case("block_last", manner)


def all_cases(clients, upstreams):
    for client in clients:
        for api in client.apis:
            for mode in client.modes:
                for stream in (True, False):
                    yield from scripted(client, api, mode, stream)
            for stream in (True, False):
                for scenario in ("no_text", "block_all", "block_first"):
                    if "aimock" in upstreams:
                        yield Case(client, api, client.modes[0], stream, scenario, upstream="aimock")
