"""What the clients talk to: the scripted upstream, aimock, and `holdpoint serve` before both, each a process of its own.

Every client has routes of its own, so that the proxy's counters can be told apart.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).parent

PROTOCOLS = {"chat": "openai_chat", "messages": "anthropic_messages"}

POLICY = """\
version: 1
name: sdk-test

layers:
  catalog: enforce
  identity: off
  egress: enforce
  recipients: enforce
  ownership: off
  injection: off
  tickets: enforce

lists:
  staff: {email_domains: [shop.example]}
  ours: {hosts: [api.shop.example]}

provider_tools: []

tools:
  - tool: send_email
    recipients: [{at: /to, kind: email, allow: [staff]}]
  - tool: look_up
    effect: read
  - tool: pay
    ticket: {gate: approve, ttl: 15m}
  - tool: Bash
    egress: [{at: /command, allow: [ours]}]
"""

CONFIG = """\
listen:
  agents: 127.0.0.1:AGENTS
  operations: 127.0.0.1:OPERATIONS
policy: policy.yaml
upstreams:
UPSTREAMS
routes:
ROUTES
principal:
  fixed: {tenant: test, subject: user-1, agent: sdk}
session: {header: holdpoint-session}
tickets: {store: tickets.db, limits: {requests_per_user: 1000, pending_per_session: 1000}}
timeouts: {keep_alive: 1s}
"""


def clean_environment():
    """Without a proxy, key or setting of the machine's own that a client could find."""
    foreign = re.compile(r".*_proxy$|^(openai|anthropic|langchain|langsmith|claude|ai_sdk)_.*", re.IGNORECASE)
    kept = {name: value for name, value in os.environ.items() if not foreign.match(name)}
    return kept | {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


@contextlib.contextmanager
def process(arguments, log, **more):
    """A process that is ended with the block."""
    running = subprocess.Popen(arguments, stderr=log, env=clean_environment(), **more)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


class Rig:
    """The running processes' addresses, and what they counted."""

    def __init__(self, folder, binary):
        self.folder, self.binary = folder, binary
        self.upstreams = {}
        self.proxy = self.operations = None

    def base(self, client, api, upstream, through):
        """The base URL that a client is given."""
        if through:
            root = f"{self.proxy}/{route(client, api, upstream)}"
        else:
            root = self.upstreams[upstream] + ("/direct" if upstream == "scripted" else "")
        return root + "/v1" if api == "chat" else root

    def seen(self, model, through):
        """Bodies of the requests for a model that reached the scripted upstream."""
        entries = json.loads(get(f"{self.upstreams['scripted']}/journal/{urllib.parse.quote(model)}"))
        return [e["body"] for e in entries if e["path"].startswith("/direct/") is not through]

    def proxied(self, client, api, upstream="scripted"):
        """How many requests a route has answered."""
        pattern = rf'^holdpoint_requests_total{{[^}}]*route="{route(client, api, upstream)}"[^}}]*}} (\d+)$'
        return sum(map(int, re.findall(pattern, get(f"{self.operations}/metrics"), re.MULTILINE)))

    def ticket(self, name):
        """What `holdpoint ticket show` says of a ticket."""
        store = self.folder / "tickets.db"
        shown = subprocess.run(
            [self.binary, "ticket", "show", name, "--store", store], capture_output=True, text=True, check=False
        )
        return shown.stdout or shown.stderr


def route(client, api, upstream):
    return f"{client}-{api}-{upstream}"


@contextlib.contextmanager
def started(binary, upstream, modules, clients):
    """Everything, for clients given as `{name: apis}`. Without `modules`, the folder that has aimock, there is none."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = stack.enter_context((folder / "log").open("w+"))
        rig = Rig(folder, binary)

        def first_line(arguments):
            running = stack.enter_context(process(arguments, log, stdout=subprocess.PIPE, text=True))
            return running.stdout.readline().strip() or sys.exit(f"{arguments} did not start:\n{text(log)}")

        rig.upstreams["scripted"] = first_line([upstream])
        if modules:
            rig.upstreams["aimock"] = first_line(["node", HERE / "aimock.mjs", modules])
        agents, operations = free_port(), free_port()
        rig.proxy, rig.operations = f"http://127.0.0.1:{agents}", f"http://127.0.0.1:{operations}"
        (folder / "policy.yaml").write_text(POLICY)
        (folder / "holdpoint.yaml").write_text(config(rig, clients, agents, operations))
        serve = [binary, "serve", "--config", folder / "holdpoint.yaml"]
        running = stack.enter_context(process(serve, log, stdout=log))
        wait_until_ready(running, f"{rig.operations}/readyz", log)
        yield rig


def config(rig, clients, agents, operations):
    routes = [
        f"  - {{name: {name}, prefix: /{name}, upstream: {upstream}, protocol: {PROTOCOLS[api]}}}"
        for client, apis in clients.items()
        for api in apis
        for upstream in rig.upstreams
        for name in [route(client, api, upstream)]
    ]
    upstreams = [f'  {name}: {{url: "{url}"}}' for name, url in rig.upstreams.items()]
    written = CONFIG.replace("AGENTS", str(agents)).replace("OPERATIONS", str(operations))
    return written.replace("UPSTREAMS", "\n".join(upstreams)).replace("ROUTES", "\n".join(routes))


def text(log):
    log.flush()
    return pathlib.Path(log.name).read_text()


def wait_until_ready(running, url, log):
    for _ in range(200):
        if running.poll() is not None:
            break
        with contextlib.suppress(urllib.error.URLError, OSError):
            get(url)
            return
        time.sleep(0.05)
    sys.exit(f"holdpoint serve did not come up:\n{text(log)}")
