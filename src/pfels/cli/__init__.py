"""The `pfels` command. Each subcommand's file holds its words; what it does lives in the package."""

import errno
import io
import sys
from typing import Annotated

import typer

from pfels.cli import audit, compare, data, init, plan, privacy, report, reproduce, run, sweep, verify
from pfels.cli.help import Command, Group
from pfels.cli.slips import spaces, usage
from pfels.errors import GuardError, InputError, RunError, shown
from pfels.report.terminal import say
from pfels.runtime.short_memory import LINE, short_of_memory

LONGEST = 2000  # characters of an error's line; lists of known names take 1,500
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # errors that no other input would avoid

app = typer.Typer(
    name="pfels",
    help="""Private federated learning over the air.

Runs PFELS and the schemes it is compared with on real data over a simulated wireless channel, and prices each run
in accuracy, privacy, energy and spectrum.

Start with:  pfels compare demo --seeds 0,1,2 --jobs 2""",
    no_args_is_help=True,
    cls=Group,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        import pfels

        print(f"pfels {pfels.__version__}")
        raise typer.Exit


@app.callback()
def _before(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
    ] = False,
) -> None:
    pass


for each in (init, run, compare, sweep, plan, reproduce, report, privacy, audit, verify):
    app.command(each.__name__.rpartition(".")[2], cls=Command)(each.command)

app.add_typer(data.app, name="data")


def main() -> None:
    """Run the command; every way to fail ends in one line on stderr and the exit code that goes with it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an ε that a terminal cannot show is no reason to fail
    try:
        code = app(prog_name="pfels", standalone_mode=False)
    except InputError as error:
        code = _fail(spaces(sys.argv[1:]) or error, 2)
    except (RunError, GuardError) as error:
        code = _fail(error, 1)
    except OSError as error:
        wrong_input = error.filename and error.errno not in DISK
        where = f"{error.filename or 'output'}: {error.strerror or error}"
        code = _fail(LINE, 1) if short_of_memory(error) else _fail(where, 2 if wrong_input else 1)
    except KeyboardInterrupt:
        code = 130
    except typer.Exit as error:
        code = error.exit_code
    except Exception as error:
        # Typer's own usage errors carry a one-line message; their class has no public name in every version.
        if short_of_memory(error):
            code = _fail(LINE, 1)
        elif not hasattr(error, "format_message"):
            raise
        else:
            line = usage(error, sys.argv[1:])
            code = _fail(spaces(sys.argv[1:]) or line, 2) if line else 2  # empty where the help was all that was due
    if code == 130:  # some versions of Typer turn the interrupt itself into this code
        say(
            "interrupted; finished rounds are saved: the same command continues from there (a run: with --resume; "
            "what began with --fresh: without it)"
        )
    sys.exit(code)


def _fail(error: object, code: int) -> int:
    say(f"error: {shown(error, maximum=LONGEST)}")
    return code
