"""Real servers on standard input and output, direct and through `holdpoint mcp-wrap`."""

import asyncio
import contextlib
import dataclasses
import functools
import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

import harness

POLICY = """version: 1
name: wrapped
layers: {{catalog: enforce, identity: off, egress: enforce, recipients: off, ownership: off, injection: off, tickets: off}}
lists:
  local: {{hosts: ["127.0.0.1:{port}"]}}
egress: {{allow: [local], schemes: [https, http]}}
tools:
{denied}  - {{tool: "*"}}
"""


@dataclasses.dataclass
class Server:
    """A server, a call that must be as it was, and one that must not be carried out."""

    name: str
    command: list[str]
    call: tuple[str, dict]
    denied: tuple[str, dict]
    # Whether the whole tool is denied, and so not even shown.
    hidden: bool = True


def servers(tools: harness.Tools, folder: pathlib.Path, port: int) -> list[Server]:
    npm = tools.modules / "@modelcontextprotocol"
    node = lambda name: [tools.node, str(npm / name / "dist" / "index.js")]  # noqa: E731
    python = lambda name: [str(tools.bin / name)]  # noqa: E731
    file = folder / "a.txt"
    oslo = {"source_timezone": "Europe/Oslo", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    entities = {"entities": [{"name": "Ann", "entityType": "person", "observations": ["likes tea"]}]}
    return [
        Server(
            "filesystem",
            [*node("server-filesystem"), str(folder)],
            ("read_text_file", {"path": str(file)}),
            ("write_file", {"path": str(folder / "new.txt"), "content": "x"}),
        ),
        Server(
            "memory",
            node("server-memory"),
            ("search_nodes", {"query": "nobody"}),
            ("create_entities", entities),
        ),
        Server(
            "fetch",
            [*python("mcp-server-fetch"), "--allow-private-ips", "--ignore-robots-txt"],
            ("fetch", {"url": f"http://127.0.0.1:{port}/a.txt"}),
            ("fetch", {"url": f"http://127.0.0.1:{port + 1}/a.txt"}),
            hidden=False,
        ),
        Server(
            "time",
            python("mcp-server-time"),
            ("convert_time", oslo),
            ("get_current_time", {"timezone": "Asia/Tokyo"}),
        ),
        Server(
            "git",
            [*python("mcp-server-git"), "--repository", str(folder)],
            ("git_log", {"repo_path": str(folder), "max_count": 5}),
            ("git_commit", {"repo_path": str(folder), "message": "no"}),
        ),
    ]


async def talk(command: list[str], calls: list[tuple[str, dict]]) -> tuple[list, list]:
    """The tools and what the calls give, as a client of the newest SDK sees them."""
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    def plain(model) -> dict:
        return model.model_dump(by_alias=True, mode="json", exclude_none=True)

    start = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(stdio_client(start, errlog=sys.stderr)) as client:
        listed = [plain(tool) for tool in (await client.list_tools()).tools]
        results = []
        for name, arguments in calls:
            try:
                results.append(plain(await client.call_tool(name, arguments)))
            except Exception as error:
                results.append({"raised": repr(error)})
        return listed, results


async def all_of(sessions: list) -> list:
    return await asyncio.gather(*(talk(*session) for session in sessions))


def ask(tools: harness.Tools, sessions: list) -> list[tuple[list, list]]:
    """`talk` for each, at once, in the Python that has the SDK."""
    given = json.dumps(sessions)
    done = subprocess.run(
        [tools.python, __file__], input=given, capture_output=True, text=True, timeout=240, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


@contextlib.contextmanager
def ground():
    """A folder with one file, in a repository, served over HTTP."""
    with tempfile.TemporaryDirectory(prefix="holdpoint-servers-") as name:
        folder = pathlib.Path(name)
        (folder / "a.txt").write_text("A text of the test.\n")
        git = ["git", "-C", name, "-c", "user.name=Ann", "-c", "user.email=ann@shop.example"]
        for words in (["init", "-q"], ["add", "a.txt"], ["commit", "-qm", "Add a text"]):
            subprocess.run([*git, *words], check=True)
        handler = functools.partial(Quiet, directory=name)
        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        try:
            yield folder, web.server_port
        finally:
            web.shutdown()
            web.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_args) -> None:
        pass


def wrapped(tools: harness.Tools, server: Server, policies: pathlib.Path, port: int) -> list[str]:
    """The command of the server behind the proxy, with a policy of its own."""
    tool, _ = server.denied
    denied = f"  - {{tool: {tool}, deny: true}}\n" if server.hidden else ""
    policy = policies / f"{server.name}.yaml"
    policy.write_text(POLICY.format(port=port, denied=denied))
    return [tools.binary, "mcp-wrap", "--policy", str(policy), "--log-level", "error", "--", *server.command]


def check(tally: harness.Tally, server: Server, direct: tuple, behind: tuple) -> None:
    name, tool = server.name, server.denied[0]
    (listed, [plain]), (shown, [same, refused]) = direct, behind
    kept = [one for one in listed if not (server.hidden and one["name"] == tool)]
    tally.equal(f"{name}: the tools are shown as they are", shown, kept)
    tally.equal(f"{name}: a call gives what it gives", same, plain)
    tally.check(f"{name}: it gave something", not plain.get("isError", "raised" in plain), plain)
    blocked = refused.get("isError") and "holdpoint" in json.dumps(refused)
    tally.check(f"{name}: a denied call is refused", blocked, refused)


def run(tools: harness.Tools, tally: harness.Tally) -> None:
    with ground() as (folder, port), tempfile.TemporaryDirectory() as policies:
        known = servers(tools, folder, port)
        sessions = [(server.command, [server.call]) for server in known]
        for server in known:
            command = wrapped(tools, server, pathlib.Path(policies), port)
            sessions.append((command, [server.call, server.denied]))
        talks = ask(tools, sessions)
        for server, direct, behind in zip(known, talks, talks[len(known) :]):
            check(tally, server, direct, behind)
        log = ["git", "-C", str(folder), "log", "--oneline"]
        commits = subprocess.run(log, capture_output=True, text=True, check=True).stdout
        tally.equal("git: nothing was committed", len(commits.splitlines()), 1)
        tally.check("filesystem: nothing was written", not (folder / "new.txt").exists())


if __name__ == "__main__":
    print(json.dumps(asyncio.run(all_of(json.load(sys.stdin)))))
