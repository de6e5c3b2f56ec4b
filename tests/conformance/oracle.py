"""MPI's matching rules in a few lines of Python, as the judge of random programs.

Two judges.  `Model` predicts: it holds when every call takes full effect before the
next one begins, so that messages arrive in the order of the sends.  `check` only
accepts: it takes what happened, in whatever order messages arrived, and names a
violated rule.
"""

from dataclasses import dataclass, field

ANY = -1


@dataclass
class Message:
    """One send: `order` counts the sends of its source."""

    source: int
    dest: int
    context: int
    tag: int
    size: int
    order: int
    taken_by: object = None

    @property
    def name(self):
        return (self.source, self.order)


@dataclass
class Receive:
    """A posted receive, or a matched probe; `order` counts those of its rank."""

    rank: int
    context: int
    source: int
    tag: int
    order: int
    message: Message = None
    cancelled: bool = False
    idle: bool = False      # unmatched when everything had come to rest
    drained: bool = False   # began only after that

    def takes(self, message):
        return (message.dest == self.rank and message.context == self.context
                and self.source in (ANY, message.source) and self.tag in (ANY, message.tag))


@dataclass
class Model:
    """The state of matching when everything takes effect at once."""

    unexpected: list = field(default_factory=list)
    posted: list = field(default_factory=list)

    def send(self, message):
        for receive in self.posted:
            if receive.takes(message):
                self.posted.remove(receive)
                return receive
        self.unexpected.append(message)
        return None

    def probe(self, receive):
        return next((m for m in self.unexpected if receive.takes(m)), None)

    def receive(self, receive):
        message = self.probe(receive)
        if message is not None:
            self.unexpected.remove(message)
        else:
            self.posted.append(receive)
        return message

    def cancel(self, receive):
        if receive in self.posted:
            self.posted.remove(receive)
            return True
        return False


def check(messages, receives):
    """Return the violations of MPI's rules, as texts.

    Parameters
    ----------
    messages : list of Message
        In order of the calls, at the end of the program.
    receives : list of Receive
        In order of the calls per rank; ``message`` is what each got.
    """
    wrong = []
    owner = {}
    for receive in receives:
        message = receive.message
        if message is None:
            continue
        if not receive.takes(message):
            wrong.append(f"{receive} got a message that it does not match")
        if message.name in owner:
            wrong.append(f"{message.name} was received twice: {owner[message.name]}, {receive}")
        owner[message.name] = receive
    for message in messages:
        if message.name not in owner:
            wrong.append(f"{message} was lost")
    idle = [receive for receive in receives if receive.idle]
    for receive in receives:
        if receive.drained:
            wrong += [f"{other} was never given {receive.message}"
                      for other in idle if other.takes(receive.message)]
        if receive.message is not None:
            wrong += _overtaken_messages(receive, messages, owner)
            wrong += _overtaken_receives(receive, receives)
    return wrong


def _overtaken_messages(receive, messages, owner):
    """A receive must take the oldest message of a source that it matches."""
    wrong = []
    for earlier in messages:
        if (earlier.source == receive.message.source and receive.takes(earlier)
                and earlier.order < receive.message.order):
            other = owner.get(earlier.name)
            if other is None or other.order > receive.order:
                wrong.append(f"{receive} overtook the earlier {earlier}")
    return wrong


def _overtaken_receives(receive, receives):
    """A message must go to the oldest receive that matches it."""
    wrong = []
    message = receive.message
    for earlier in receives:
        if (earlier.rank != receive.rank or earlier.order >= receive.order
                or not earlier.takes(message) or earlier.cancelled):
            continue
        if earlier.message is None:
            wrong.append(f"{earlier} was passed over for {receive}")
        elif (earlier.message.source == message.source
                and earlier.message.order > message.order):
            wrong.append(f"{earlier} and {receive} got messages in the wrong order")
    return wrong
