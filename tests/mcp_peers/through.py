"""Runs a client command at a proxy in front of the URL that is its last argument: through.py HOLDPOINT COMMAND... URL"""

import subprocess
import sys
import urllib.parse

import harness

binary, *command, url = sys.argv[1:]
parts = urllib.parse.urlsplit(url)
with harness.proxy(binary, f"{parts.scheme}://{parts.netloc}") as front:
    code = subprocess.run([*command, front + parts.path], check=False).returncode
sys.exit(code)
