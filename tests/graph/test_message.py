"""What `add_messages` promises: LangGraph's results, a new list each time, and a true note for storage."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.graph.message import add_messages as peer

from threadmark.errors import InvalidArgumentError, MissingDependencyError
from threadmark.graph.message import (
    REMOVE_ALL_MESSAGES,
    MessagesState,
    add_messages,
    changes,
    push_message,
)

IDS = [*"abcdef", None]


class Note(HumanMessage):
    """A message class of a user's own."""

    mark: int = 0


def plain(ids: list[str | None]) -> st.SearchStrategy[BaseMessage]:
    """Messages of several classes with one of the ids."""
    return st.builds(
        lambda kind, id, text: kind(id=id, content=text),
        st.sampled_from([HumanMessage, AIMessage, SystemMessage, AIMessageChunk, Note]),
        st.sampled_from(ids),
        st.sampled_from(["x", "y", ""]),
    )


removals = st.sampled_from(IDS[:-1]).map(lambda id: RemoveMessage(id=id))
likes = st.one_of(
    st.sampled_from(["text", ("ai", "tuple"), {"role": "user", "content": "dict", "id": "a"}]),
    plain(IDS),
)
rights = st.lists(st.one_of(likes, removals), max_size=6)


def shown(messages: list[BaseMessage]) -> list[tuple[type, Any, Any]]:
    """What two runs can be compared by: the ids that were made up are left out."""
    known = {*IDS, REMOVE_ALL_MESSAGES}
    return [(type(m), m.content, m.id if m.id in known else "new") for m in messages]


def outcome(reduce: Any, left: Any, right: Any) -> Any:
    """The result, or that it was refused."""
    try:
        return shown(reduce(left, right))
    except ValueError:
        return "refused"


def fresh(messages: list[Any]) -> list[Any]:
    """A deep copy, because both reducers give ids to the messages that they are handed."""
    return [m.model_copy(deep=True) if isinstance(m, BaseMessage) else m for m in messages]


@given(st.lists(likes, max_size=5), st.lists(rights, min_size=1, max_size=4))
def test_any_sequence_of_updates_gives_what_langgraph_gives(
    left: list[Any], updates: list[list[Any]]
) -> None:
    ours, theirs = fresh(left), fresh(left)
    for update in updates:
        expected = outcome(peer, theirs, fresh(update))
        assert outcome(add_messages, fresh(ours), fresh(update)) == expected
        if expected == "refused":
            return
        # The same texts with the same made-up ids on both sides for the next round.
        theirs = peer(theirs, fresh(update))
        before, ours = ours, fresh(theirs)
        assert ours is not before


@given(st.lists(plain(IDS[:-1]), max_size=6), st.lists(rights, min_size=1, max_size=4))
def test_the_note_rebuilds_the_result_and_calls_no_named_message_old(
    left: list[BaseMessage], updates: list[list[Any]]
) -> None:
    for update in updates:
        try:
            result = add_messages(left, update)
        except InvalidArgumentError:
            return
        note = changes(left, update, result)
        if note is not None:
            named = {id(m) for m in update}
            at = 0
            for piece in note:
                if isinstance(piece, int):
                    at += piece
                    continue
                start, stop = piece
                part = result[at : at + stop - start]
                assert [id(m) for m in part] == [id(m) for m in left[start:stop]]
                assert named.isdisjoint(map(id, part))
                at += stop - start
            assert at == len(result)
        left = result


def chat(n: int) -> list[BaseMessage]:
    return [HumanMessage(f"text {i}", id=str(i)) for i in range(n)]


def test_an_append_is_noted_as_one() -> None:
    left = add_messages([], chat(5))
    right = [AIMessage("new", id="new")]
    assert list(changes(left, right, add_messages(left, right)) or ()) == [(0, 5), 1]


def test_replacing_and_removing_are_noted_as_such() -> None:
    left = chat(6)
    right = [RemoveMessage(id="0"), AIMessage("other", id="3"), AIMessage("new", id="n")]
    assert list(changes(left, right, add_messages(left, right)) or ()) == [(1, 3), 1, (4, 6), 1]


def test_the_same_update_twice_gives_the_same_list() -> None:
    left = add_messages([], chat(3))
    right = [AIMessage("new", id="new")]
    first, second = add_messages(left, right), add_messages(left, right)
    assert first == second
    assert list(changes(left, right, second) or ()) == [(0, 3), 1]


def test_a_message_changed_in_place_and_returned_counts_as_new() -> None:
    left = add_messages([], chat(3))
    left[1].content = "edited"
    result = add_messages(left, [left[1]])
    assert list(changes(left, [left[1]], result) or ()) == [(0, 1), 1, (2, 3)]


def test_a_list_changed_by_its_holder_is_not_taken_for_what_it_was() -> None:
    left = add_messages([], chat(3))
    left[0] = HumanMessage("swapped in", id="other")
    result = add_messages(left, [AIMessage("replacement", id="other")])
    assert [m.content for m in result] == ["replacement", "text 1", "text 2"]


def test_one_list_can_be_continued_twice() -> None:
    left = add_messages([], chat(2))
    one = add_messages(left, [AIMessage("one", id="n")])
    other = add_messages(left, [AIMessage("other", id="n")])
    again = add_messages(one, [AIMessage("one again", id="n")])
    assert [m[-1].content for m in (one, other, again)] == ["one", "other", "one again"]
    assert [len(m) for m in (left, one, other, again)] == [2, 3, 3, 3]


@pytest.mark.parametrize("right", [[], [AIMessage("x", id="9")], [RemoveMessage(id="0")]])
def test_the_result_is_a_new_list_and_the_old_one_stays(right: list[BaseMessage]) -> None:
    left = add_messages([], chat(2))
    before = list(left)
    result = add_messages(left, right)
    assert result is not left
    assert left == before


def test_a_removal_of_everything_cuts_what_came_before() -> None:
    update = [
        HumanMessage("gone", id="g"),
        RemoveMessage(id=REMOVE_ALL_MESSAGES),
        HumanMessage("kept", id="k"),
    ]
    assert [m.id for m in add_messages(chat(3), update)] == ["k"]
    assert add_messages(chat(3), RemoveMessage(id=REMOVE_ALL_MESSAGES)) == []


def test_ids_are_given_to_the_callers_own_messages() -> None:
    question, answer = HumanMessage("no id"), AIMessage("no id either")
    result = add_messages([question], [answer])
    assert result[0] is question
    assert result[1] is answer
    assert len({question.id, answer.id, None}) == 3


@pytest.mark.parametrize(
    ("left", "right", "remedy"),
    [
        (None, [], "both left and right"),
        ([], None, "both left and right"),
        ([], [RemoveMessage(id="nowhere")], "'nowhere' to remove"),
        ([], [RemoveMessage(id=REMOVE_ALL_MESSAGES), RemoveMessage(id="x")], "'x' to remove"),
    ],
)
def test_what_cannot_be_merged_is_refused(left: Any, right: Any, remedy: str) -> None:
    with pytest.raises(InvalidArgumentError, match=remedy):
        add_messages(left, right)


BLOCKS = [
    AIMessage([{"type": "text", "text": "joined"}], id="1"),
    HumanMessage(
        [
            {"type": "text", "text": "look"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
            },
        ],
        id="2",
    ),
    ToolMessage("plain", tool_call_id="t", id="3"),
    HumanMessage([{"type": "tool_result", "tool_use_id": "u", "content": "res"}], id="4"),
]


def test_the_openai_format_gives_langgraphs_content_and_keeps_ids() -> None:
    ours = add_messages([], fresh(BLOCKS), format="langchain-openai")
    theirs = peer([], fresh(BLOCKS), format="langchain-openai")
    assert [(m.type, m.content) for m in ours] == [(m.type, m.content) for m in theirs]
    assert [m.id for m in ours[:3]] == ["1", "2", "3"]
    assert None not in [m.id for m in ours]


def test_the_openai_format_leaves_formatted_messages_alone() -> None:
    reduce = add_messages(format="langchain-openai")
    left = reduce([], fresh(BLOCKS))
    result = reduce(left, [HumanMessage("more", id="m")])
    assert [a is b for a, b in zip(left, result, strict=False)] == [True] * len(left)
    assert list(changes(left, None, result) or ()) == [(0, len(left)), 1]


def test_an_unknown_format_is_refused_before_it_is_used() -> None:
    with pytest.raises(InvalidArgumentError, match="no format 'other'"):
        add_messages(format="other")  # type: ignore[call-overload]


def test_pushing_outside_a_node_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="push_message"):
        push_message(AIMessage("x", id="1"))


def test_the_state_names_its_reducer() -> None:
    hints = get_type_hints(MessagesState, include_extras=True)
    assert hints["messages"].__metadata__ == (add_messages,)


def test_without_langchain_the_error_says_what_to_install() -> None:
    program = """
        import sys
        sys.modules["langchain_core"] = None
        from threadmark.errors import MissingDependencyError
        from threadmark.graph.message import MessagesState, add_messages
        try:
            add_messages([], ["hello"])
        except MissingDependencyError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert "threadmark[langchain]" in done.stdout
    assert issubclass(MissingDependencyError, ImportError)


def test_importing_the_module_does_not_import_langchain() -> None:
    program = "import sys, threadmark.graph.message; print('langchain_core' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
