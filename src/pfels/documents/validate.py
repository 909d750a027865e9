"""Documents from elsewhere, held to their types."""

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from annotated_types import Ge, Le, Lt

from pfels.errors import InputError, shown

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Count = Annotated[int, Ge(0), Lt(2**63)]
Amount = Annotated[float, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]

Kind = TypeVar("Kind", bound=type)
Document = TypeVar("Document")

_adapters: "dict[Any, TypeAdapter[Any]]" = {}  # building one takes longer than a thousand documents


def document(kind: Kind) -> Kind:
    """A type of documents. A later version may write more fields; those of the type must be there, and numbers must be
    finite."""
    # As pydantic's with_config does, which the help would have to wait for
    kind.__pydantic_config__ = {  # type: ignore[attr-defined]
        "extra": "allow",
        "allow_inf_nan": False,
        "strict": True,
    }
    return kind


def validated(kind: type[Document], content: Any, where: str) -> Document:
    """The document in `content`, JSON bytes or parsed, or an InputError that says what is wrong with it."""
    from pydantic import TypeAdapter, ValidationError

    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    adapter: TypeAdapter[Document] = _adapters[kind]
    try:
        return adapter.validate_json(content) if isinstance(content, bytes) else adapter.validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        at = shown(".".join(str(part) for part in first["loc"]))
        raise InputError(f"{where}: {at}{': ' if at else ''}{shown(first['msg'])}") from None
