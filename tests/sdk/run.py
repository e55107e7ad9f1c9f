"""The official SDKs and agent frameworks against `holdpoint serve`.

    python tests/sdk/run.py --binary target/debug/holdpoint --upstream target/debug/examples/scripted_upstream \\
        --modules FOLDER [CLIENT...]

FOLDER has the packages of tests/sdk/package.json; this Python has those of requirements.txt. Without clients, all run.

Each case of `cases.py` is one request through the proxy and one straight to the upstream. What is allowed must arrive equal;
of what is blocked that arrives which a model would have said that proposes the other calls alone, and a note. Clients are
programs of their own in `clients/`, which know nothing of a proxy. Ends with a non-zero status on any failure.
"""

import argparse
import asyncio
import functools
import itertools
import json
import os
import pathlib
import sys
import time
import urllib.request

import approval
import cases
import check
import claude_code
import rig

# Clients at a time. What they wait for overlaps, and each gets enough of the machine to end in its own time limits.
PARTS = (os.cpu_count() or 1) + 1

# Requests of one client at a time: those that stall overlap.
AT_ONCE = 12

# For one outcome, with everything else running.
PATIENCE = 120


class Running:
    """A client that is running."""

    def __init__(self, client, process):
        self.client, self.process = client, process
        self.waiting, self.numbers = {}, itertools.count()
        self.ready, self.limit = asyncio.Event(), asyncio.Semaphore(AT_ONCE)
        self.reader = asyncio.create_task(self.read())

    @classmethod
    async def start(cls, client, modules):
        program = ["node"] if client.javascript else [sys.executable]
        arguments = [*program, str(rig.HERE / "clients" / client.file)] + [str(modules)] * client.javascript
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=rig.clean_environment() | {"NODE_NO_WARNINGS": "1"},
            limit=1 << 24,
        )
        return cls(client, process)

    async def read(self):
        try:
            await self.process.stdout.readline()
            self.ready.set()
            while line := await self.process.stdout.readline():
                outcome = json.loads(line)
                waiting = self.waiting.pop(outcome["id"])
                if not waiting.done():
                    waiting.set_result(outcome)
        finally:
            self.ready.set()
            for waiting in self.waiting.values():
                if not waiting.done():
                    waiting.set_exception(AssertionError("the client ended early"))

    async def ask(self, request):
        # Importing takes longer than anything after it.
        await self.ready.wait()
        async with self.limit:
            assert not self.reader.done(), "the client ended early"
            number = next(self.numbers)
            waiting = self.waiting[number] = asyncio.get_running_loop().create_future()
            self.process.stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
            await self.process.stdin.drain()
            return await asyncio.wait_for(waiting, PATIENCE)

    async def end(self):
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), PATIENCE)
            await self.reader
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
            raise AssertionError("the client does not end") from None


class Results:
    def __init__(self):
        self.passed, self.failed = 0, 0

    async def of(self, name, test):
        try:
            await test
        except Exception as error:
            self.failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
        else:
            self.passed += 1


async def one(running, world, case):
    base = functools.partial(world.base, case.client.name, case.api, case.upstream)
    direct, got = await asyncio.gather(
        running.ask(case.request(base(through=False), case.expected_model)),
        running.ask(case.request(base(through=True), case.model)),
    )
    await asyncio.to_thread(check.check, case, world, direct, got)


async def counted(running, world, case, extra, upstream_hits, status):
    """One request through the proxy is one there, and `upstream_hits` behind it: nobody tries again."""
    client, api = case.client.name, case.api
    before = world.proxied(client, api), len(world.seen(case.model, through=True))
    got = await running.ask(case.request(world.base(client, api, "scripted", through=True), case.model, extra))
    assert got.get("error", {}).get("status") == status, f"{got}"
    # An answer is counted when it has left.
    for _ in range(100):
        hits = world.proxied(client, api) - before[0]
        if hits:
            break
        await asyncio.sleep(0.05)
    assert hits == 1, f"{hits} requests to the proxy"
    hits = len(world.seen(case.model, through=True)) - before[1]
    assert hits == upstream_hits, f"{hits} requests to the upstream"


async def retries(running, world, results):
    for api in running.client.apis:
        for stream in (True, False):
            case = cases.Case(running.client, api, running.client.modes[0], stream, "block_all")
            name = f"retry {case.name}"
            await results.of(f"{name} blocked", counted(running, world, case, {}, 1, None))
            await results.of(f"{name} refused", counted(running, world, case, cases.HOSTED[api], 0, 403))


async def signs_of_life(world, clients, api):
    """While the upstream says nothing within a call, the client's stream does not stand still."""
    client = next(client for client in clients if api in client.apis)
    case = cases.Case(client, api, client.modes[0], True, "allow", "stall")
    body = {"model": case.model + "-alive", "stream": True, "max_tokens": 9, "messages": [cases.NEXT]}
    path = {"chat": "/chat/completions", "messages": "/v1/messages"}[api]
    url = world.base(client.name, api, "scripted", through=True) + path
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})

    def read():
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            return answer.read().decode()

    answer = await asyncio.to_thread(read)
    sign = {"chat": ": keep-alive\n\n", "messages": "event: ping\n"}[api]
    # The upstream's own ping is one of them.
    assert answer.count(sign) > 3, f"{answer.count(sign)} signs of life in five seconds"


async def family(client, modules, world, all_cases, results):
    started = time.monotonic()
    running = await Running.start(client, modules)
    await asyncio.gather(*(results.of(c.name, one(running, world, c)) for c in all_cases if c.client is client))
    await retries(running, world, results)
    await results.of(f"{client.name} ends", running.end())
    print(f"{client.name}: {time.monotonic() - started:.0f} s", flush=True)


async def run(world, clients, modules, with_claude_code, with_approval):
    results = Results()
    all_cases = list(cases.all_cases(clients, world.upstreams))
    apis = {api for client in clients for api in client.apis}
    parts = [results.of(f"signs of life {api}", signs_of_life(world, clients, api)) for api in sorted(apis)]
    if with_claude_code:
        parts.append(claude_code.run(world, modules, results))
    if with_approval:
        parts.append(approval.run(world.binary, results))
    parts += [family(client, modules, world, all_cases, results) for client in clients]
    room = asyncio.Semaphore(PARTS)

    async def in_turn(part):
        async with room:
            await part

    await asyncio.gather(*map(in_turn, parts))
    return results


def main():
    names = [client.name for client in cases.CLIENTS] + [claude_code.NAME, approval.NAME]
    options = argparse.ArgumentParser(description="The official SDKs against the proxy.")
    options.add_argument("--binary", type=pathlib.Path, required=True, help="holdpoint")
    options.add_argument("--upstream", type=pathlib.Path, required=True, help="the example scripted_upstream")
    options.add_argument("--modules", type=pathlib.Path, help="folder of the JavaScript packages")
    options.add_argument("clients", nargs="*", metavar="CLIENT", help=", ".join(names))
    given = options.parse_args()
    if unknown := set(given.clients) - set(names):
        options.error(f"no client {', '.join(unknown)}; there are {', '.join(names)}")
    clients = [c for c in cases.CLIENTS if not given.clients or c.name in given.clients]
    with_claude_code = not given.clients or claude_code.NAME in given.clients
    with_approval = not given.clients or approval.NAME in given.clients
    if not given.modules and (with_claude_code or any(c.javascript for c in clients)):
        options.error("clients in JavaScript need --modules")
    apis = {client.name: client.apis for client in clients} | {claude_code.NAME: ("messages",)}
    with rig.started(given.binary.resolve(), given.upstream.resolve(), given.modules, apis) as world:
        results = asyncio.run(run(world, clients, given.modules, with_claude_code, with_approval))
    print(f"{results.passed} passed, {results.failed} failed")
    sys.exit(1 if results.failed else 0)


if __name__ == "__main__":
    main()
