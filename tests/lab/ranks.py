"""A job whose ranks lie on the nodes of a guest and reach each other over their RDMA devices."""

import shlex


def job(words, ranks, kind, *, nodes=2, pinned=False):
    """The command that starts it, for node 0.

    Parameters
    ----------
    words : sequence of str
        Program and arguments, as for ``pyrdv run``.
    ranks : int
        Spread over the nodes in equal blocks.
    kind : {"rxe", "siw"}
        Each rank uses its node's device of this kind, and nothing else.
    nodes : {1, 2}
        As for `machine.run`.
    pinned : bool
        Rank k runs on guest processor k, modulo their number.

    Returns
    -------
    str
        A text for ``sh``.
    """
    pin = "taskset -c $(({rank} % $(nproc))) " if pinned else ""
    choose = (f"export PYRDV_FABRIC=verbs PYRDV_RDMA_DEVICE={kind}${{0#node}}; "
              f'exec {pin}"$@"')
    # The word behind the script is its $0: the name of the host.
    agent = f"nsenter --net=/run/netns/{{host}} sh -c {shlex.quote(choose)} {{host}}"
    hosts = ",".join(f"node{k}" for k in range(nodes))
    return (f"PYRDV_FABRIC=verbs pyrdv run -n {ranks} --hosts {hosts} --address 10.77.0.1 "
            f"--agent {shlex.quote(agent)} {shlex.join(words)}")
