"""Waiting, awaiting and waking over RDMA devices (field cases P07, P09, P10, T02, T03, T05, T07).

P05 is in programs/traffic.py.  Left out of `flow`: floods, which take minutes here, and what
measures processor time, of which a virtual machine on a busy host knows little.
"""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

pytestmark = pytest.mark.verbs

PROGRAMS = Path(__file__).parents[1] / "progress" / "programs"
CASES = [(name, case) for name in ("awaiting", "loops")
         for case in case_names(PROGRAMS / f"{name}.py")]
EVENT = ("case_nothing_comes_and_nothing_happens", "case_what_comes_late_is_noticed",
         "case_a_wait_in_between", "case_a_full_queue_of_signals_ends_nobody",
         "case_signals_are_the_parents_alone")
# A sender that waits, and hundreds of messages: what the last step of the receiver tells is told.
PARASITE = ("case_receiver_first_computes", "case_receiver_first_sleeps",
            "case_a_sender_that_waits_is_let_go", "case_many_messages_without_a_call")
THREAD = ("case_receiver_first_computes", "case_named_source", "case_small_messages_to_and_fro",
          "case_waits_of_other_threads_are_woken", "case_it_ends_and_begins_again")
FLOW = ("case_no_slow_leak", "case_random_pauses", "case_first_contact_at_once")


@pytest.mark.parametrize(("name", "case"), CASES)
def test_awaiting(programs, name, case):
    programs.check(PROGRAMS / f"{name}.py", case, 2)


@pytest.mark.parametrize("case", FLOW)
def test_flow(programs, case):
    programs.check(PROGRAMS / "flow.py", case, 2, only=FLOW)


@pytest.mark.parametrize("case", case_names(PROGRAMS / "stack.py"))
def test_stack_of_the_handler(programs, case):
    programs.check(PROGRAMS / "stack.py", case, 2, env={
        "PYRDV_PROGRESS": "parasite", "PYRDV_PARASITE_TRIGGER": "event"})


@pytest.mark.parametrize("case", EVENT)
def test_event(programs, case):
    programs.check(PROGRAMS / "event.py", case, 2, only=EVENT, env={
        "PYRDV_PROGRESS": "parasite", "PYRDV_PARASITE_TRIGGER": "event"})


@pytest.mark.parametrize("trigger", ("timer", "event"))
@pytest.mark.parametrize("case", PARASITE)
def test_parasite(programs, case, trigger):
    programs.check(PROGRAMS / "parasite.py", case, 2, only=PARASITE, env={
        "PYRDV_PROGRESS": "parasite", "PYRDV_PARASITE_TRIGGER": trigger})


@pytest.mark.parametrize("case", THREAD)
def test_thread(programs, case):
    programs.check(PROGRAMS / "thread.py", case, 2, only=THREAD, env={"PYRDV_PROGRESS": "thread"})
