"""Ranks that are not root, and whose device has nothing left for them while they say so."""

import subprocess

from tests.verbs.nodes import UNPRIVILEGED

USER = (f'exec setpriv --reuid {UNPRIVILEGED} --regid {UNPRIVILEGED} --clear-groups '
        '--bounding-set -all --inh-caps -all "$@"')

HEAD = """
import contextlib, os, resource, time
import numpy as np
from pyrdv import MPI
from pyrdv.errors import PeerLostError, ResourceError
comm = MPI.COMM_WORLD

@contextlib.contextmanager
def limited(name, value):
    which = getattr(resource, name)
    before = resource.getrlimit(which)
    resource.setrlimit(which, (value, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)

@contextlib.contextmanager
def without(call):
    # The device has none left for this rank, as long as the file is there.
    name = f"no-{call}-{comm.rank}"
    os.mkdir(name)
    try:
        yield
    finally:
        os.rmdir(name)

def refused(call):
    # The ResourceError of a call.
    try:
        call()
    except ResourceError as error:
        return str(error)
    raise AssertionError("no error")

def flag(name):
    os.mkdir(name)

def wait_flag(name):
    while not os.path.exists(name):
        time.sleep(0.01)
"""

# A library before the others: the calls fail for a rank while a file says so.
STUB = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef void *any(void *, long, void *, void *, int);
static void *real(void *handle, const char *name)
{
    void *(*search)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return search(handle, name);
}
static int refused(const char *name)
{
    char file[100];
    const char *rank = getenv("PYRDV_RANK");
    snprintf(file, sizeof file, "no-%s-%s", name, rank ? rank : "");
    return access(file, F_OK) == 0;
}
#define CALL(name) \\
    void *name(void *a, long b, void *c, void *d, int e) \\
    { \\
        if (refused(#name)) { errno = ENOMEM; return NULL; } \\
        return ((any *)real(dlopen("libibverbs.so.1", RTLD_LAZY), #name))(a, b, c, d, e); \\
    }
CALL(ibv_create_qp)
CALL(ibv_create_cq)
int rdma_get_cm_event(void *channel, void **event)
{
    /* No news, as if the network were slow. */
    if (refused("rdma_get_cm_event")) { errno = EAGAIN; return -1; }
    int (*news)(void *, void **) =
        real(dlopen("librdmacm.so.1", RTLD_LAZY), "rdma_get_cm_event");
    return news(channel, event);
}
void *dlsym(void *handle, const char *name)
{
    if (!strcmp(name, "ibv_create_qp")) return (void *)ibv_create_qp;
    if (!strcmp(name, "ibv_create_cq")) return (void *)ibv_create_cq;
    if (!strcmp(name, "rdma_get_cm_event")) return (void *)rdma_get_cm_event;
    return real(handle, name);
}
"""


def runner(jobs):
    """Runs a program, behind HEAD, on some such ranks."""
    library = str(jobs.folder / "stub.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, jobs.write(STUB, "stub.c")],
                   check=True)

    def job(program, n, *options, **more):
        return jobs.run(HEAD + program, n, *options, first=f"export LD_PRELOAD={library}; {USER}",
                        limit=60, **more)
    return job
