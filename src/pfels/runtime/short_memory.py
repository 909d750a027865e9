"""Too little memory, as one line: a limit that is too low is noticed before anything runs into it, since libraries end
the process there, and what they raise instead is known by what it says."""

import errno
import resource

LEAST = 1_000_000 * 1024  # bytes of address space; PyTorch alone takes up 700 MB of it
LINE = "not enough memory; choose a smaller network, cohort or batch"
# What Python, the system's loader, PyTorch and the threads say.
SIGNS = ("allocate memory", "failed to map segment", "can't start new thread", "bad_alloc", "without exception set")


def too_low_a_limit() -> str | None:
    """What to say of a limit on the address space (`ulimit -v`) that is too low to work under, if there is one."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit in (resource.RLIM_INFINITY, -1) or limit >= LEAST:
        return None
    return (
        f"ulimit -v = {limit // 1024}: too little memory; give at least {-(-LEAST // 1024)} kB, or no limit "
        "(ulimit -v unlimited)"
    )


def short_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, says that there was no memory."""
    for _ in range(20):
        if error is None:
            return False
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if isinstance(error, ImportError | RuntimeError | SystemError) and any(sign in str(error) for sign in SIGNS):
            return True
        error = error.__cause__ or error.__context__
    return False
