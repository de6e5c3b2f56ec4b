"""The lab's other machine: a stock Debian kernel in QEMU.

It shows that the kernel people really run behaves as the lab's own does.  KVM is used where it
really works, that is, where a trial boot passes; else QEMU emulates the processor, and programs
run some 25 times slower.

The host's file system goes in read-only over 9p: QEMU itself refuses to write there, and it needs
no privilege.  Output comes back through virtio ports that are the runner's pipes, and the exit
status in the job's folder, the one share that the guest can write to.
"""

import functools
import hashlib
import os
import subprocess
import time
from pathlib import Path

from . import kernel, machine, qemu_image
from .job import GUEST

QEMU = "qemu-system-x86_64"
ACCELERATOR_KNOB = "PYRDV_LAB_ACCEL"
NODES = GUEST / "qemu_nodes.sh"
TRIAL_LIMIT = 30
# What makes an emulated boot short, and changes nothing in how devices behave: no checks for flaws
# of real processors, no address randomization, no calibration, more processors at the end only.
KERNEL_LINE = ("console=ttyS0 quiet panic=-1 maxcpus=1 nokaslr nopti mitigations=off tsc=reliable "
               "no_timer_check random.trust_cpu=on audit=0 apparmor=0 selinux=0")


def ensure(progress):
    """Get the kernel and build what is missing; LabUnavailable says what stands in the way."""
    if machine.have(QEMU):
        raise machine.LabUnavailable(f"there is no {QEMU} here: install qemu-system-x86")
    _image(("rxe",), progress)
    try:
        _image(("siw",), progress)
    except machine.LabUnavailable as reason:
        progress(f"the QEMU lab has no siw devices, only rxe: {reason}")


def start(job, streams):
    """Start the guest of `job`; its first process is `guest/qemu_init.sh`."""
    image = _image(job.devices, machine._say)
    ports = {"LAB_STDOUT": streams.stdout, "LAB_STDERR": streams.stderr}
    shares = {"host": ("/", "on"), "job": (str(job.folder), "off")}
    options = ["-smp", str(job.cpus), "-m", f"{job.memory}M",
               "-device", "virtio-serial-pci,disable-legacy=on"]
    # Opened anew by QEMU, so that this process's own ends stay as they are.
    options += ["-chardev", f"file,id=console,path=/dev/fd/{streams.console}",
                "-serial", "chardev:console"]
    for number, (name, descriptor) in enumerate(ports.items(), 1):
        options += ["-chardev", f"file,id={name},path=/dev/fd/{descriptor}",
                    "-device", f"virtserialport,chardev={name},nr={number}"]
    if streams.terminal is not None:
        options += ["-chardev", f"serial,id=terminal,path=/dev/fd/{streams.terminal}",
                    "-device", "virtconsole,chardev=terminal,nr=3"]
    for tag, (path, readonly) in shares.items():
        path = path.replace(",", ",,")
        options += ["-fsdev", f"local,id={tag},path={path},security_model=none,"
                    f"readonly={readonly},multidevs=remap",
                    "-device", f"virtio-9p-pci,disable-legacy=on,fsdev={tag},mount_tag={tag}"]
    machine.settings(job, LAB_STDOUT="/dev/vport0p1", LAB_STDERR="/dev/vport0p2",
                     LAB_TERMINAL="" if streams.terminal is None else "/dev/hvc0")
    # The guest reads the job's own copy.
    with (job.folder / "guest" / "nodes.sh").open("a") as script:
        script.write(NODES.read_text())
    process = machine.popen(_command(accelerator(image), image, KERNEL_LINE, options), streams)
    if job.pinned:
        _pin(process.pid, job.cpus)
    return process


@functools.cache
def _image(devices, progress):
    return qemu_image.image(devices, progress)


def _command(accel, image, line, options):
    processor = "host" if accel == "kvm" else "max"
    return [
        QEMU, "-name", "pyrdv-lab,debug-threads=on", "-machine", "pc,hpet=off,vmport=off,usb=off",
        "-accel", "kvm" if accel == "kvm" else "tcg,thread=multi", "-cpu", processor,
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", line, *options,
    ]


def accelerator(image):
    """Return "kvm" if a guest really boots by it, else "tcg"; PYRDV_LAB_ACCEL decides instead."""
    forced = os.environ.get(ACCELERATOR_KNOB, "auto")
    if forced in ("kvm", "tcg"):
        return forced
    if forced != "auto":
        raise ValueError(f"{ACCELERATOR_KNOB} is auto, kvm or tcg, not {forced}")
    if not {"vmx", "svm"} & processor_flags() or not may_use_kvm():
        return "tcg"
    # One trial for each image and start of the host.
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    key = hashlib.sha256(f"{boot}{image}".encode()).hexdigest()[:16]
    known = kernel.cache() / "qemu" / f"accelerator-{key}"
    if not known.exists():
        known.write_text("kvm" if trial("kvm", image) else "tcg")
    return known.read_text()


def processor_flags():
    """Words of /proc/cpuinfo, the processor's abilities among them."""
    return set(Path("/proc/cpuinfo").read_text().split())


def may_use_kvm():
    """Whether this process may open the device."""
    return os.access("/dev/kvm", os.R_OK | os.W_OK)


def trial(accel, image, limit=TRIAL_LIMIT):
    """Whether a guest boots to its first process and powers off within `limit` seconds."""
    command = _command(accel, image, f"{KERNEL_LINE} lab.trial", ["-m", "512M", "-serial", "stdio"])
    try:
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, timeout=limit,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and b"lab: trial passed" in done.stdout


def _pin(pid, cpus):
    """Put the guest's processor k on the k-th processor of the host that this process may use."""
    host = sorted(os.sched_getaffinity(0))
    tasks = Path(f"/proc/{pid}/task")
    end = time.monotonic() + 5
    found = {}
    while len(found) < cpus and time.monotonic() < end:
        for task in tasks.glob("*/comm"):
            try:
                name = task.read_text()
            except FileNotFoundError:
                continue
            if name.startswith("CPU "):
                found[int(name.removeprefix("CPU ").partition("/")[0])] = int(task.parent.name)
        time.sleep(0.01)
    for number, thread in found.items():
        if number < len(host):
            os.sched_setaffinity(thread, {host[number]})
