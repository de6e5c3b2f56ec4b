"""Ranks on several hosts: which rank goes where, and the agent that starts it there.

The launcher starts every rank itself, as a child on its own machine. An *agent* is a command that
takes it elsewhere: it runs its remaining arguments, as the same process or a child, with the
environment and the descriptors it was given (``nsenter``, ``ip netns exec``, ``chroot``).
"""

from pyrdv.errors import LaunchError

HOST, RANK = "{host}", "{rank}"


def parse(text):
    """Turn ``a,b`` or ``a:2,b:4`` into a list of (name, slots or None).

    Raises
    ------
    ValueError
        The text says what is wrong.
    """
    hosts = []
    for word in text.split(","):
        name, slots = _split(word.strip())
        if not name or not name.isprintable():
            raise ValueError(f"{text!r} has a host without a name: write names between commas")
        if name in [other for other, _ in hosts]:
            raise ValueError(f"{text!r} names {name!r} twice: give it slots, as in {name}:2")
        hosts.append((name, slots))
    if len({slots is None for _, slots in hosts}) > 1:
        raise ValueError(f"{text!r} gives slots for some hosts only: give them for all or none")
    return hosts


def _split(word):
    """Cut ``name``, ``name:slots`` or, for a name with colons, ``[name]:slots``."""
    if word.startswith("[") and "]" in word:
        name, _, rest = word[1:].partition("]")
    else:
        name, colon, rest = word.partition(":")
        rest = colon + rest
    if not rest:
        return name, None
    digits = rest[1:]
    if rest[0] != ":" or not (digits.isascii() and digits.isdecimal()) or int(digits) < 1:
        raise ValueError(f"{word!r} is no host with slots: write NAME:SLOTS, as in node0:4, and "
                         "a name that has colons in brackets")
    return name, int(digits)


def assign(hosts, size):
    """Give every rank a host, in blocks.

    Parameters
    ----------
    hosts : list of (str, int or None)
        From `parse`. Hosts with slots are filled in their order; without, blocks are equal, the
        first ones larger by one rank if it must be.
    size : int or None
        Number of ranks; None takes all slots, or one rank per host.

    Returns
    -------
    list of str
        Host of each rank.

    Raises
    ------
    LaunchError
        More ranks than slots, or more hosts than ranks.
    """
    if hosts[0][1] is not None:
        every = [name for name, slots in hosts for _ in range(slots)]
        if size is not None and size > len(every):
            raise LaunchError(
                f"{size} ranks do not fit the {len(every)} slots of the hosts: start at most "
                f"{len(every)}, or give more slots")
        return every[:size]
    size = len(hosts) if size is None else size
    if size < len(hosts):
        raise LaunchError(f"{size} rank{'s' if size > 1 else ''} for {len(hosts)} hosts: name at "
                          "most as many hosts as ranks")
    share, more = divmod(size, len(hosts))
    return [name for index, (name, _) in enumerate(hosts)
            for _ in range(share + (index < more))]


class Agent:
    """A command in front of that of each rank.

    Parameters
    ----------
    text : str
        Words as a shell would read them; ``{host}`` and ``{rank}`` are replaced in each.

    Raises
    ------
    ValueError
        No words, or an open quote.
    """

    def __init__(self, text):
        import shlex

        try:
            self.words = shlex.split(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is no command: {error}") from None
        if not self.words:
            raise ValueError(f"{text!r} is no command: it is empty")
        self.names_host = any(HOST in word for word in self.words)

    def command(self, host, rank):
        """The words for one rank; the rank's own command goes behind them."""
        return [word.replace(HOST, host).replace(RANK, str(rank)) for word in self.words]


def check(hosts, agent):
    """Demand that hosts and agent fit together; LaunchError says what to give.

    Ranks that an agent does not take to their hosts would all run here, under names of hosts where
    they are not.
    """
    if hosts and not (agent and agent.names_host):
        raise LaunchError(
            "--hosts needs an --agent that names {host}: the command that runs a program on a "
            "host, such as --agent 'nsenter --net=/run/netns/{host}'")
    if agent and agent.names_host and not hosts:
        raise LaunchError("the --agent names {host}, but there are no --hosts: name them")
