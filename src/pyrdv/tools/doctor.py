"""``pyrdv doctor``: what this machine offers to pyrdv, what will be used, and what is wrong."""

import json
import sys
import textwrap

from pyrdv.foreign import shown

_WIDEST = 1000

EPILOG = """\
It changes nothing and joins no job. Run it where the ranks run, with their environment: under the
same user, in the same container and network namespace. The page can go into a bug report as it
is; it holds names and addresses of network interfaces, and no secrets.

settings that change the choice:
  PYRDV_FABRIC        auto, shm or verbs
  PYRDV_RDMA_DEVICE   NAME or NAME:PORT
  PYRDV_RDMA_GID      index of a GID
  PYRDV_RDMA_RING     auto, on or off: the way of small messages
  PYRDV_SINGLE_COPY   auto, on or off: large messages within this host

exit status:
  0 if pyrdv can be used as the settings ask (without settings, a machine without RDMA is fine);
  1 if something that they ask for cannot be used; 2 for wrong options.

examples:
  pyrdv doctor
  PYRDV_FABRIC=verbs PYRDV_RDMA_DEVICE=rxe0 pyrdv doctor
  ip netns exec node0 pyrdv doctor --json
  pyrdv tune --output here.json && pyrdv doctor --protocols here.json
  PYRDV_COLLECTIVES=bcast=chain pyrdv doctor --collectives 4
"""


def add_arguments(parser):
    """Declare the options of ``pyrdv doctor``."""
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--protocols", metavar="PROFILE", nargs="?", const="",
                        help="print instead which protocol a message takes, and what each would "
                        "cost by this profile of `pyrdv tune`; without one, by the figures that "
                        "ranks here choose by")
    parser.add_argument("--collectives", type=int, metavar="RANKS",
                        help="print instead which algorithm a collective call of so many ranks "
                        "takes, and why")
    parser.add_argument("--across", action="store_true",
                        help="with --collectives: of ranks that do not all share memory")


def main(options):
    """Look at this machine and print what was found; the exit status."""
    if options.protocols is not None:
        return _protocols(options)
    if options.collectives is not None:
        return _collectives(options)
    from pyrdv.tools import doctor_facts

    facts = doctor_facts.collect()
    if options.json:
        json.dump(facts, sys.stdout, indent=2)
        print()
    else:
        _print(page(facts))
    return 0 if facts["usable"] else 1


def _protocols(options):
    import os

    from pyrdv import config
    from pyrdv.errors import ConfigError
    from pyrdv.tools import doctor_protocols as protocols

    try:
        settings = config.load(os.environ, warn=lambda text: None)
        if options.protocols:
            profile, source = protocols.load(options.protocols), options.protocols
        else:
            profile, source = protocols.in_force(settings)
    except (ConfigError, protocols.ProfileError) as error:
        print(f"pyrdv doctor: {error}", file=sys.stderr)
        return 1
    if options.json:
        rows = [{"size": size, "taken": protocols.choice(profile, settings, size)[0],
                 "seconds": protocols.predicted(profile, size, settings.pipeline_buffer)}
                for size in protocols.SIZES]
        json.dump({"figures": source, "ends": profile["ends"], "rows": rows}, sys.stdout, indent=2)
        print()
    else:
        _print([f"Figures: {source}", *protocols.page(profile, settings)])
    return 0


def _collectives(options):
    import os

    from pyrdv import config
    from pyrdv.errors import ConfigError
    from pyrdv.tools import doctor_collectives as collectives

    if options.collectives < 1:
        print("pyrdv doctor: --collectives needs a number of ranks, 1 at least", file=sys.stderr)
        return 2
    try:
        asked = config.ways(config.load(os.environ, warn=lambda text: None).collectives)
    except ConfigError as error:
        print(f"pyrdv doctor: {error}", file=sys.stderr)
        return 1
    near = not options.across
    rows = collectives.rows(options.collectives, near, asked)
    if options.json:
        json.dump([row._asdict() for row in rows], sys.stdout, indent=2)
        print()
    else:
        _print(collectives.page(options.collectives, near, rows))
    return 0


def _print(lines):
    # Names of devices and interfaces, settings and profiles are not this program's own text.
    for line in lines:
        print(shown(line, _WIDEST))


def page(facts):
    """The lines of the page, from what `doctor_facts.collect` returns."""
    return [*_head(facts), "", *_launch(facts), "", *_use(facts), "", *_shared_memory(facts), "",
            *_limits(facts), "", *_rdma(facts), "", *_settings(facts), "", *_problems(facts)]


def _head(facts):
    own, system = facts["pyrdv"], facts["system"]
    built = "with RDMA verbs" if own["verbs_built"] else "without RDMA verbs"
    threads = "" if system["gil"] else ", without GIL"
    return [
        f"pyrdv {own['version']}, built {built}",
        f"{system['implementation']} {system['python']}{threads}, numpy {system['numpy']}",
        f"{system['kernel']}, {system['machine']}, {system['cores']} cores, "
        f"{system['cores_allowed']} for this process",
    ]


def _launch(facts):
    launch = facts["launch"]
    lines = ["Started by", f"  {launch['how']}; the first whose variables are there decides:"]
    for number, asked in enumerate(launch["order"], 1):
        lines += _wrapped(f"{number}. {asked['who']}: ", asked["variables"], 5)
    return lines


def _use(facts):
    use = facts["use"]
    return ["Will be used", *_wrapped("to peers on this host:   ", use["this_host"]),
            *_wrapped("to peers on other hosts: ", use["other_hosts"]),
            *_wrapped("progress between calls:  ", use["progress"]),
            *_wrapped("figures of messages:     ", use["figures"])]


def _shared_memory(facts):
    shared = facts["shared_memory"]
    if not shared["usable"]:
        return ["Shared memory", f"  cannot be used: {shared['reason']}"]
    copy = "yes" if shared["single_copy"] else f"no, {shared['reason']}"
    return ["Shared memory", f"  single copy between two processes: {copy}",
            "  /dev/shm and its size do not matter"]


def _limits(facts):
    memlock, nofile = facts["limits"]["memlock"], facts["limits"]["nofile"]
    text = f"  locked memory (ulimit -l): {_size(memlock['soft'])}, hard {_size(memlock['hard'])}"
    if memlock["exempt"]:
        text += "; not applied to this process (CAP_IPC_LOCK)"
    return ["Limits", text,
            f"  open files (ulimit -n):    {_number(nofile['soft'])}, hard "
            f"{_number(nofile['hard'])}"]


def _rdma(facts):
    rdma = facts["rdma"]
    lines = ["RDMA"]
    if rdma["source"] is not None:
        lines.append(f"  read through {rdma['source']}")
    if not rdma["devices"]:
        lines.append("  no devices")
    for device in rdma["devices"]:
        lines += _device(device)
    if rdma["choice"] is not None:
        lines.append("  choice:")
        for line in rdma["choice"]["explanation"]:
            lines += _wrapped("  ", line, 8)
        lines.append(f"    order of data: {_order(rdma)}")
        if rdma["queue_pair"] is None:
            lines.append("    connection to itself: "
                         + ("made" if rdma["connection"] is None else "failed, see below"))
    return lines


def _order(rdma):
    if rdma["queue_pair"] is not None:
        return "unknown, as no queue pair could be made"
    return {True: "promised", False: "not promised",
            None: "unknown: this libibverbs cannot tell, so it counts as not promised"}[
                rdma["data_in_order"]]


def _device(device):
    kind = device["soft"] or f"vendor 0x{device['vendor']:x}, firmware {device['firmware'] or '?'}"
    lines = [f"  {device['name']}: {device['transport']} transport, {kind}"]
    if device["problem"]:
        return [*lines, f"    {device['problem']}"]
    shown = ", ".join(f"{name} {_number(value)}" for name, value in device["limits"].items()
                      if name != "max_mr_size")
    lines += _wrapped("  limits: ", shown)
    for port in device["ports"]:
        lines.append(
            f"    port {port['number']}: {port['state']}, {port['link_layer']}, MTU {port['mtu']} "
            f"(at most {port['max_mtu']}), {port['gbit']:g} Gbit/s, messages up to "
            f"{_size(port['max_msg_sz'])}")
        lines += [f"      {_gid(gid)}" for gid in port["gids"]]
    return lines


def _gid(gid):
    where = ", ".join(f"{one['text']}/{one['prefix']}" for one in gid["addresses"])
    text = f"GID {gid['index']}: {gid['gid']}, {gid['kind']}"
    if gid["netdev"]:
        text += f", {gid['netdev']}"
    return f"{text}: {gid['problem'] or where or 'not looked for'}"


def _settings(facts):
    rows = [f"  {row['variable']}={row['value']}" for row in facts["settings"] if row["set"]]
    return ["Settings in the environment", *(rows or ["  none; `pyrdv config` lists them all"])]


def _problems(facts):
    if not facts["problems"]:
        return ["No problems found."]
    lines = ["Problems"]
    for number, problem in enumerate(facts["problems"], 1):
        asked = " [asked for by a setting]" if problem["asked"] else ""
        lines += _wrapped(f"{number}. ", problem["text"] + asked)
        if problem["remedy"]:
            lines += _wrapped("   ", f"Remedy: {problem['remedy']}")
    return lines


def _wrapped(head, text, hanging=0):
    """Lines of at most 100 columns; those after the first are indented under the text."""
    return textwrap.wrap(text, 100, initial_indent=f"  {head}",
                         subsequent_indent=" " * (hanging or len(head) + 2),
                         break_long_words=False, break_on_hyphens=False)


def _number(value):
    return "unlimited" if value is None else f"{value}"


def _size(value):
    """Bytes with a unit of powers of 1024, or ``unlimited``."""
    if value is None:
        return "unlimited"
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= unit:
            return f"{value / unit:.4g} {name}"
    return f"{value} bytes"
