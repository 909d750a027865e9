"""Documents from elsewhere, held to their types."""

from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

from pfels.errors import InputError, shown

# A later version may write more fields; those of the type must be there, and numbers must be finite.
document = with_config(ConfigDict(extra="allow", allow_inf_nan=False, strict=True))

Count = Annotated[int, Field(ge=0, lt=2**63)]
Amount = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]

Document = TypeVar("Document")

_adapters: dict[Any, TypeAdapter[Any]] = {}  # building one takes longer than a thousand documents


def validated(kind: type[Document], content: Any, where: str) -> Document:
    """The document in `content`, JSON bytes or parsed, or an InputError that says what is wrong with it."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    adapter: TypeAdapter[Document] = _adapters[kind]
    try:
        return adapter.validate_json(content) if isinstance(content, bytes) else adapter.validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        at = shown(".".join(str(part) for part in first["loc"]))
        raise InputError(f"{where}: {at}{': ' if at else ''}{shown(first['msg'])}") from None
