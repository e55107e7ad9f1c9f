"""SDK clients at a proxy that blocks: what the model gets to read, and what has reached the server."""

import json
import subprocess

import harness

BLOCKING = """version: 1
name: blocking
layers: {catalog: enforce, identity: off, egress: off, recipients: off, ownership: off, injection: enforce, tickets: off}
tools:
  - {tool: delete_everything, deny: true}
  - {tool: "*"}
injection: {redact: 0.5, block: 0.5}
"""

CALLS = [
    ["get_weather", {"city": "Oslo"}],
    ["delete_everything", {"path": "/"}],
    ["get_poisoned", {}],
    ["get_poisoned_report", {}],
]
ALLOWED = {"isError": False, "text": ["Oslo: 21 degrees"], "structured": None}
ATTACK = "attacker@evil.example"


def commands(tools: harness.Tools) -> dict[str, list[str]]:
    python = str(harness.HERE / "client_python.py")
    node = [tools.node, str(harness.HERE / "client_node.mjs")]
    modules = str(tools.modules)
    return {
        "python mcp 2.3.0": [tools.python, python],
        "python mcp 1.30.0": [tools.legacy, python],
        "ts sdk 1.32.2": [*node, "v1", modules],
        "ts client 2.4.0": [*node, "v2", modules],
        "ts client 2.4.0, newer era": [*node, "v2-auto", modules],
    }


def ask(command: list[str], url: str) -> list[dict]:
    """Results of the calls; a client that hangs is a failure."""
    done = subprocess.run(
        [*command, url], input=json.dumps(CALLS), capture_output=True, text=True, timeout=90, check=False
    )
    if done.returncode != 0:
        return [{"raised": done.stderr[-600:]}] * len(CALLS)
    return json.loads(done.stdout)


def check(tally: harness.Tally, name: str, results: list[dict], ran: dict[str, int]) -> None:
    allowed, denied, *poisoned = results
    tally.equal(f"{name}: an allowed call is as it was", allowed, ALLOWED)
    text = " ".join(filter(None, denied.get("text", [])))
    tally.check(f"{name}: the model reads why it was denied", "holdpoint" in text and denied["isError"], denied)
    for result in poisoned:
        held = "raised" not in result and ATTACK not in json.dumps(result) and result["structured"] is None
        tally.check(f"{name}: a poisoned output is withheld", held and "holdpoint" in str(result["text"]), result)
    once = {"get_weather": 1, "get_poisoned": 1, "get_poisoned_report": 1}
    tally.equal(f"{name}: allowed calls ran once, the denied one never", ran, once)


def run(tools: harness.Tools, tally: harness.Tally) -> None:
    with harness.fixture(tools) as base, harness.proxy(tools.binary, base, BLOCKING) as front:
        for name, command in commands(tools).items():
            before = harness.hits(base)
            results = ask(command, f"{front}/mcp")
            after = harness.hits(base)
            ran = {tool: count - before.get(tool, 0) for tool, count in after.items()}
            check(tally, name, results, {tool: count for tool, count in ran.items() if count})
