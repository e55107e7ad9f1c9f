"""The official openai SDK against `holdpoint serve`, with a scripted upstream behind it.

    pip install -r tests/sdk/requirements.txt
    python tests/sdk/test_openai.py --binary target/debug/holdpoint

Each scenario runs {whole, streamed} x {sync, async}, once straight at the upstream and once through the proxy. What is
allowed must arrive equal to the direct run; of what is blocked the expected object is made from the direct one.
Without --binary the proxy at $HOLDPOINT_URL is used; its route must lead to the upstream's port, --upstream-port, with
the policy below. Ends with a non-zero status on any failure.
"""

import argparse
import asyncio
import contextlib
import http.server
import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import openai

POLICY = """\
version: 1
name: sdk-test

layers:
  catalog: off
  identity: off
  egress: off
  recipients: enforce
  ownership: off
  injection: off
  tickets: off

lists:
  staff: {email_domains: [shop.example]}

tools:
  - tool: send_email
    recipients: [{at: /to, kind: email, allow: [staff]}]
  - tool: look_up
    effect: read
"""

CONFIG = """\
listen:
  agents: 127.0.0.1:AGENTS
  operations: 127.0.0.1:OPERATIONS
policy: policy.yaml
upstreams:
  model: {url: "http://127.0.0.1:UPSTREAM"}
routes:
  - {name: chat, prefix: /openai, upstream: model, protocol: openai_chat}
principal:
  fixed: {tenant: test, subject: user-1, agent: sdk}
session: {header: holdpoint-session}
"""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name}: for the test",
            "parameters": {"type": "object", "properties": {key: {"type": "string"}}},
        },
    }
    for name, key in (("look_up", "query"), ("send_email", "to"))
]

LOOK_UP = ("look_up", json.dumps({"query": "Grüße ☃ 𝄞 \\ \"quoted\"\n"}))
SEND = ("send_email", '{"to": "anna@shop.example", "body": "hi"}')
FOREIGN = ("send_email", '{"to": "mallory@evil.example", "body": "hi"}')
TWICE = ("look_up", '{"query": "a", "query": "b"}')
CUT = ("look_up", '{"query": "a')

NOT_ALLOWED = "recipient_not_allowed"
UNREADABLE = "arguments_unreadable"

# Text, calls, and for each call the code it is blocked with.
SCENARIOS = {
    "text": ("Grüße, this is ☃ only text.", [], []),
    "two_calls": ("Both.", [LOOK_UP, SEND], [None, None]),
    "no_text": (None, [SEND, LOOK_UP], [None, None]),
    "block_all": ("Both.", [FOREIGN, FOREIGN], [NOT_ALLOWED, NOT_ALLOWED]),
    "block_only": (None, [FOREIGN], [NOT_ALLOWED]),
    "block_first": ("Both.", [FOREIGN, LOOK_UP], [NOT_ALLOWED, None]),
    "block_last": (None, [LOOK_UP, FOREIGN], [None, NOT_ALLOWED]),
    "malformed": ("Both.", [TWICE, SEND, CUT], [UNREADABLE, None, UNREADABLE]),
}


# --- the upstream ----------------------------------------------------------------------------------------------------


def call(number, name, arguments):
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def base(kind):
    return {
        "id": "chatcmpl-1",
        "object": kind,
        "created": 1700000000,
        "model": "scripted-1",
        "system_fingerprint": "fp_1",
        "service_tier": "default",
    }


USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


def whole(text, calls, choices):
    message = {"role": "assistant", "content": text, "refusal": None}
    if calls:
        message["tool_calls"] = [call(n, *c) for n, c in enumerate(calls)]
    reason = "tool_calls" if calls else "stop"
    listed = [
        {"index": i, "message": message, "logprobs": None, "finish_reason": reason} for i in range(choices)
    ]
    return json.dumps({**base("chat.completion"), "choices": listed, "usage": USAGE}).encode()


def deltas(text, calls):
    yield {"role": "assistant", "content": None if text is None else "", "refusal": None}
    for c in text or "":
        yield {"content": c}
    for n, (name, arguments) in enumerate(calls):
        yield {"tool_calls": [{"index": n, **call(n, name, "")}]}
        for c in arguments:
            yield {"tool_calls": [{"index": n, "function": {"arguments": c}}]}


def streamed(text, calls, choices, usage):
    head = base("chat.completion.chunk")

    def data(listed, **more):
        return b"data: " + json.dumps({**head, "choices": listed, **more}, ensure_ascii=False).encode() + b"\n\n"

    def part(index, delta, reason=None):
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}

    for delta in deltas(text, calls):
        for index in range(choices):
            yield data([part(index, delta)])
    for index in range(choices):
        yield data([part(index, {}, "tool_calls" if calls else "stop")])
    if usage:
        yield data([], usage=USAGE)
    yield b"data: [DONE]\n\n"


def pieces(body, single):
    """Cuts characters, line ends and events anywhere; with `single` every byte is a piece of its own."""
    sizes = itertools.cycle([1] if single else [1, 1, 1, 2, 3, 5, 8, 700, 1, 400])
    at = 0
    while at < len(body):
        size = next(sizes)
        yield body[at : at + size]
        at += size


class Upstream(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port):
        super().__init__(("127.0.0.1", port), Handler)
        self.bodies = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        # Clients leave when they have read enough.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in (("content-type", "application/json"), ("content-length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path != "/v1/models":
            return self.answer(404, b"{}")
        model = {"id": "scripted-1", "object": "model", "created": 1, "owned_by": "test"}
        self.answer(200, json.dumps({"object": "list", "data": [model]}).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.bodies.append(body)
        asked = json.loads(body)
        if self.path != "/v1/chat/completions":
            return self.answer(404, b"{}")
        if asked["model"] == "busy":
            error = {"error": {"message": "slow down", "type": "requests", "param": None, "code": "rate_limited"}}
            return self.answer(429, json.dumps(error).encode(), [("retry-after-ms", "1")])
        text, calls, _ = SCENARIOS[asked["model"]]
        choices = asked.get("n", 1)
        if not asked.get("stream"):
            return self.answer(200, whole(text, calls, choices))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        usage = (asked.get("stream_options") or {}).get("include_usage")
        body = b"".join(streamed(text, calls, choices, usage))
        for piece in pieces(body, single=asked["model"] == "two_calls"):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")


# --- the client ------------------------------------------------------------------------------------------------------


def arguments(model, **more):
    return {
        "model": model,
        "messages": [
            {"role": "user", "content": "Please help."},
            {"role": "assistant", "content": None, "tool_calls": [call(9, *LOOK_UP)]},
            {"role": "tool", "tool_call_id": "call_9", "content": "Found: Grüße ☃"},
        ],
        "tools": TOOLS,
        **more,
    }


def run_sync(url, stream, asked):
    with openai.OpenAI(api_key="sk-test", base_url=url) as client:
        if not stream:
            return client.chat.completions.create(**asked).to_dict()
        with client.chat.completions.stream(**asked) as events:
            for _ in events:
                pass
            return events.get_final_completion().to_dict()


def run_async(url, stream, asked):
    async def run():
        async with openai.AsyncOpenAI(api_key="sk-test", base_url=url) as client:
            if not stream:
                return (await client.chat.completions.create(**asked)).to_dict()
            async with client.chat.completions.stream(**asked) as events:
                async for _ in events:
                    pass
                return (await events.get_final_completion()).to_dict()

    return asyncio.run(run())


def blocked(direct, codes):
    """What must arrive when the calls with a code are blocked: the notes' codes, and the object without the note."""
    expected = json.loads(json.dumps(direct))
    for choice in expected["choices"]:
        message = choice["message"]
        kept = [c for c, code in zip(message.pop("tool_calls"), codes) if code is None]
        for index, survivor in enumerate(kept):
            if "index" in survivor:
                survivor["index"] = index
        if kept:
            message["tool_calls"] = kept
        else:
            choice["finish_reason"] = "stop"
    return expected


def take_notes(completion, codes):
    """Checks and removes the notes."""
    for choice in completion["choices"]:
        message = choice["message"]
        content = message["content"] or ""
        said, found, notes = content.rpartition("\n\n[holdpoint] ")
        if not found:
            assert content.startswith("[holdpoint] "), f"no note in {content!r}"
            said, notes = None, content
        for code in filter(None, codes):
            assert f"(code: {code})" in notes, notes
        message["content"] = said
        if message.get("tool_calls") is None:
            message.pop("tool_calls", None)


class Check:
    def __init__(self, proxy, upstream, origin):
        self.proxy, self.upstream, self.origin = proxy, upstream, origin
        self.passed, self.failed = 0, 0

    def both(self, run, stream, asked):
        """The object of a direct run and of one through the proxy, and what the upstream got each time."""
        results = []
        for url in (self.origin, self.proxy):
            self.upstream.bodies.clear()
            try:
                result = run(url, stream, asked)
            except openai.OpenAIError as error:
                result = error
            results.append((result, list(self.upstream.bodies)))
        return results

    def scenario(self, name, run, stream, **more):
        codes = SCENARIOS[name][2]
        asked = arguments(name, **more)
        (direct, sent), (got, received) = self.both(run, stream, asked)
        for result in (direct, got):
            if isinstance(result, Exception):
                raise result
        assert len(received) == 1, f"{len(received)} requests reached the upstream"
        assert received == sent, "the request was changed"
        if any(codes):
            take_notes(got, codes)
            direct = blocked(direct, codes)
        assert got == direct, f"\n got      {got}\n expected {direct}"

    def error(self, run, stream):
        (direct, sent), (got, received) = self.both(run, stream, arguments("busy"))
        assert type(got) is type(direct) is openai.RateLimitError, f"{got!r} instead of {direct!r}"
        assert got.body == direct.body, f"{got.body} instead of {direct.body}"
        assert len(received) == len(sent), f"{len(received)} tries instead of {len(sent)}"

    def refused_endpoint(self):
        self.upstream.bodies.clear()
        with openai.OpenAI(api_key="sk-test", base_url=self.proxy) as client:
            try:
                client.embeddings.create(model="m", input="x")
            except openai.NotFoundError as error:
                assert error.code == "endpoint_unknown", error.body
            else:
                raise AssertionError("an endpoint that is not understood was forwarded")
        assert not self.upstream.bodies, "it reached the upstream"

    def models(self):
        with openai.OpenAI(api_key="sk-test", base_url=self.proxy) as client:
            assert [model.id for model in client.models.list()] == ["scripted-1"]

    def run(self, name, test, *rest, **more):
        try:
            test(*rest, **more)
        except Exception as error:
            self.failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}")
        else:
            self.passed += 1

    def all(self):
        for manner, run in (("sync", run_sync), ("async", run_async)):
            for stream in (False, True):
                how = f"{manner} {'streamed' if stream else 'whole'}"
                for name in SCENARIOS:
                    self.run(f"{name} {how}", self.scenario, name, run, stream)
                self.run(f"n=2 {how}", self.scenario, "block_first", run, stream, n=2)
                if stream:
                    usage = {"include_usage": True}
                    self.run(f"usage {how}", self.scenario, "block_all", run, stream, stream_options=usage)
                self.run(f"429 {how}", self.error, run, stream)
        self.run("models", self.models)
        self.run("an endpoint that is not understood", self.refused_endpoint)


# --- the proxy -------------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def proxy(binary, upstream_port):
    with tempfile.TemporaryDirectory() as folder:
        agents, operations = free_port(), free_port()
        config = CONFIG.replace("AGENTS", str(agents)).replace("OPERATIONS", str(operations))
        folder = pathlib.Path(folder)
        (folder / "policy.yaml").write_text(POLICY)
        (folder / "holdpoint.yaml").write_text(config.replace("UPSTREAM", str(upstream_port)))
        log = (folder / "log").open("w+")
        process = subprocess.Popen(
            [str(binary), "serve", "--config", str(folder / "holdpoint.yaml")], stdout=log, stderr=log
        )
        try:
            wait_until_ready(process, f"http://127.0.0.1:{operations}/readyz", folder / "log")
            yield f"http://127.0.0.1:{agents}/openai/v1"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()


def wait_until_ready(process, url, log):
    for _ in range(200):
        if process.poll() is not None:
            break
        with contextlib.suppress(urllib.error.URLError, OSError):
            if urllib.request.urlopen(url, timeout=1).status == 200:
                return
        time.sleep(0.05)
    sys.exit(f"holdpoint serve did not come up:\n{log.read_text()}")


def main():
    options = argparse.ArgumentParser(description="The official openai SDK against the proxy.")
    options.add_argument("--binary", type=pathlib.Path, help="holdpoint; without it $HOLDPOINT_URL is tested")
    options.add_argument("--upstream-port", type=int, default=0, help="port of the scripted upstream")
    given = options.parse_args()
    # The SDK must not find a proxy or a key of the machine's own.
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("OPENAI_"):
            del os.environ[name]
    upstream = Upstream(given.upstream_port)
    port = upstream.server_port
    if given.binary:
        running = proxy(given.binary.resolve(), port)
    elif url := os.environ.get("HOLDPOINT_URL"):
        running = contextlib.nullcontext(url)
    else:
        options.error("give --binary or set HOLDPOINT_URL")
    with running as url:
        check = Check(url, upstream, f"http://127.0.0.1:{port}/v1")
        check.all()
    print(f"{check.passed} passed, {check.failed} failed")
    sys.exit(1 if check.failed else 0)


if __name__ == "__main__":
    main()
