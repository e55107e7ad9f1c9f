"""Holdpoint among real MCP peers: the conformance suite, four SDK clients, and real servers.

    run.py --tools FOLDER --binary HOLDPOINT [PART...]
"""

import argparse
import pathlib
import sys
import time

import clients
import conformance
import harness
import servers

PARTS = {"conformance": conformance.run, "clients": clients.run, "servers": servers.run}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    args = parser.parse_args()
    tools = harness.Tools(args.tools, args.binary)
    if missing := tools.missing():
        print(f"not there: {missing}", file=sys.stderr)
        return 1
    tally = harness.Tally()
    for name in args.parts or PARTS:
        started = time.monotonic()
        PARTS[name](tools, tally)
        harness.note(f"{name}: {time.monotonic() - started:.0f} s")
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
