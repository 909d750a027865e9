"""A real deployment on one machine: a SuperLink and SuperNodes as processes on loopback, for the demo and the tests.

Flower's commands start helper processes that outlive them. Every process of a deployment has a mark in its
environment, by which all of them are found and stopped at the end.
"""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pfels.errors import RunError

APP = Path(__file__).parent / "app"
MARK = "PFELS_LOOPBACK"  # environment variable
START_S = 60.0


@dataclass
class Loopback:
    """A SuperLink and its SuperNodes. `home` is Flower's directory for state and logs."""

    home: Path
    port: int
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    nodes: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @classmethod
    @contextlib.contextmanager
    def up(cls, home: Path, *, nodes: int, simulated: bool = False, **node_config: Any) -> Iterator[Self]:
        """A deployment with this many nodes, stopped at the end; `simulated`: nodes of Flower's simulation instead."""
        home.mkdir(parents=True, exist_ok=True)
        here = cls(home, free_port())
        connection = f'[superlink.here]\naddress = "127.0.0.1:{here.port}"\ninsecure = true\n'
        (home / "config.toml").write_text(f'[superlink]\ndefault = "here"\n\n{connection}')
        try:
            here.start_link(simulated=simulated)
            for partition in range(0 if simulated else nodes):
                here.start_node(partition, nodes, **node_config)
            yield here
        finally:
            here.stop()

    def start_link(self, *, simulated: bool = False) -> None:
        """Start the SuperLink, again if it was killed; it keeps its state in memory."""
        options = ["--simulation"] if simulated else []
        link = self.start(
            "superlink", "flower-superlink", "--insecure", "--port", str(self.port), "--host", "127.0.0.1",
            "--disable-runtime-dependency-installation", *options,
        )  # fmt: skip
        until = time.monotonic() + START_S
        while not self._answers():
            if link.poll() is not None or time.monotonic() > until:
                raise RunError(f"flower-superlink did not start; see {self.home / 'superlink.log'}")
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def start_node(self, partition: int, partitions: int, **node_config: Any) -> None:
        """Start one more SuperNode, with its share of the devices."""
        config = {"partition-id": partition, "num-partitions": partitions, **node_config}
        self.nodes.append(
            self.start(
                f"supernode-{partition}", sys.executable, "-m", "pfels.flower.node", "--insecure",
                "--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port()), "--node-config", _pairs(config),
            )
        )  # fmt: skip

    def run(
        self, run_config: Mapping[str, Any], *, federation: Mapping[str, Any] | None = None, app: Path = APP
    ) -> str:
        """`flwr run` the app to its end; what it printed. Whether the run succeeded shows in its run directory."""
        with self.started(run_config, federation=federation, app=app) as process:
            output, _ = process.communicate()
        return output.decode(errors="replace")

    @contextlib.contextmanager
    def started(
        self, run_config: Mapping[str, Any], *, federation: Mapping[str, Any] | None = None, app: Path = APP
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """`flwr run`, in progress."""
        more = ["--federation-config", _pairs(federation)] if federation else []
        command = [_tool("flwr"), "run", str(app), "here", "--stream", "--run-config", _pairs(run_config), *more]
        process = subprocess.Popen(
            command, env=self._environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.home
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def pids(self, name: str = "") -> list[int]:
        """The processes of this deployment whose command line has `name` in it."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            try:
                marked = f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes()
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:  # it has ended, or belongs to another user
                continue
            if marked and name in command:
                found.append(int(entry.name))
        return found

    def stop(self) -> None:
        """Stop every process of this deployment, helpers included."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for _ in range(25):
                running = self.pids()
                for pid in running:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                ended = [process.poll() is not None for process in self.processes]  # reaps zombies
                if not running and all(ended):  # a process that is about to end no longer shows its environment
                    return
                time.sleep(0.2)
        raise RunError(f"processes of the deployment that did not end: {self.pids()}")

    def start(self, log: str, tool: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a process of this deployment, with a log of this name."""
        with (self.home / f"{log}.log").open("ab") as file:
            process = subprocess.Popen(
                [tool if os.path.isabs(tool) else _tool(tool), *arguments],
                env=self._environment(), stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self.home,
                start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return {
            **os.environ,
            MARK: self.mark,
            "PATH": path,
            "PYTHONSAFEPATH": "1",  # nothing is imported from the current directory
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }


def _tool(name: str) -> str:
    tool = Path(sys.executable).parent / name
    if not tool.exists():
        raise RunError(f"{name}: not found beside {sys.executable}; install pfels[flower]")
    return str(tool)


def _pairs(settings: Mapping[str, Any]) -> str:
    """Settings for Flower's command line: key=value, separated by spaces."""
    return " ".join(f"{key}={json.dumps(value)}" for key, value in settings.items())


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
