"""Runs a client command with a proxy in front of the URL that is its last argument: through.py HOLDPOINT COMMAND... URL

The client gets the proxy's URL in its place. In the scenarios with OAuth it gets the server's own, and HOLDPOINT_FRONT: a sign-in
is about the URL of the server, so the proxy must stand under its name. How many requests it has answered goes to the file
HOLDPOINT_PASSED.
"""

import os
import pathlib
import subprocess
import sys
import urllib.parse

import harness

binary, *command, url = sys.argv[1:]
parts = urllib.parse.urlsplit(url)
with harness.proxy(binary, f"{parts.scheme}://{parts.netloc}") as front:
    if os.environ.get("MCP_CONFORMANCE_SCENARIO", "").startswith("auth/"):
        own, env = url, {**os.environ, "HOLDPOINT_FRONT": str(front)}
    else:
        own, env = front + parts.path, None
    code = subprocess.run([*command, own], env=env, check=False).returncode
    pathlib.Path(os.environ["HOLDPOINT_PASSED"]).write_text(str(front.requests()))
sys.exit(code)
