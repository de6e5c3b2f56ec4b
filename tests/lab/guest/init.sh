#!/bin/sh
# First process of the User-Mode Linux guest.  Its root is the host's file system (hostfs), read-only;
# what the guest writes goes to a tmpfs laid over it.  LAB_JOB, the job's folder, comes from the
# kernel's command line.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Every host has this folder, and nothing in it is needed before chroot.
layer=/run
root=$layer/root

# The end of the first process is the end of the guest.
die() { echo "lab: guest set-up failed: $*" >/dev/console; exit 1; }

# In an ordinary user's lab the set-user-id bit of mount leads to `nobody`, for that is who owns the
# host's files there.  Started through the loader the bit has no effect.
mount() { /lib64/ld-linux-x86-64.so.2 /bin/mount "$@"; }

mount -t proc proc /proc
exec </dev/null >/dev/console 2>&1
mount -t tmpfs -o mode=755,size=80% tmpfs $layer || die tmpfs
mkdir $layer/upper $layer/scratch $root
mount -t overlay -o nosuid,lowerdir=/,upperdir=$layer/upper,workdir=$layer/scratch overlay $root ||
    die overlay
mount -t proc proc $root/proc || die proc
mount -t sysfs sysfs $root/sys || die sysfs
mount -t devtmpfs devtmpfs $root/dev || die devtmpfs
mkdir -p $root/dev/pts $root/dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts $root/dev/pts || die devpts
mount -t tmpfs -o mode=1777,size=80% tmpfs $root/dev/shm || die shm
mount -t tmpfs -o mode=755 tmpfs $root/run || die run
mkdir -p $root/run/lab/job $root/run/lock
# The one folder that is shared with the host.
mount -t hostfs -o "$LAB_JOB" none $root/run/lab/job || die "$LAB_JOB"
# perftest wants to read a clock rate, which the guest's own file lacks.
mount --bind $root/run/lab/job/cpuinfo $root/proc/cpuinfo
exec chroot $root /bin/sh /run/lab/job/guest/job.sh
