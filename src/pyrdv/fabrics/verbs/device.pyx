# cython: language_level=3
"""Reads what RDMA devices and network interfaces this process sees.

Every call opens the devices anew and closes them before it returns, so its
answer is of now, and nothing stays open (a context does not survive a fork).
"""
import os

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport errno
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from pyrdv.fabrics.verbs.libibverbs cimport (
    IBV_QPT_RC, IBV_WR_RDMA_WRITE, ibv_context, ibv_cq, ibv_device, ibv_device_attr,
    ibv_gid_entry, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_init_attr)
from pyrdv.fabrics.verbs.library cimport verbs_calls, verbs_query_port, verbs_table
from pyrdv.fabrics.verbs.librdmacm cimport rdma_event_channel

from pyrdv.fabrics.verbs import choice, codes, library, sysfs
from pyrdv.fabrics.verbs.gids import Address, Gid, Interface, locate


cdef extern from "<sys/socket.h>" nogil:
    int AF_INET, AF_INET6, AF_PACKET
    struct sockaddr:
        unsigned short sa_family

cdef extern from "<netinet/in.h>" nogil:
    struct sockaddr_in:
        int sin_addr
    struct sockaddr_in6:
        int sin6_addr

cdef extern from "<linux/if_packet.h>" nogil:
    struct sockaddr_ll:
        int sll_ifindex
        unsigned char sll_halen
        unsigned char sll_addr[8]

cdef extern from "<net/if.h>" nogil:
    unsigned int IFF_UP
    unsigned int if_nametoindex(const char *name)

cdef extern from "<ifaddrs.h>" nogil:
    struct ifaddrs:
        ifaddrs *ifa_next
        char *ifa_name
        unsigned int ifa_flags
        sockaddr *ifa_addr
        sockaddr *ifa_netmask
    int getifaddrs(ifaddrs **out)
    void freeifaddrs(ifaddrs *list)


# ------------------------------------------------------------------ interfaces


cdef bytes _raw(const sockaddr *address):
    """The address inside a sockaddr, without port and scope."""
    if address == NULL:
        return b""
    if address.sa_family == AF_INET:
        return PyBytes_FromStringAndSize(<const char *> &(<sockaddr_in *> address).sin_addr, 4)
    if address.sa_family == AF_INET6:
        return PyBytes_FromStringAndSize(<const char *> &(<sockaddr_in6 *> address).sin6_addr, 16)
    return b""


def interfaces():
    """Read the network interfaces of this network namespace.

    Returns
    -------
    list of Interface

    Raises
    ------
    OSError
        If the system refuses to tell.
    """
    cdef ifaddrs *first
    cdef ifaddrs *one
    cdef const sockaddr_ll *link
    cdef const char *hardware
    import ipaddress

    if getifaddrs(&first):
        raise OSError(errno, f"the network interfaces cannot be read: {os.strerror(errno)}")
    found = {}
    try:
        one = first
        while one != NULL:
            # An alias of old style, eth0:1, is an address of eth0.
            name = (<bytes> one.ifa_name).decode(errors="replace").partition(":")[0]
            row = found.setdefault(name, {"up": False, "hardware": b"", "addresses": []})
            row["up"] = row["up"] or bool(one.ifa_flags & IFF_UP)
            if one.ifa_addr != NULL and one.ifa_addr.sa_family == AF_PACKET:
                link = <const sockaddr_ll *> one.ifa_addr
                # Longer than declared for InfiniBand; the C library makes room for that.
                hardware = <const char *> link + (<char *> &link.sll_addr - <char *> link)
                row["hardware"] = PyBytes_FromStringAndSize(hardware, link.sll_halen)
            raw = _raw(one.ifa_addr)
            if raw:
                bits = sum(byte.bit_count() for byte in _raw(one.ifa_netmask))
                row["addresses"].append(Address(str(ipaddress.ip_address(raw)), bits))
            one = one.ifa_next
    finally:
        freeifaddrs(first)
    return [Interface(name, if_nametoindex(name.encode()), row["up"], row["hardware"],
                      tuple(row["addresses"]))
            for name, row in found.items()]


# --------------------------------------------------------------------- devices


cdef class _Open:
    """An open device; closed by `close`, or when the object goes."""

    cdef ibv_context *context
    cdef const verbs_calls *calls

    def __dealloc__(self):
        self.close()

    cdef close(self):
        if self.context != NULL:
            self.calls.ibv_close_device(self.context)
            self.context = NULL


cdef _Open _open(ibv_device *device):
    """Open one device; None with errno set if that fails."""
    cdef _Open opened = _Open()
    opened.calls = verbs_table()
    opened.context = opened.calls.ibv_open_device(device)
    return opened if opened.context != NULL else None


def devices():
    """Read every RDMA device that this process sees.

    Returns
    -------
    list of Device
        By name; one that cannot be opened says why in ``problem``.

    Raises
    ------
    OSError
        If the libraries are missing.
    """
    cdef const verbs_calls *calls
    cdef ibv_device **listed
    cdef int count = 0
    cdef int i
    library.load()
    calls = verbs_table()
    listed = calls.ibv_get_device_list(&count)
    if listed == NULL:
        return []  # the kernel has no RDMA at all
    try:
        here = interfaces()
        found = [_device(listed[i], here) for i in range(count)]
    finally:
        calls.ibv_free_device_list(listed)
    return sorted(found, key=lambda one: one.name)


def identity(name, int port):
    """What tells a port of a device from all others, and is the same for every process.

    Parameters
    ----------
    name : str
    port : int
        From 1.

    Returns
    -------
    dict of str to object, or None
        Node GUID and type, vendor, model, firmware and link rate, of JSON's types; None: there is
        no such device, or it has no GUID.

    Raises
    ------
    OSError
        If the libraries are missing.
    """
    cdef const verbs_calls *calls
    cdef ibv_device **listed
    cdef int count = 0
    cdef int i
    library.load()
    calls = verbs_table()
    listed = calls.ibv_get_device_list(&count)
    if listed == NULL:
        return None
    try:
        for i in range(count):
            if calls.ibv_get_device_name(listed[i]).decode(errors="replace") == name:
                return _identity(listed[i], port)
    finally:
        calls.ibv_free_device_list(listed)
    return None


cdef _identity(ibv_device *device, int port):
    cdef ibv_device_attr attr
    cdef ibv_port_attr link
    cdef _Open opened = _open(device)
    if opened is None:
        return None
    memset(&attr, 0, sizeof(attr))
    memset(&link, 0, sizeof(link))
    try:
        if verbs_table().ibv_query_device(opened.context, &attr) or attr.node_guid == 0 \
                or verbs_query_port(verbs_table(), opened.context, <uint8_t> port, &link):
            return None
    finally:
        opened.close()
    guid = PyBytes_FromStringAndSize(<const char *> &attr.node_guid, 8).hex()
    return {"guid": guid, "transport": codes.transport(device.transport_type),
            "vendor": attr.vendor_id, "part": attr.vendor_part_id, "revision": attr.hw_ver,
            "firmware": (<bytes> attr.fw_ver).decode(errors="replace"),
            "gbit": codes.gbit(link.active_width, link.active_speed)}


cdef _device(ibv_device *device, here):
    cdef const verbs_calls *calls = verbs_table()
    cdef ibv_device_attr attr
    cdef _Open opened
    cdef int status
    name = calls.ibv_get_device_name(device).decode(errors="replace")
    transport = codes.transport(device.transport_type)
    opened = _open(device)
    if opened is None:
        return choice.Device(name, transport, problem=_not_opened(errno))
    try:
        memset(&attr, 0, sizeof(attr))
        status = calls.ibv_query_device(opened.context, &attr)
        if status:
            return choice.Device(
                name, transport, problem=f"its limits cannot be read: {os.strerror(status)}")
        gids = _gid_table(opened.context, name, transport, attr.phys_port_cnt, here)
        ports = tuple(_port(opened.context, number, gids.get(number, ()))
                      for number in range(1, attr.phys_port_cnt + 1))
    finally:
        opened.close()
    return choice.Device(name, transport, ports, _limits(&attr), attr.vendor_id,
                         (<bytes> attr.fw_ver).decode(errors="replace"))


def _not_opened(code):
    text = f"it cannot be opened: {os.strerror(code)}"
    import errno as codes

    if code in (codes.EACCES, codes.EPERM):
        return text + ("; this user needs read and write access to /dev/infiniband/uverbs* "
                       "(group rdma on some systems)")
    if code in (codes.ENOENT, codes.ENODEV, codes.ENXIO, codes.ENOSYS):
        return text + ("; load the module ib_uverbs, or in a container add the devices "
                       "(docker: --device=/dev/infiniband)")
    return text


cdef dict _limits(ibv_device_attr *attr):
    # In the order of codes.LIMITS.
    values = (attr.max_qp, attr.max_qp_wr, attr.max_sge, attr.max_sge_rd, attr.max_cq,
              attr.max_cqe, attr.max_mr, attr.max_mr_size, attr.max_pd, attr.max_qp_rd_atom,
              attr.max_qp_init_rd_atom)
    return dict(zip(codes.LIMITS, values, strict=True))


cdef _port(ibv_context *context, int number, gids):
    cdef ibv_port_attr attr
    cdef int status = verbs_query_port(verbs_table(), context, <uint8_t> number, &attr)
    if status:
        return choice.Port(number, f"unreadable ({os.strerror(abs(status))})", "unknown")
    return choice.Port(
        number, codes.state(attr.state), codes.link_layer(attr.link_layer),
        codes.mtu(attr.active_mtu), codes.mtu(attr.max_mtu), attr.max_msg_sz,
        codes.gbit(attr.active_width, attr.active_speed), tuple(gids))


# ------------------------------------------------------------------------ GIDs


cdef dict _gid_table(ibv_context *context, name, transport, int ports, here):
    """``{port: [Gid, ...]}``, located, with the empty entries left out."""
    rows = _asked_gids(context, transport, ports)
    if rows is None:
        rows = sysfs.gid_rows(name, ports, transport)
    table = {}
    for port, gid in rows:
        if not gid.empty:
            table.setdefault(port, []).append(locate(gid, here))
    return table


cdef _asked_gids(ibv_context *context, transport, int ports):
    """The table as the library gives it; None if it is too old to."""
    cdef const verbs_calls *calls = verbs_table()
    cdef ibv_port_attr attr
    cdef ibv_gid_entry *entries
    cdef size_t room = 0
    cdef ssize_t count
    cdef ssize_t i
    cdef int number
    if calls._ibv_query_gid_table == NULL:
        return None
    for number in range(1, ports + 1):
        if verbs_query_port(calls, context, <uint8_t> number, &attr) == 0:
            room += <size_t> max(attr.gid_tbl_len, 0)
    entries = <ibv_gid_entry *> calloc(room + 1, sizeof(ibv_gid_entry))
    if entries == NULL:
        raise MemoryError(f"no memory for {room} GIDs")
    try:
        count = calls._ibv_query_gid_table(context, entries, room + 1, 0, sizeof(ibv_gid_entry))
        if count < 0:
            return None
        return [(entries[i].port_num, Gid(
            entries[i].gid_index,
            PyBytes_FromStringAndSize(<const char *> entries[i].gid.raw, 16),
            codes.kind(entries[i].gid_type, transport), "",
            entries[i].ndev_ifindex)) for i in range(count)]
    finally:
        free(entries)


# --------------------------------------------------------------------- choosing


def manager_problem():
    """Why connections cannot be managed here; None if they can."""
    cdef const verbs_calls *calls
    cdef rdma_event_channel *channel
    library.load()
    calls = verbs_table()
    channel = calls.rdma_create_event_channel()
    if channel == NULL:
        return (f"the connection manager cannot be opened: {os.strerror(errno)}; load the module "
                "rdma_ucm (`modprobe rdma_ucm`), or in a container add its device "
                "(docker: --device=/dev/infiniband/rdma_cm)")
    calls.rdma_destroy_event_channel(channel)
    return None


def choose(device="", port=0, gid=-1):
    """Choose what this process uses; see `choice.choose`.

    Parameters
    ----------
    device : str
        Name of a device; empty to choose.
    port : int
        Number of a port, from 1; 0 to choose.
    gid : int
        Index of a GID; -1 to choose.

    Returns
    -------
    Choice

    Raises
    ------
    ValueError
        If what was named does not exist or is not to be used.
    OSError
        If the libraries are missing, there is no device, or none can be used.
    """
    found = choice.choose(devices(), device, port, gid)
    problem = manager_problem()
    if problem is not None:
        raise OSError(problem)
    return found


def try_queue_pair(name):
    """Make a queue pair on a device and throw it away.

    Parameters
    ----------
    name : str
        Name of the device.

    Returns
    -------
    in_order : bool or None
        Whether the device promises that the bytes of a write appear in order in memory;
        None if the library cannot tell.

    Raises
    ------
    ValueError
        If there is no such device.
    OSError
        If a step fails; the errno is that of the step, the text names it.
    """
    cdef const verbs_calls *calls
    cdef ibv_device **listed
    cdef _Open opened = None
    cdef int count = 0
    cdef int i
    library.load()
    calls = verbs_table()
    listed = calls.ibv_get_device_list(&count)
    if listed == NULL:
        count = 0
    try:
        for i in range(count):
            if calls.ibv_get_device_name(listed[i]) == (<bytes> name.encode()):
                opened = _open(listed[i])
                if opened is None:
                    raise OSError(errno, f"opening {name}: {os.strerror(errno)}")
                break
    finally:
        if listed != NULL:
            calls.ibv_free_device_list(listed)
    if opened is None:
        raise ValueError(f"there is no RDMA device {name!r}")
    try:
        return _tried(opened.context, name)
    finally:
        opened.close()


cdef _tried(ibv_context *context, name):
    cdef const verbs_calls *calls = verbs_table()
    cdef ibv_pd *domain = NULL
    cdef ibv_cq *queue = NULL
    cdef ibv_qp *pair = NULL
    cdef ibv_qp_init_attr attr
    step = "a protection domain"
    try:
        domain = calls.ibv_alloc_pd(context)
        if domain != NULL:
            step = "a completion queue"
            queue = calls.ibv_create_cq(context, 16, NULL, NULL, 0)
        if queue != NULL:
            step = "a queue pair"
            memset(&attr, 0, sizeof(attr))
            attr.qp_type = IBV_QPT_RC
            attr.send_cq = queue
            attr.recv_cq = queue
            attr.cap.max_send_wr = attr.cap.max_recv_wr = 8
            attr.cap.max_send_sge = attr.cap.max_recv_sge = 1
            pair = calls.ibv_create_qp(domain, &attr)
        if pair == NULL:
            raise OSError(errno, f"{name} refuses {step}: {os.strerror(errno)}")
        if calls.ibv_query_qp_data_in_order == NULL:
            return None
        return calls.ibv_query_qp_data_in_order(pair, IBV_WR_RDMA_WRITE, 0) == 1
    finally:
        if pair != NULL:
            calls.ibv_destroy_qp(pair)
        if queue != NULL:
            calls.ibv_destroy_cq(queue)
        if domain != NULL:
            calls.ibv_dealloc_pd(domain)
