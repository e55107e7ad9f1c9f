"""The official conformance suite, direct and through the proxy: every check of every scenario must end alike."""

import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import harness

REVISIONS = "2025-11-25", "2026-07-28"

# Sign-ins with OAuth, with the proxy under the server's name: see through.py. Extensions and the sign-in of 2025-03-26, in which the
# authorization server is the MCP server itself, are not among the revisions' requirements.
SIGN_IN = [
    f"auth/{name}"
    for name in (
        "metadata-default",
        "metadata-var1",
        "metadata-var2",
        "metadata-var3",
        "basic-cimd",
        "scope-from-www-authenticate",
        "scope-from-scopes-supported",
        "scope-omitted-when-undefined",
        "scope-step-up",
        "scope-retry-limit",
        "token-endpoint-auth-basic",
        "token-endpoint-auth-post",
        "token-endpoint-auth-none",
        "pre-registration",
    )
]
SIGN_IN_2026 = [
    f"auth/{name}"
    for name in (
        "resource-mismatch",
        "offline-access-scope",
        "offline-access-not-supported",
        "authorization-server-migration",
        "iss-supported",
        "iss-not-advertised",
        "iss-supported-missing",
        "iss-wrong-issuer",
        "iss-unexpected",
        "iss-normalized",
        "metadata-issuer-mismatch",
    )
]

CLIENT = {
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
        *SIGN_IN,
    ],
    "2026-07-28": [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
        *SIGN_IN,
        *SIGN_IN_2026,
    ],
}

STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[-\d]+Z$")

Results = dict[str, list[tuple[str, str, str]]]


def read(folder: pathlib.Path) -> Results:
    """Checks by scenario: id, name and status."""
    results: Results = {}
    for file in sorted(folder.glob("**/checks.json")):
        # server-NAME-2026-11-30T14-13-01-152Z
        name = STAMP.sub("", file.parent.name).removeprefix("server-")
        checks = json.loads(file.read_text())
        results[name] = sorted((check["id"], check["name"], check["status"]) for check in checks)
    return results


def server(tools: harness.Tools, url: str, revision: str) -> Results:
    with tempfile.TemporaryDirectory(prefix="holdpoint-conformance-") as folder:
        command = [*tools.conformance(), "server", "--url", url, "--requirements", revision, "-o", folder]
        subprocess.run(command, capture_output=True, timeout=300, check=False)
        return read(pathlib.Path(folder))


@contextlib.contextmanager
def warm_client(tools: harness.Tools):
    """The client, loaded; gives the command that has it run."""
    with tempfile.TemporaryDirectory(prefix="holdpoint-client-") as folder:
        path = f"{folder}/socket"
        program = str(harness.HERE / "conformance_client.py")
        # What a scenario makes the SDK say is the suite's to judge.
        process = subprocess.Popen([tools.python, program, "--serve", path], stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while not os.path.exists(path):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the conformance client did not start")
                time.sleep(0.05)
            yield [sys.executable, program, "--at", path]
        finally:
            process.terminate()
            process.wait()


def client(
    tools: harness.Tools, command: list[str], scenario: str, revision: str, proxied: bool
) -> Results:
    if proxied:
        command = [sys.executable, str(harness.HERE / "through.py"), tools.binary, *command]
    with tempfile.TemporaryDirectory(prefix="holdpoint-conformance-") as folder:
        run = [*tools.conformance(), "client", "--command", " ".join(command), "--scenario", scenario]
        run += ["--spec-version", revision, "-o", folder]
        passed = pathlib.Path(folder) / "passed"
        env = {**os.environ, "HOLDPOINT_PASSED": str(passed)}
        subprocess.run(run, capture_output=True, timeout=120, check=False, env=env)
        found = read(pathlib.Path(folder))
        if proxied and not (passed.exists() and int(passed.read_text())):
            found["-"] = [("proxy", "requests pass it", "FAILURE")]
    return {scenario: [check for checks in found.values() for check in checks]}


def tell(results: Results) -> str:
    counts = collections.Counter(status for checks in results.values() for *_, status in checks)
    return ", ".join(f"{count} {status.lower()}" for status, count in sorted(counts.items()))


def compare(tally: harness.Tally, what: str, direct: Results, proxied: Results, least: int) -> None:
    harness.note(f"{what}: direct {tell(direct)}; through the proxy {tell(proxied)}")
    succeeded = sum(status == "SUCCESS" for checks in direct.values() for *_, status in checks)
    tally.check(f"{what}: the suite ran", succeeded >= least, f"only {succeeded} checks succeeded direct")
    for scenario in sorted(direct.keys() | proxied.keys()):
        before, after = direct.get(scenario, []), proxied.get(scenario, [])
        lost = list((collections.Counter(before) - collections.Counter(after)).elements())
        new = list((collections.Counter(after) - collections.Counter(before)).elements())
        tally.check(f"{what} {scenario}", before == after, f"direct only {lost}, proxy only {new}")


def run(tools: harness.Tools, tally: harness.Tally) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for revision, least in zip(REVISIONS, (84, 165)):
            # A server each: what one run leaves behind is not there in the other.
            with harness.fixture(tools) as plain, harness.fixture(tools) as behind:
                with harness.proxy(tools.binary, behind) as front:
                    direct = pool.submit(server, tools, f"{plain}/mcp", revision)
                    proxied = pool.submit(server, tools, f"{front}/mcp", revision)
                    compare(tally, f"server {revision}", direct.result(), proxied.result(), least)
        with warm_client(tools) as command:
            for revision, scenarios in CLIENT.items():
                runs = {
                    proxied: [
                        pool.submit(client, tools, command, name, revision, proxied)
                        for name in scenarios
                    ]
                    for proxied in (False, True)
                }
                direct, proxied = (
                    {name: checks for run in runs[way] for name, checks in run.result().items()}
                    for way in (False, True)
                )
                compare(tally, f"client {revision}", direct, proxied, len(scenarios))
