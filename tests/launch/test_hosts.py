"""Ranks on several hosts: placement, agents, and real network namespaces."""

import os
import shutil
import subprocess
import sys

import pytest

from pyrdv.errors import LaunchError
from pyrdv.launch import hosts
from tests.support.absent import absent
from tests.support.jobs import Jobs as SupportJobs

# --- placement ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("a", [("a", None)]), ("a,b", [("a", None), ("b", None)]), (" a , b ", [("a", None),
                                                                            ("b", None)]),
     ("a:2,b:14", [("a", 2), ("b", 14)]), ("[fe80::1]:2", [("fe80::1", 2)]),
     ("[::1]", [("::1", None)])])
def test_host_lists(text, parsed):
    assert hosts.parse(text) == parsed


@pytest.mark.parametrize(
    ("text", "part"),
    [("", "without a name"), ("a,,b", "without a name"), ("a,a", "twice"), ("a:2,b", "all or none"),
     ("a:0", "NAME:SLOTS"), ("a:x", "NAME:SLOTS"), ("a:", "NAME:SLOTS"), ("fe80::1", "brackets"),
     ("[a]2", "NAME:SLOTS"), ("a:\u0663", "NAME:SLOTS"), ("a\n,b", "without a name")])
def test_host_lists_that_are_none(text, part):
    if text == "a\n,b":
        assert hosts.parse(text) == [("a", None), ("b", None)]  # blanks around a name go
        text = "a\nc,b"
    with pytest.raises(ValueError, match=part):
        hosts.parse(text)


@pytest.mark.parametrize(
    ("text", "size", "placed"),
    [("a,b", 4, "aabb"), ("a,b", 5, "aaabb"), ("a,b,c", 7, "aaabbcc"), ("a,b,c", None, "abc"),
     ("a,b", 2, "ab"), ("a:1,b:3", 4, "abbb"), ("a:3,b:3", 4, "aaab"), ("a:3,b:3", 2, "aa"),
     ("a:2,b:1", None, "aab")])
def test_placement(text, size, placed):
    assert hosts.assign(hosts.parse(text), size) == list(placed)


@pytest.mark.parametrize(
    ("text", "size", "part"),
    [("a:2,b:2", 5, "5 ranks do not fit the 4 slots"), ("a,b,c", 2, "2 ranks for 3 hosts"),
     ("a,b", 1, "1 rank for 2 hosts")])
def test_placement_that_cannot_be(text, size, part):
    with pytest.raises(LaunchError, match=part):
        hosts.assign(hosts.parse(text), size)


def test_agent_words():
    agent = hosts.Agent("run 'on {host}' --name={host}-{rank} {other} {}")
    assert agent.command("b", 7) == ["run", "on b", "--name=b-7", "{other}", "{}"]
    assert agent.names_host and not hosts.Agent("nice -n {rank}").names_host
    for text in ("", "  ", "a 'b"):
        with pytest.raises(ValueError, match="is no command"):
            hosts.Agent(text)


# --- jobs -----------------------------------------------------------------------------------------

MEET = """
client = join()
print(client.exchange(f"{launch.rank} {launch.host} {os.environ.get('THERE')}".encode()))
assert launch.how == "pyrdv run" and os.environ["PYRDV_PID"] == str(os.getpid())
client.leave()
"""


def met(*rows):
    return (str([row.encode() for row in rows]) + "\n") * len(rows)


def test_an_agent_takes_each_rank_to_its_host(jobs):
    status, out, err = jobs.run(MEET, 3, "--hosts", "a,b", "--agent", "env THERE={host}.{rank}")
    assert (status, err) == (0, "")
    assert out == met("0 a a.0", "1 a a.1", "2 b b.2")


def test_the_number_of_ranks_follows_from_the_hosts(jobs):
    program = jobs.write(MEET)
    for text, rows in (("a,b", ("0 a x", "1 b x")), ("a:2,b:1", ("0 a x", "1 a x", "2 b x"))):
        done = subprocess.run(
            [sys.executable, "-m", "pyrdv.tools.cli", "run", "--hosts", text, "--agent",
             "env THERE=x NOT={host}", program], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, met(*rows), "")


def test_an_agent_without_hosts(jobs):
    status, out, err = jobs.run(MEET, 2, "--agent", "env THERE={rank}")
    name = os.uname().nodename
    assert (status, out, err) == (0, met(f"0 {name} 0", f"1 {name} 1"), "")


@pytest.mark.parametrize("agent", [
    "sh -c '\"$@\"; exit $?' {host}",               # a child of the agent's process
    "sh -c '\"$@\" & wait $!' {host}",              # the same, in the background
    "env A={host} sh -c 'exec \"$@\"' sh"])         # the agent's own process
def test_the_rank_may_be_the_agent_or_its_child(jobs, agent):
    status, out, err = jobs.run(MEET, 2, "--hosts", "a,b", "--agent", agent)
    assert (status, out, err) == (0, met("0 a None", "1 b None"), "")
    assert jobs.gone() is True


def test_children_of_an_agents_rank_are_no_ranks(jobs):
    status, out, err = jobs.run("""
        import subprocess
        client = join()
        print(subprocess.run([sys.executable, "-c", "from pyrdv.launch import env;"
              "print(env.detect().how)"], capture_output=True, text=True).stdout, end="")
        client.leave()
        """, 2, "--hosts", "a,b", "--agent", "sh -c '\"$@\"; exit $?' {host}")
    assert (status, out, err) == (0, "child of a rank\n" * 2, "")


@pytest.mark.parametrize("code, status", [("sys.exit(3 if launch.rank == 1 else 0)", 3),
                                          ("time.sleep(60 * (1 - launch.rank)); sys.exit(4)", 4)])
def test_failures_name_the_host(jobs, code, status):
    got, _, err = jobs.run(code, 2, "--grace", "0.1", "--hosts", "a,b", "--agent",
                           "sh -c '\"$@\"; exit $?' {host}")
    assert got == status
    assert "rank 1 (process " in err and f" on b) ended with status {status}" in err
    assert jobs.gone() is True


def test_interrupt_reaches_the_child_of_an_agent(jobs):
    process = jobs.start("""
        client = join(); client.exchange(b"")
        open(f"up{launch.rank}", "w").close()
        try: time.sleep(60)
        except KeyboardInterrupt: print("cleaned", launch.rank)
        """, 2, "--hosts", "a,b", "--agent", "sh -c 'trap : INT; \"$@\"' {host}")
    for rank in (0, 1):
        jobs.wait_file(f"up{rank}")
    process.send_signal(2)
    status, out, _ = jobs.finish(process)
    assert status == 130 and sorted(out.splitlines()) == ["cleaned 0", "cleaned 1"]
    assert jobs.gone() is True


@pytest.mark.parametrize(
    ("options", "status", "part"),
    [(("--hosts", "a,b"), 1, "needs an --agent that names {host}"),
     (("--hosts", "a,b", "--agent", "env X={rank}"), 1, "needs an --agent that names {host}"),
     (("--agent", "env X={host}"), 1, "there are no --hosts"),
     (("--hosts", "a,b,c", "--agent", "env X={host}"), 1, "2 ranks for 3 hosts"),
     (("--hosts", "a:1", "--agent", "env X={host}"), 1, "2 ranks do not fit the 1 slots"),
     (("--hosts", "a,a", "--agent", "env X={host}"), 2, "names 'a' twice"),
     (("--agent", "no-such-agent-here"), 127, "no program 'no-such-agent-here'"),
     (("--agent", "'"), 2, "is no command"),
     (("--address", "0.0.0.0"), 2, "no address that a rank can connect to"),
     (("--address", "203.0.113.7"), 1, "cannot listen on 203.0.113.7"),
     (("--fabric", "pigeons"), 2, "choose from"),
     (("--env", "PYRDV_HOST=x"), 2, "set by the launcher itself")])
def test_options_that_do_not_fit(jobs, options, status, part):
    got, out, err = jobs.run("print('ran')", 2, *options)
    assert (got, out) == (status, "") and part in err and "Traceback" not in err
    assert jobs.gone() is True


def test_another_address(jobs):
    for address in ("127.0.0.5", "localhost", "[::1]"):
        status, out, err = jobs.run(
            "client = join(); client.exchange(b''); print(launch.address.rpartition(':')[0])"
            "; client.leave()", 2, "--address", address)
        where = {"localhost": "127.0.0.1"}.get(address, address)
        if address == "[::1]" and "cannot listen on ::1" in err:
            continue  # a machine without IPv6
        assert (status, out, err) == (0, f"{where}\n" * 2, "")


def test_fabric_option_sets_the_variable(jobs):
    status, out, err = jobs.run("print(os.environ['PYRDV_FABRIC'])", 1, "--fabric", "shm", "--env",
                                "PYRDV_FABRIC=auto")
    assert (status, out, err) == (0, "shm\n", "")


# --- network namespaces ---------------------------------------------------------------------------


@pytest.fixture
def nodes(tmp_path):
    """Two network namespaces joined by a cable: their names and addresses."""
    if os.getuid() != 0 or not all(map(shutil.which, ("ip", "nsenter"))):
        absent("network namespaces need root, ip (iproute2) and nsenter (util-linux)")
    tag = f"pt{os.getpid()}"
    names = [f"{tag}a", f"{tag}b"]

    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", names[0], "link", "add", "v0", "type", "veth", "peer", "v1", "netns", names[1])
        for number, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.77.9.{number + 1}/24", "dev", f"v{number}")
            ip("-n", name, "link", "set", f"v{number}", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.fixture
def far(tmp_path, nodes):
    """Run a job in the two nodes, its launcher in the first."""
    jobs = SupportJobs(tmp_path)

    def run(code, n, *options, **more):
        return jobs.run(code, n, "--hosts", ",".join(nodes), "--agent",
                        "nsenter --net=/run/netns/{host}", "--address", "10.77.9.1", *options,
                        before=["nsenter", f"--net=/run/netns/{nodes[0]}"], **more)

    yield run
    jobs.close()


def test_ranks_in_two_network_namespaces_meet(far):
    outcome = far("""
from pyrdv.launch import bootstrap, env, places
launch = env.detect()
client = bootstrap.Client.connect(launch, 30)
card = places.Card(0, 0, places.own_place(), launch.host)
cards = [places.Card.unpack(text) for text in client.exchange(card.pack())]
print([[one.place == other.place for one in cards] for other in cards],
      len({card.machine for card in cards}))
client.leave()
""", 4)
    table = [[one // 2 == other // 2 for one in range(4)] for other in range(4)]
    assert outcome.ok().out == f"{table} 1\n" * 4


def test_shared_memory_does_not_reach_another_namespace(far, nodes):
    outcome = far("from pyrdv import MPI", 4, "--fabric", "shm", "--grace", "20")
    assert outcome.status == 1 and outcome.out == ""
    assert outcome.err.count(f"ranks 0-1 on {nodes[0]}, ranks 2-3 on {nodes[1]}") == 4, outcome


def test_a_launcher_that_cannot_be_reached(far):
    outcome = far("from pyrdv import MPI", 2, "--address", "127.0.0.1", "--grace", "0")
    assert outcome.status == 1 and outcome.err.count("`pyrdv run --address` names another") == 1
