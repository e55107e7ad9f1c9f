"""Claude Code without a terminal: of two commands that the model proposes in one turn, the allowed one runs alone.

The scripted upstream plays the model. Commands are run in an empty folder and leave files there; the same run without the
proxy leaves both, so that a missing file says something.
"""

import asyncio
import json
import pathlib
import tempfile

import rig

NAME = "claude-code"

# For a whole run, with everything else running.
PATIENCE = 180


async def run(world, modules, results):
    await asyncio.gather(
        results.of(f"{NAME} direct", one(world, modules, through=False)),
        results.of(f"{NAME} through the proxy", one(world, modules, through=True)),
    )


async def one(world, modules, through):
    model = f"bash@{NAME}-{'proxied' if through else 'direct'}"
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        result = await headless(modules, world.base(NAME, "messages", "scripted", through), model, home, folder)
        made = {path.name for path in pathlib.Path(folder).glob("*.marker")}
    seen = world.seen(model, through)
    assert result["is_error"] is False and result["result"] == "Done.", result
    assert len(seen) == 2, f"{len(seen)} turns"
    if through:
        assert made == {"allowed.marker"}, f"the commands left {made}"
        assert "(code: host_not_allowed)" in seen[1] and "evil.example" not in seen[1], seen[1]
    else:
        assert made == {"allowed.marker", "blocked.marker"}, f"the commands left {made}"


async def headless(modules, url, model, home, folder):
    settings = {
        "HOME": home,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-test",
        "ANTHROPIC_SMALL_FAST_MODEL": f"text@{NAME}-small",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    program = modules / "node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs"
    asked = ["-p", "Please help.", "--model", model, "--allowedTools", "Bash", "--output-format", "json"]
    process = await asyncio.create_subprocess_exec(
        *["node", program.resolve(), *asked],
        cwd=folder,
        env=rig.clean_environment() | settings,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    except TimeoutError:
        process.kill()
        raise AssertionError("it does not end") from None
    assert process.returncode == 0, f"status {process.returncode}: {out.decode()} {errors.decode()}"
    return json.loads(out)
