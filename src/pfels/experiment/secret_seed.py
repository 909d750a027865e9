"""`secret.json`: the secret seed of a deployment, at the server until the run is finished.

A run that stops needs it to continue, so it is written before the config, which says that a run has begun. Only the
owner of the files can read it, and it is deleted with the last round: a finished run needs no draws.
"""

from pathlib import Path

from pfels.documents.run import SecretSeed
from pfels.documents.validate import validated
from pfels.errors import InputError
from pfels.runtime.files import printable, read_json, to_json, write_durably
from pfels.seeding import Secret

NAME = "secret.json"


def keep(directory: Path, secret: Secret) -> None:
    """Write the secret seed of a run that is about to begin."""
    content: SecretSeed = {"seed": secret.key.hex()}
    write_durably(directory / NAME, to_json(content), mode=0o600)


def kept(directory: Path) -> Secret | None:
    """The secret seed in a run directory, if there is one."""
    path = directory / NAME
    content = read_json(path)
    if content is None:
        return None
    seed = validated(SecretSeed, content, printable(path))["seed"]
    try:
        return Secret(bytes.fromhex(seed))
    except ValueError:
        raise InputError(
            f"{printable(path)}: seed: must be {2 * Secret.BYTES} hexadecimal digits; restore it from a backup, or "
            "choose another out"
        ) from None


def delete(directory: Path) -> None:
    """Delete the secret seed of a finished run, if it has one."""
    path = directory / NAME
    if path.exists():  # a file system that cannot be written refuses to delete what is not there
        path.unlink()
