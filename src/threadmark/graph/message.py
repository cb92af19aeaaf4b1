"""Chat messages as state: the reducer `add_messages`, and the state that most chats need.

The messages are LangChain's, so this module needs the extra `langchain`, and imports it only when a
message is added. The reducer remembers which ids the lists that it made last hold, so that adding to a
long history costs what was added; it also tells storage what stayed the same. It knows no graph.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, overload

from typing_extensions import TypedDict

from threadmark.channels import kept
from threadmark.checkpoint.base import Kept
from threadmark.config import enclosing_scope
from threadmark.errors import InvalidArgumentError, MissingDependencyError

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage, BaseMessage, MessageLikeRepresentation

    Messages: TypeAlias = list[MessageLikeRepresentation] | MessageLikeRepresentation
else:
    # Schemas are resolved at run time, also where LangChain is not installed.
    AnyMessage = Messages = Any

__all__ = ["REMOVE_ALL_MESSAGES", "MessagesState", "add_messages", "push_message"]

REMOVE_ALL_MESSAGES = "__remove_all__"
"""The id of a `RemoveMessage` that removes every message before it."""

Format: TypeAlias = Literal["langchain-openai"]
Ids: TypeAlias = dict[str, int]

id_of = operator.attrgetter("id")


@functools.cache
def langchain() -> Any:
    """Return LangChain's module of messages.

    Raises:
        MissingDependencyError: LangChain is not installed.
    """
    try:
        import langchain_core.messages as messages
    except ImportError as error:
        raise MissingDependencyError(
            "Messages are LangChain's, and langchain-core is not installed. "
            "Install it with: pip install 'threadmark[langchain]'"
        ) from error
    return messages


@dataclass(frozen=True, slots=True)
class Made:
    """What is known of a list that the reducer made.

    Attributes:
        result: The list.
        items: What it held then; whoever holds the list may have changed it since.
        ids: The ids of its messages, with where they stand. Shared with the lists that were made from
            this one, so only those that stand before its end count.
        left: The list that it was made from.
        kept: How it was made from that list.
    """

    result: list[BaseMessage]
    items: list[BaseMessage]
    ids: Ids
    left: Any
    kept: Kept | None


class Recent:
    """The lists made last, found by identity. A list that is not found costs a scan, nothing else."""

    def __init__(self, size: int = 16) -> None:
        self.size = size
        # Replaced as a whole, never changed, so that threads need no lock.
        self.made: tuple[Made, ...] = ()

    def find(self, value: Any) -> Made | None:
        """Return what is known of a list."""
        for made in self.made:
            if made.result is value:
                return made
        return None

    def add(self, result: list[BaseMessage], ids: Ids, left: Any, kept: Kept | None) -> None:
        """Remember a list, and forget the oldest."""
        made = Made(result, result.copy(), ids, left, kept)
        self.made = (made, *self.made[: self.size - 1])


recent = Recent()


@overload
def add_messages(left: Messages, right: Messages, *, format: Format | None = ...) -> Any: ...
@overload
def add_messages(
    left: None = ..., right: None = ..., *, format: Format | None = ...
) -> Callable[[Messages, Messages], Any]: ...
def add_messages(
    left: Messages | None = None, right: Messages | None = None, *, format: Format | None = None
) -> Any:
    """Merge two lists of messages by id: a known id replaces, a new one is appended.

    A message without an id gets one. A `RemoveMessage` removes the message of its id; with the id
    `REMOVE_ALL_MESSAGES` it removes all before it. Strings, tuples and dicts become messages.

    Args:
        left: The messages so far, or one of them.
        right: The messages to add, or one of them.
        format: `"langchain-openai"` gives all content the shape of OpenAI's content blocks.

    Returns:
        A new list. Without `left` and `right`: the reducer with the given format.

    Raises:
        InvalidArgumentError: Only one side was given, a message to remove is not there, or the format
            is not known.
        MissingDependencyError: LangChain is not installed.
    """
    if left is None and right is None:
        return reducer(format)
    if left is None or right is None:
        given = "right" if left is None else "left"
        raise InvalidArgumentError(f"add_messages needs both left and right; only {given} was given.")
    shape = shaper(format)
    new = shape(coerce(right))
    fresh = assign_ids(new)
    made = recent.find(left)
    if made is not None and made.items == left:
        old, ids = made.items, made.ids
    else:
        old = shape(coerce(left))
        ids = assign_ids(old)
    if addable(new, fresh, ids, len(old)):
        return append(left, old, new, ids, fresh)
    return merge(left, old, new)


def changes(left: Any, right: Any, result: Any) -> Kept | None:
    """Return what `add_messages(left, right)` kept of `left`, if it made `result` a moment ago.

    Messages that the update named count as new even if they are the same objects, because whoever
    returns a message may have changed it in place.
    """
    made = recent.find(result)
    return made.kept if made is not None and made.left is left else None


add_messages.changes = changes  # type: ignore[attr-defined]


def reducer(format: Format | None) -> Callable[[Messages, Messages], Any]:
    """Return `add_messages` with a format."""
    shaper(format)
    bound = functools.partial(add_messages, format=format)
    bound.changes = changes  # type: ignore[attr-defined]
    return bound


def append(
    left: Any, old: list[BaseMessage], new: list[BaseMessage], ids: Ids, fresh: Ids
) -> list[BaseMessage]:
    """Append messages whose ids are not in use."""
    result = old + new
    ids.update(dict.fromkeys(fresh, len(old)))
    recent.add(result, ids, left, note(left, old, [(0, len(old)), len(new)]))
    return result


def merge(left: Any, old: list[BaseMessage], new: list[BaseMessage]) -> list[BaseMessage]:
    """Replace, remove and append by id."""
    cut = last_cut(new)
    if cut is not None:
        old, new = [], new[cut:]
    index = dict(zip(map(id_of, old), range(len(old)), strict=True))
    named, removed = by_id(new, index)
    result = old.copy()
    hits = {index[key] for key in named.keys() & index.keys()}
    for at in hits:
        result[at] = named[id_of(old[at])]
    gaps = {at for at, m in enumerate(old) if m.id in removed} if removed else set()
    for at in sorted(gaps, reverse=True):
        del result[at]
    result += [m for key, m in named.items() if key not in index and key not in removed]
    made_of = pieces(len(old), sorted(hits | gaps), gaps, len(result))
    recent.add(result, dict.fromkeys(map(id_of, result), 0), left, note(left, old, made_of))
    return result


def by_id(new: list[BaseMessage], index: dict[str, int]) -> tuple[dict[str, BaseMessage], set[str]]:
    """Return the last word on each id that an update names, and the ids that it removes.

    Raises:
        InvalidArgumentError: There is nothing to remove under an id.
    """
    named: dict[str, BaseMessage] = {}
    removed: set[str] = set()
    for message in new:
        key = id_of(message)
        if not is_removal(message):
            removed.discard(key)
        elif key in index or key in named:
            removed.add(key)
        else:
            raise InvalidArgumentError(
                f"There is no message with the id {key!r} to remove. Take the ids from the state."
            )
        named[key] = message
    return named, removed


def pieces(size: int, touched: list[int], gaps: set[int], total: int) -> Kept:
    """Describe a merge into `size` messages that made `total`, touched some and left gaps."""
    found: list[tuple[int, int] | int] = []
    start = 0
    for at in touched:
        if at > start:
            kept.add(found, (start, at))
        kept.add(found, 0 if at in gaps else 1)
        start = at + 1
    if start < size:
        kept.add(found, (start, size))
    kept.add(found, total - (size - len(gaps)))
    return found


def note(left: Any, old: list[BaseMessage], kept: Kept) -> Kept | None:
    """Return `kept`, if `old` holds the very messages of `left`, so that positions in it mean something."""
    return kept if old is left or left == old else None


def addable(new: list[BaseMessage], fresh: Ids, ids: Ids, size: int) -> bool:
    """Tell whether messages with the ids `fresh` can simply be appended to `size` messages with `ids`."""
    if len(fresh) != len(new) or any(map(is_removal, new)):
        return False
    return all(ids.get(key, size) >= size for key in fresh)


def is_removal(message: BaseMessage) -> bool:
    """Tell whether a message stands for the removal of another."""
    return message.type == "remove"


def last_cut(new: list[BaseMessage]) -> int | None:
    """Return the position after the last message that removes everything, if there is one."""
    for at in range(len(new), 0, -1):
        if is_removal(new[at - 1]) and new[at - 1].id == REMOVE_ALL_MESSAGES:
            return at
    return None


def coerce(value: Messages) -> list[BaseMessage]:
    """Return messages for anything that stands for some. A list of messages is returned as it is."""
    items: list[Any] = value if isinstance(value, list) else [value]
    if all(map(is_complete, set(map(type, items)))):
        return items
    messages = langchain()
    return [messages.message_chunk_to_message(m) for m in messages.convert_to_messages(items)]


@functools.cache
def is_complete(kind: type) -> bool:
    """Tell whether a class is one of messages, and not of the chunks that models stream."""
    messages = langchain()
    return issubclass(kind, messages.BaseMessage) and not issubclass(kind, messages.BaseMessageChunk)


def assign_ids(messages: list[BaseMessage]) -> Ids:
    """Give an id to each message that has none, and return all ids.

    The caller's own objects get the ids, so that they stick.
    """
    ids: dict[Any, int] = dict.fromkeys(map(id_of, messages), 0)
    if None not in ids:
        return ids
    from uuid import uuid4

    for message in messages:
        if message.id is None:
            message.id = str(uuid4())
    return dict.fromkeys(map(id_of, messages), 0)


Shape: TypeAlias = Callable[[list[Any]], list[Any]]


def shaper(format: str | None) -> Shape:
    """Return the function that gives messages a format.

    Raises:
        InvalidArgumentError: There is no such format.
    """
    if format is None:
        return lambda messages: messages
    if format == "langchain-openai":
        return to_openai
    raise InvalidArgumentError(f"There is no format {format!r}. Use 'langchain-openai' or None.")


def to_openai(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Give content that is made of blocks the shape of OpenAI's. Plain text stays as it is."""
    shaped: list[BaseMessage] = []
    for message in messages:
        shaped += [message] if isinstance(message.content, str) else openai_shape(message)
    return shaped


def openai_shape(message: BaseMessage) -> list[BaseMessage]:
    """Reshape one message. A tool's result inside it becomes a message of its own."""
    core = langchain()
    parts: list[BaseMessage] = core.convert_to_messages(core.convert_to_openai_messages([message]))
    if len(parts) != 1 or type(parts[0]) is not type(message):
        return parts
    content = parts[0].content
    return [message if content == message.content else message.model_copy(update={"content": content})]


def push_message(message: MessageLikeRepresentation, *, state_key: str | None = "messages") -> AnyMessage:
    """Show a message in `stream_mode="messages"` at once, from inside a node, and add it to the state.

    Args:
        message: The message; it must have an id.
        state_key: The key of the state to add it to; `None` only shows it.

    Returns:
        The message.

    Raises:
        InvalidArgumentError: The message has no id, or this is not inside a node.
    """
    scope = enclosing_scope("push_message()")
    (pushed,) = coerce([message])
    if pushed.id is None:
        raise InvalidArgumentError("A message that is pushed needs an id, so that it is shown once.")
    scope.push_message(pushed, state_key)
    return pushed  # type: ignore[return-value]


class MessagesState(TypedDict):
    """A state with one key, `messages`, merged by `add_messages`. Inherit from it to add keys."""

    messages: Annotated[list[AnyMessage], add_messages]
