"""A node may accept the installed app alone: what comes with a run is compared with it, and never loaded."""

import base64
import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.cli.build import build_fab_from_disk
from flwr.supercore.constant import TASK_TYPE_TO_COMMAND
from flwr.supercore.fab import Fab
from flwr.supercore.primitives.asymmetric_ed25519 import create_message_to_sign, sign_message
from flwr.supernode.start_client_internal import _verify_fab

from pfels.errors import InputError
from pfels.flower import node
from pfels.flower.budget import NodeBudget
from pfels.flower.installed_app import require_installed, require_no_code
from pfels.flower.loopback import APP, Loopback, free_port
from pfels.flower.messages import NodeShare
from pfels.privacy.device_ledger import DeviceLedger
from tests.flower.test_deployment import wait_until

# Of Flower's own dependency, which has a newer name for it.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
FOREIGN = """
import os
from pathlib import Path
Path(os.environ["FOREIGN_MARK"], os.environ.get("FOREIGN_NODE", "pinned")).touch()
from pfels.flower import client_app
app = client_app.app
"""


def write_app(folder: Path, manifest: str, files: dict[str, str]) -> Path:
    folder.mkdir()
    (folder / "pyproject.toml").write_text(manifest)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def zipped(files: list[tuple[str, bytes]]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files:
            archive.writestr(name, data)
    return content.getvalue()


def test_the_app_that_flower_builds_of_the_installed_one_is_accepted():
    require_installed(build_fab_from_disk(APP))


OWN = (APP / "pyproject.toml").read_text()
OTHERS = {
    "code beside the manifest": (OWN, {"evil.py": "x = 1"}),
    "a package that shadows the installed one": (OWN, {"pfels/flower/client_app.py": "x = 1"}),
    "a module that Python imports at its start": (OWN, {"sitecustomize.py": "x = 1"}),
    "another client": (OWN.replace("pfels.flower.client_app:app", "subprocess:run"), {}),
    "another default": (OWN.replace('noise = "secret"', 'noise = "seed"'), {}),
    "another version": (OWN.replace('version = "0.', 'version = "9.'), {}),
    "something to install": (OWN.replace("dependencies = []", 'dependencies = ["evil"]'), {}),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_any_other_app_is_refused(tmp_path: Path, kind: str):
    text, files = OTHERS[kind]
    with pytest.raises(InputError, match=r"^the app of this run (holds|is not the one that is installed here)"):
        require_installed(build_fab_from_disk(write_app(tmp_path / "app", text, files)))


@pytest.mark.parametrize(
    "fab",
    [
        b"",
        b"no zip",
        zipped([]),
        zipped([("pyproject.toml", OWN.encode())]),
        zipped([("pyproject.toml", b"\xff"), (".info/CONTENT", b"")]),
        zipped([("pyproject.toml", b"[" * 10_000), (".info/CONTENT", b"")]),
        zipped([("pyproject.toml", OWN.encode() + b"#" * 2**21), (".info/CONTENT", b"")]),
        zipped([("../pyproject.toml", OWN.encode()), (".info/CONTENT", b"")]),
    ],
    ids=range(8),
)
def test_what_is_no_app_is_refused_in_one_line(fab: bytes):
    with pytest.raises(InputError, match=r"^the app of this run"):
        require_installed(fab)


def test_two_manifests_in_one_app_are_refused():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(".info/CONTENT", b"")
        archive.writestr("pyproject.toml", OWN)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("pyproject.toml", OWN)
    with pytest.raises(InputError, match=r"^the app of this run holds"):
        require_installed(content.getvalue())


def test_a_ledger_is_for_the_app_of_pfels_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also where apps are not pinned: an app that wraps this one finds no ledger that pays for it."""
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    app = tmp_path / "apps" / "pfels.pfels-app.0.2.0.12345678"
    write_app(tmp_path / "apps", "", {})
    write_app(app, OWN, {})
    monkeypatch.syspath_prepend(str(app))
    ledger = tmp_path / "ledger.json"
    DeviceLedger(ledger).create(devices=100, partition=0, partitions=4)
    config: dict[str, Any] = {"ledger": str(ledger), "budget-epsilon": 8.0, "budget-delta": 1e-5}
    assert NodeBudget.checked(config, NodeShare(0, 4), devices=100, noise="secret") is not None
    (app / "wrapper.py").write_text("from pfels.flower.client_app import app")
    with pytest.raises(InputError, match=r"holds wrapper\.py: a ledger is for the app of pfels alone"):
        NodeBudget.checked(config, NodeShare(0, 4), devices=100, noise="secret")
    require_no_code(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("flower", "arguments", "line"),
    [
        ("1.42.0", [], "Flower 1.42.0: apps are pinned for 1.41.x alone"),
        ("1.41.0", ["--isolation", "process"], "--isolation: an app in a process of its own is not pinned"),
        ("1.41.0", ["--isolation=process"], "--isolation: an app in a process of its own is not pinned"),
        ("1.41.0", ["--isol", "process"], "--isolation: an app in a process of its own is not pinned"),
        ("1.41.0", ["--allow-runtime-dependency-installation"], "would install what comes with a run"),
    ],
)
def test_what_would_let_an_app_in_is_refused(flower: str, arguments: list[str], line: str):
    with pytest.raises(InputError, match=line):
        node.require_known(flower, arguments)
    node.require_known("1.41.3", ["--isolation", "subprocess", "--insecure"])


def test_every_command_with_which_flower_starts_an_app_is_taken(tmp_path: Path):
    node.write_commands(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(TASK_TYPE_TO_COMMAND.values())
    for path in tmp_path.iterdir():
        assert os.access(path, os.X_OK)


def test_code_that_comes_with_a_run_runs_on_a_plain_node_and_not_on_a_pinned_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    marks = tmp_path / "marks"
    marks.mkdir()
    monkeypatch.setenv("FOREIGN_MARK", str(marks))
    text = OWN.replace("pfels.flower.client_app:app", "foreign:app").replace('"pfels-app"', '"foreign-app"')
    app = write_app(tmp_path / "app", text, {"foreign.py": FOREIGN})
    settings = {"rounds": 1, "out": str(tmp_path / "run"), "noise": "seed"}
    with Loopback.up(tmp_path / "flower", nodes=1) as deployment:
        monkeypatch.setenv("FOREIGN_NODE", "plain")
        address = f"127.0.0.1:{deployment.port}"
        plain = ("flower-supernode", "--insecure", "--superlink", address, "--port", str(free_port()))
        deployment.start("plain", *plain, "--node-config", "partition-id=1 num-partitions=2")
        monkeypatch.delenv("FOREIGN_NODE")
        log = deployment.home / "supernode-0.log"
        with deployment.started(settings, app=app):
            wait_until(lambda: "the app of this run holds foreign.py" in log.read_text(), "the app was not refused")
            wait_until((marks / "plain").exists, "a plain node has not run it either")
    assert [path.name for path in marks.iterdir()] == ["plain"]


def test_a_signature_of_a_trusted_entity_is_for_the_bytes_of_one_app_by_any_of_its_keys():
    """What `flower-supernode --trusted-entities` verifies, as the docs say of it."""
    key, other = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    own, foreign = build_fab_from_disk(APP), zipped([("pyproject.toml", OWN.encode())])

    def accepted(content: bytes, signed: bytes, by: ed25519.Ed25519PrivateKey) -> bool:
        signature = sign_message(by, create_message_to_sign(hashlib.sha256(signed).digest(), 7))
        text = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
        verification = json.dumps({"signature": text, "signed_at": 7})
        return bool(_verify_fab(Fab("", content, {"fpk_1": verification, "valid_license": "yes"}), {"fpk_1": public}))

    assert accepted(own, own, key)
    assert accepted(foreign, foreign, key), "a key is trusted for whatever its owner signs"
    assert not accepted(foreign, own, key)
    assert not accepted(own, own, other)
