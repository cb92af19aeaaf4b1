"""`stream_mode="messages"`: the tokens of chat models and the messages that nodes return.

The only module of the engine that knows LangChain, and it imports it only for a run that asks for this mode.
A callback handler hears the models' tokens; each chunk is a pair of message and metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from threadmark.config import current_scope
from threadmark.constants import TAG_NOSTREAM
from threadmark.errors import MissingDependencyError
from threadmark.pregel.rules import Task
from threadmark.pregel.scope import Session, TaskScope
from threadmark.pregel.stream import Chunk

if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["listen", "returned_messages"]


def listen(session: Session) -> None:
    """Make a run that streams messages hear its models.

    Raises:
        MissingDependencyError: LangChain is not installed.
    """
    wanted = "messages" in session.own_modes or "messages" in session.outer_modes
    if wanted and session.parent is None:
        session.handlers = (*session.handlers, make_handler(session))


def make_handler(session: Session) -> Any:
    """Return a callback handler that sends what models say to a run's stream."""
    try:
        from langchain_core.callbacks.base import BaseCallbackHandler
        from langchain_core.messages import BaseMessage
        from langchain_core.tracers._streaming import _StreamingCallbackHandler
    except ImportError as error:
        raise MissingDependencyError(
            "stream_mode='messages' shows the messages of LangChain models. Install threadmark[langchain]."
        ) from error

    # A model that is invoked streams only for handlers of this kind.
    class Listener(BaseCallbackHandler, _StreamingCallbackHandler[Any]):
        """Sends tokens and final messages of chat models to a stream."""

        run_inline = True

        def __init__(self) -> None:
            self.models: dict[UUID, dict[str, Any]] = {}
            self.chunks: dict[UUID, Any] = {}
            self.seen: set[Any] = set()

        def on_chat_model_start(
            self,
            serialized: dict[str, Any],
            messages: list[list[BaseMessage]],
            *,
            run_id: UUID,
            tags: list[str] | None = None,
            metadata: dict[str, Any] | None = None,
            **rest: Any,
        ) -> None:
            """Note which node a model belongs to. One with metadata of its own lacks the node's."""
            facts = metadata or {}
            if "langgraph_node" not in facts:
                scope = current_scope()
                facts = {**scope.facts(), **facts} if isinstance(scope, TaskScope) else {}
            if facts and TAG_NOSTREAM not in (tags or ()):
                self.models[run_id] = {**facts, **({"tags": tags} if tags else {})}

        def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **rest: Any) -> None:
            """Send a token. A model that has this handler twice, from the node and from its own config, tells
            every token twice.
            """
            message = getattr(chunk, "message", None)
            if run_id not in self.models or self.chunks.get(run_id) is chunk:
                return
            self.chunks[run_id] = chunk
            if isinstance(message, BaseMessage):
                self.tell(message, self.models[run_id], token=True)

        def on_llm_end(self, response: Any, *, run_id: UUID, **rest: Any) -> None:
            """Send the whole message of a model that did not stream."""
            metadata = self.models.pop(run_id, None)
            self.chunks.pop(run_id, None)
            if metadata is None or not response.generations or not response.generations[0]:
                return
            message = getattr(response.generations[0][0], "message", None)
            if isinstance(message, BaseMessage):
                self.tell(message, metadata)

        def on_llm_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
            """Forget a model that failed."""
            self.models.pop(run_id, None)
            self.chunks.pop(run_id, None)

        def tap_output_iter(self, run_id: UUID, output: Any) -> Any:
            """Pass a runnable's output on unchanged."""
            return output

        def tap_output_aiter(self, run_id: UUID, output: Any) -> Any:
            """Pass a runnable's output on unchanged."""
            return output

        def tell(self, message: Any, metadata: dict[str, Any], token: bool = False) -> None:
            """Send one message or token, unless the whole message was already sent as tokens."""
            ns = metadata.get("langgraph_checkpoint_ns", "").rpartition("|")[0]
            if ns and "messages" not in session.outer_modes:
                return
            known = message.id is not None and message.id in self.seen
            if known and not token:
                return
            if message.id is not None:
                self.seen.add(message.id)
            if session.send is not None:
                session.send(Chunk(ns, "messages", (message, metadata)))

    return Listener()


def returned_messages(task: Task, scope: TaskScope) -> None:
    """Send the messages that a finished node wrote to the state and that no model has sent before."""
    handler = scope.session.handlers[-1]
    fields = task.input if isinstance(task.input, dict) else getattr(task.input, "__dict__", {})
    given = fields.values()
    handler.seen.update(message.id for message in found_messages(given) if message.id is not None)
    for message in found_messages(value for _, value in task.writes or ()):
        handler.tell(message, scope.facts())


def found_messages(values: Iterable[Any]) -> Iterable[Any]:
    """Yield the LangChain messages among values and the items of sequences."""
    from langchain_core.messages import BaseMessage

    for value in values:
        if isinstance(value, BaseMessage):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, BaseMessage))
