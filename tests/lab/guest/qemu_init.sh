#!/bin/busybox sh
# First process of the QEMU guest.  It runs from the first file system in memory, where busybox is all
# there is, and goes on in the host's file system (9p), read-only, with a tmpfs laid over it for what
# the guest writes.  The rest is job.sh, the same as in every other machine.
export PATH=/bin
root=/over/root

die() { echo "lab: guest set-up failed: $*" >/dev/console; busybox poweroff -f; busybox sleep 60; }

mount() { busybox mount "$@"; }

mount -t proc proc /proc
mount -t devtmpfs devtmpfs /dev
exec </dev/null >/dev/console 2>&1
mount -t sysfs sysfs /sys

load() {  # load LIST: insert the modules it names
    while read -r module; do
        busybox insmod "/lib/$module" || die "module $module"
    done <"$1"
}

# One processor boots faster than several where they are emulated.  siw makes a thread for every
# processor it finds, so they all are there before the devices' drivers.
load /modules
for switch in /sys/devices/system/cpu/cpu[1-9]*/online; do
    [ ! -e "$switch" ] || echo 1 >"$switch"
done
load /drivers
# A trial of the accelerator ends here.
if busybox grep -qw lab.trial /proc/cmdline; then
    echo "lab: trial passed"
    busybox poweroff -f
fi

# The host's files do not change below a running guest, so it may keep what it has read.
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /host || die 9p
mount -t tmpfs -o mode=755,size=80% tmpfs /over || die tmpfs
busybox mkdir /over/upper /over/work $root
mount -t overlay -o lowerdir=/host,upperdir=/over/upper,workdir=/over/work overlay $root || die overlay
mount -t proc proc $root/proc || die proc
mount -t sysfs sysfs $root/sys || die sysfs
mount -t devtmpfs devtmpfs $root/dev || die devtmpfs
busybox mkdir -p $root/dev/pts $root/dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts $root/dev/pts || die devpts
mount -t tmpfs -o mode=1777,size=80% tmpfs $root/dev/shm || die shm
mount -t tmpfs -o mode=755 tmpfs $root/run || die run
busybox mkdir -p $root/run/lab/job $root/run/lock
# The one folder that is shared with the host.
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none job $root/run/lab/job || die job
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Not by exec: the first process must not need the host's files while the devices are shut down.
/bin/busybox chroot $root /bin/sh /run/lab/job/guest/job.sh
/bin/busybox poweroff -f
/bin/busybox sleep 60
