"""The checks of deploy/ that need the binary or more than a validator. Run by scripts/check-deploy."""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
METRICS_PAGE = ROOT / "docs" / "reference" / "metrics.md"
LISTENERS = ("agents", "approvers", "operations", "forward")
SECRETS = {"OPENAI_API_KEY": "sk-not-a-key", "HOLDPOINT_APPROVER_KEY": "not-a-key-but-long-enough-to-be-one"}
START_SECONDS = 30

problems: list[str] = []


def expect(holds: bool, problem: str) -> None:
    if not holds:
        problems.append(problem)


# ---------------------------------------------------------------------------------------------------- files


def configs() -> dict[str, tuple[str, str]]:
    """Every (config, policy) pair under deploy/, by where it stands."""
    pairs = {"deploy/holdpoint.yaml": ((DEPLOY / "holdpoint.yaml").read_text(), (DEPLOY / "policy.yaml").read_text())}
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] == "ConfigMap":
                pairs[f"{path.relative_to(ROOT)}"] = (document["data"]["holdpoint.yaml"], document["data"]["policy.yaml"])
    return pairs


def check_policies(binary: pathlib.Path) -> None:
    """The product's own check accepts each config with its policy."""
    for where, (config, policy) in configs().items():
        with tempfile.TemporaryDirectory() as folder:
            files = write_config(pathlib.Path(folder), config, policy)
            result = subprocess.run(
                [binary, "policy", "check", files["policy"], "--config", files["config"]],
                env={**os.environ, **SECRETS},
                capture_output=True,
                text=True,
                check=False,
            )
        expect(result.returncode == 0, f"{where}: `holdpoint policy check` says:\n{result.stderr}{result.stdout}")


def write_config(folder: pathlib.Path, config: str, policy: str) -> dict[str, pathlib.Path]:
    (folder / "holdpoint.yaml").write_text(config)
    (folder / "policy.yaml").write_text(policy)
    return {"config": folder / "holdpoint.yaml", "policy": folder / "policy.yaml"}


def check_compose() -> None:
    """Structure that the validator of a container engine would look at, and the promises of the file's comments."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    networks, volumes = compose["networks"], compose["volumes"]
    for name, service in compose["services"].items():
        used = service.get("networks", [])
        expect(set(used) <= set(networks), f"compose: {name} is on a network that is not declared")
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            exists = (DEPLOY / source).is_file() if source.startswith(".") else source in volumes
            expect(exists, f"compose: {name} mounts {source}, which is not there")
        if name != "agent":
            expect(service.get("read_only") is True, f"compose: {name} must have a read-only root")
            expect(service.get("cap_drop") == ["ALL"], f"compose: {name} must drop all capabilities")
    holdpoint, agent = compose["services"]["holdpoint"], compose["services"]["agent"]
    expect(holdpoint["user"] == "65532:65532", "compose: holdpoint must run as 65532")
    expect(all(networks[name].get("internal") for name in agent["networks"]), "compose: the agent has a way out")
    shared = set(agent["networks"]) & set(holdpoint["networks"])
    for listener in ("approvers", "operations"):
        address = holdpoint["environment"][f"HOLDPOINT__LISTEN__{listener.upper()}"].rsplit(":", 1)[0]
        reachable = any(holdpoint["networks"][name]["ipv4_address"] == address for name in shared)
        expect(not reachable, f"compose: the agent reaches the listener for {listener}")
    for name, settings in holdpoint["networks"].items():
        subnet = networks[name]["ipam"]["config"][0]["subnet"]
        same = subnet.rsplit(".", 1)[0] == settings["ipv4_address"].rsplit(".", 1)[0]
        expect(same, f"compose: holdpoint's address on {name} is not in {subnet}")


def check_kubernetes() -> None:
    """What no schema says: hardened containers, probes and services at ports that the config listens on."""
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        documents = list(yaml.safe_load_all(path.read_text()))
        maps = [d for d in documents if d["kind"] == "ConfigMap"]
        listen = yaml.safe_load(maps[0]["data"]["holdpoint.yaml"])["listen"] if maps else {}
        pods = {d["metadata"]["name"]: d["spec"]["template"] for d in documents if d["kind"] == "Deployment"}
        for name, pod in pods.items():
            check_pod(f"{path.name}: {name}", pod["spec"], listen)
        for service in (d for d in documents if d["kind"] == "Service"):
            for port in service["spec"]["ports"]:
                expect(
                    str(listen.get(port["targetPort"], "")).endswith(f":{port['port']}"),
                    f"{path.name}: the service {service['metadata']['name']} leads to no listener",
                )


def check_pod(where: str, spec: dict, listen: dict) -> None:
    expect(spec["securityContext"].get("runAsNonRoot") is True, f"{where}: must not run as root")
    expect(
        spec["securityContext"].get("seccompProfile") == {"type": "RuntimeDefault"}, f"{where}: needs a seccomp profile"
    )
    expect(spec.get("automountServiceAccountToken") is False, f"{where}: must not hold a token of the cluster")
    for container in spec.get("initContainers", []) + spec["containers"]:
        name = f"{where}/{container['name']}"
        security = container["securityContext"]
        expect(security.get("readOnlyRootFilesystem") is True, f"{name}: must have a read-only root")
        expect(security.get("allowPrivilegeEscalation") is False, f"{name}: must not gain privileges")
        expect(security.get("capabilities") == {"drop": ["ALL"]}, f"{name}: must drop all capabilities")
        if container["name"] == "holdpoint":
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            for listener, port in ports.items():
                expect(str(listen[listener]).endswith(f":{port}"), f"{name}: nothing listens on {port} for {listener}")
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                expect(container[probe]["httpGet"]["port"] == "operations", f"{name}: {probe} asks another port")
        else:
            sources = [e for e in container.get("env", []) if "valueFrom" in e] + container.get("volumeMounts", [])
            expect(not sources, f"{name}: the agent must hold no secret and share no volume")


# ---------------------------------------------------------------------------------------------------- metrics


def selectors(expression: str) -> list[tuple[str, dict[str, str]]]:
    """The metric names of a PromQL expression, each with its `label="value"` matchers."""
    found = re.findall(r"\b(holdpoint_[a-z_]+)(?:\{([^}]*)\})?", expression)
    return [(name, dict(re.findall(r'(\w+)="([^"]*)"', matchers))) for name, matchers in found]


def check_alerts(scrape: str) -> None:
    """Alerts select series that the documentation names and that a running Holdpoint really has."""
    documented = set(re.findall(r"`(holdpoint_[a-z_]+)", METRICS_PAGE.read_text()))
    expect(bool(documented), f"{METRICS_PAGE.name} names no metric")
    series = []
    for name, labels in re.findall(r"^(holdpoint_[a-z_]+)(?:\{(.*)\})? ", scrape, re.MULTILINE):
        series.append((name, dict(re.findall(r'(\w+)="([^"]*)"', labels))))
    expect(bool(series), "the scrape holds no metric of Holdpoint")
    lint = subprocess.run(["promtool", "check", "metrics"], input=scrape, capture_output=True, text=True, check=False)
    expect(lint.returncode == 0, f"promtool says of the scrape:\n{lint.stdout}{lint.stderr}")
    rules = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        used = selectors(rule["expr"])
        expect(bool(used) or "up{" in rule["expr"], f"{rule['alert']}: names no metric")
        for name, matchers in used:
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            expect(base in documented, f"{rule['alert']}: {base} is not in {METRICS_PAGE.name}")
            matched = any(n == name and matchers.items() <= labels.items() for n, labels in series)
            expect(matched, f"{rule['alert']}: no series of a running Holdpoint matches {name} {matchers}")


# ---------------------------------------------------------------------------------------------------- a running one

# Runs the image's file system as a container engine would: its own root, read-only, as 65532, without a shell.
# $1: the root, then the program's arguments.
AS_ROOT = """
mount --bind "$1" "$1"
mount --bind "$1/var/lib/holdpoint" "$1/var/lib/holdpoint"
mount -o remount,bind,ro "$1"
root=$1; shift
exec {enter} /holdpoint "$@"
"""
ENTER_AS_ROOT = 'chroot --userspec=65532:65532 "$root"'
ENTER_AS_USER = 'unshare --user --map-user=65532 --map-group=65532 --root="$root"'


def sandbox(image: pathlib.Path, arguments: list[str]) -> list[str]:
    if os.geteuid() == 0:
        os.chown(image / "var/lib/holdpoint", 65532, 65532)
        return ["unshare", "--mount", "sh", "-euc", AS_ROOT.format(enter=ENTER_AS_ROOT), "sh", str(image), *arguments]
    script = AS_ROOT.format(enter=ENTER_AS_USER)
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-euc", script, "sh", str(image), *arguments]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def serving(image: pathlib.Path, config: str, policy: str):
    """A Holdpoint that serves from the image's file system; yields the port of each listener."""
    write_config(image / "etc/holdpoint", config, policy)
    ports = {name: free_port() for name in LISTENERS if name in yaml.safe_load(config)["listen"]}
    overrides = {f"HOLDPOINT__LISTEN__{name.upper()}": f"127.0.0.1:{port}" for name, port in ports.items()}
    process = subprocess.Popen(
        sandbox(image, ["serve", "--config", "/etc/holdpoint/holdpoint.yaml"]),
        env={"PATH": os.environ["PATH"], **SECRETS, **overrides},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process, ports
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def not_ready(process: subprocess.Popen, operations: int) -> str:
    """Waits until /readyz answers 200; what went wrong, or nothing."""
    deadline = time.monotonic() + START_SECONDS
    status = None
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return f"ended with code {process.returncode}"
        with contextlib.suppress(OSError):
            status, _ = get(operations, "/readyz")
            if status == 200:
                return ""
        time.sleep(0.1)
    return f"is not ready in {START_SECONDS} s: /readyz says {status}"


def scrape_of(where: str, image: pathlib.Path, config: str, policy: str) -> str:
    with serving(image, config, policy) as (process, ports):
        fault = not_ready(process, ports["operations"])
        if fault:
            process.kill()
            problems.append(f"{where}: `holdpoint serve` {fault}:\n{process.stderr.read()}")
            return ""
        expect(get(ports["operations"], "/healthz")[0] == 200, f"{where}: /healthz does not answer 200")
        scrape = get(ports["operations"], "/metrics")[1]
        process.send_signal(signal.SIGTERM)
        expect(process.wait(timeout=10) == 0, f"{where}: SIGTERM does not end it with code 0")
    return scrape


def check_image(binary: pathlib.Path) -> str:
    """Each config serves from the container's file system: read-only, as 65532, with nothing else in it."""
    scrape = ""
    for where, (config, policy) in configs().items():
        with tempfile.TemporaryDirectory() as folder:
            image = pathlib.Path(folder)
            image.chmod(0o755)
            subprocess.run([ROOT / "scripts/assemble-root", binary, image], check=True)
            scrape = scrape_of(where, image, config, policy) or scrape
    return scrape


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=pathlib.Path)
    binary = parser.parse_args().binary.resolve()
    checks = [
        ("compose", check_compose),
        ("Kubernetes: hardening and ports", check_kubernetes),
        ("configs and policies", lambda: check_policies(binary)),
    ]
    for name, check in checks:
        print(f"-- {name}", flush=True)
        check()
    print("-- the image's file system", flush=True)
    if shutil.which("unshare") is None:
        print("skipped: no unshare on this machine", file=sys.stderr)
    else:
        scrape = check_image(binary)
        print("-- alerts name what exists", flush=True)
        check_alerts(scrape)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
