"""Compares what arrived through the proxy with what a direct run gave."""

import json
import re

NOTE = re.compile(r"(?:\n\n)?(\[holdpoint\] .*)\Z", re.DOTALL)

GONE = object()


def without_notes(value, notes):
    """The value without the proxy's notes, which are added to `notes`. What was nothing but a note is null, and no block."""
    if isinstance(value, str):
        found = NOTE.search(value)
        if not found:
            return value
        notes.append(found[1])
        return value[: found.start()] or GONE
    if isinstance(value, list):
        cleaned = [without_notes(item, notes) for item in value]
        return [item for item in cleaned if item is not GONE and not is_gone(item)]
    if isinstance(value, dict):
        return {key: without_notes(item, notes) for key, item in value.items()}
    return value


def is_gone(item):
    """Whether a block of a message was nothing but a note, in the words of any client."""
    if not isinstance(item, dict):
        return False
    kind = item.get("type", item.get("part_kind"))
    return kind in ("text", "output_text") and GONE in (item.get("text"), item.get("content"))


def settled(value):
    """With null for what was nothing but a note."""
    if value is GONE:
        return None
    if isinstance(value, list):
        return [settled(item) for item in value]
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items()}
    return value


def check(case, rig, direct, got):
    """Raises where a case did not come to what it must."""
    said, wanted = compared(got, case.model), compared(direct, case.expected_model)
    may_fail = case.manner in ("cut", "error", "busy")
    for outcome in (direct, got):
        assert may_fail or "error" not in outcome, f"{outcome['error']}: {outcome.get('message')}"
    if case.manner == "cut" and not case.stream:
        # Nothing has left yet: the client gets a clear answer in place of half a body.
        assert got["error"]["status"] == 502 and direct["error"], got
        return
    notes = []
    if case.codes:
        said = settled(without_notes(said, notes))
    assert said == wanted, difference(said, wanted)
    if case.codes:
        check_blocked(case, rig, got, notes)
    if case.client.agent:
        assert sorted(got["ran"]) == sorted(case.kept), f"ran {got['ran']}, should have run {case.kept}"
    if case.upstream == "scripted":
        check_requests(case, rig)


def compared(outcome, model):
    """What two runs have in common: some clients keep the model that was asked for."""
    kept = {key: value for key, value in outcome.items() if key not in ("id", "message")}
    return json.loads(json.dumps(kept).replace(model, "MODEL"))


def check_blocked(case, rig, got, notes):
    whole = "\n".join(notes)
    for code in case.codes:
        assert re.search(rf"\(code: {code}(, ticket: [^)]+)?\)", whole), f"no note with {code} in {notes}"
    arrived = json.dumps(got, ensure_ascii=False)
    for name in ("mallory@evil.example", "eve@evil.example"):
        assert name not in arrived, "a blocked call's argument arrived"
    if case.scenario == "ticket":
        named = re.search(r"ticket: (\w+)", whole)
        assert named, f"no ticket in {notes}"
        shown = rig.ticket(named[1])
        # Another client that describes the tool otherwise, for the same user at the same time, has its request in this one's place.
        stands = "requested" in shown or "cancelled" in shown
        assert "pay" in shown and stands, f"the ticket is not there: {shown}"


def check_requests(case, rig):
    """Each request goes once through the proxy, and nothing of it is changed."""
    through = rig.seen(case.model, through=True)
    if case.unchanged:
        straight = rig.seen(case.model, through=False)
        assert len(through) == len(straight), f"{len(through)} requests instead of {len(straight)}"
        assert through == straight, f"the requests differ\n got      {through}\n expected {straight}"
    elif case.client.agent:
        turns = 2 if case.kept else 1
        assert len(through) == turns, f"{len(through)} requests reached the upstream instead of {turns}"
    else:
        assert len(through) == 1, f"{len(through)} requests reached the upstream"


def difference(got, expected):
    return f"\n got      {json.dumps(got, ensure_ascii=False)}\n expected {json.dumps(expected, ensure_ascii=False)}"
