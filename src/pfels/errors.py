"""The errors a user can cause, or must be told of in one line."""


class InputError(ValueError):
    """Something the user gave is wrong; the message says what, where, and what would be right (exit code 2)."""


class RunError(RuntimeError):
    """A run could not go on through no fault of its input, such as a full disk (exit code 1)."""


class GuardError(AssertionError):
    """A privacy or power limit was about to be broken; nothing was transmitted (exit code 1)."""
