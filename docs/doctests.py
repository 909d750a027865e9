"""Shows the examples in docstrings as code (an extension of griffe, which reads docstrings for the site)."""

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts fences around the examples, which begin with `>>>` and end with an empty line."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with its examples in fences."""
    lines, inside = list[str](), False
    for line in text.split("\n"):
        if line.startswith(">>>") and not inside:
            inside = True
            lines += ["", "```pycon"]
        elif inside and not line.strip():
            inside = False
            lines.append("```")
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
