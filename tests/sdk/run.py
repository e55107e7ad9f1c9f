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
import pathlib
import sys

import cases
import check
import rig

# For one outcome, with everything else running.
PATIENCE = 60


class Running:
    """A client that is running."""

    def __init__(self, client, process):
        self.client, self.process = client, process
        self.waiting, self.numbers = {}, itertools.count()
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
            while line := await self.process.stdout.readline():
                outcome = json.loads(line)
                self.waiting.pop(outcome["id"]).set_result(outcome)
        finally:
            for waiting in self.waiting.values():
                waiting.set_exception(AssertionError("the client ended early"))

    async def ask(self, request):
        assert not self.reader.done(), "the client ended early"
        number = next(self.numbers)
        waiting = self.waiting[number] = asyncio.get_running_loop().create_future()
        self.process.stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
        await self.process.stdin.drain()
        return await asyncio.wait_for(waiting, PATIENCE)

    async def end(self):
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), 10)
            await self.reader
        except TimeoutError:
            self.process.kill()
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


async def family(client, modules, world, all_cases, results):
    running = await Running.start(client, modules)
    await asyncio.gather(*(results.of(c.name, one(running, world, c)) for c in all_cases if c.client is client))
    await retries(running, world, results)
    await results.of(f"{client.name} ends", running.end())


async def run(world, clients, modules):
    results = Results()
    all_cases = list(cases.all_cases(clients, world.upstreams))
    await asyncio.gather(*(family(client, modules, world, all_cases, results) for client in clients))
    return results


def main():
    names = [client.name for client in cases.CLIENTS]
    options = argparse.ArgumentParser(description="The official SDKs against the proxy.")
    options.add_argument("--binary", type=pathlib.Path, required=True, help="holdpoint")
    options.add_argument("--upstream", type=pathlib.Path, required=True, help="the example scripted_upstream")
    options.add_argument("--modules", type=pathlib.Path, help="folder of the JavaScript packages")
    options.add_argument("clients", nargs="*", metavar="CLIENT", help=", ".join(names))
    given = options.parse_args()
    if unknown := set(given.clients) - set(names):
        options.error(f"no client {', '.join(unknown)}; there are {', '.join(names)}")
    clients = [c for c in cases.CLIENTS if not given.clients or c.name in given.clients]
    if not given.modules and any(c.javascript for c in clients):
        options.error("clients in JavaScript need --modules")
    apis = {client.name: client.apis for client in clients}
    with rig.started(given.binary.resolve(), given.upstream.resolve(), given.modules, apis) as world:
        results = asyncio.run(run(world, clients, given.modules))
    print(f"{results.passed} passed, {results.failed} failed")
    sys.exit(1 if results.failed else 0)


if __name__ == "__main__":
    main()
