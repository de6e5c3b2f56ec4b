#!/bin/sh
# Runs the job in a guest whose file systems are ready, whatever machine it is, and powers off.
#
# /run/lab/job is the job's folder on the host: `settings` (assignments, read here), `command` (run by
# sh), `out` (LAB_OUT, where a command leaves files for the host) and `status` (written here, last).
job=/run/lab/job
. $job/settings
. $job/guest/nodes.sh

# The host holds the same limit and ends the guest a little later; this one says what hung.
watch_the_limit() {
    sleep "$LAB_LIMIT"
    {
        echo "lab: the time limit of $LAB_LIMIT s is over; processes and blocked tasks:"
        ps -e -o pid,ppid,stat,wchan:24,time,args | grep -v '\[.*\]$'
        echo 7 >/proc/sys/kernel/printk 2>/dev/null
        echo w >/proc/sysrq-trigger
    } >/dev/console 2>&1
    finish limit
}

finish() {  # finish STATUS: hand the status back and power off
    echo "$1" >$job/status.new
    mv $job/status.new $job/status
    sync
    echo o >/proc/sysrq-trigger
    sleep 60
}

hostname lab
cat >/etc/hosts <<EOF
127.0.0.1 localhost
127.0.1.1 lab
::1 localhost
10.77.0.1 node0
10.77.0.2 node1
fd77::1 node0
fd77::2 node1
EOF
chmod 1777 /tmp 2>/dev/null
# An unprivileged user of the guest can run the interpreter, wherever the host's user keeps it.
for folder in $LAB_OPEN; do chmod a+rx "$folder"; done
ulimit -l unlimited
ulimit -n 65536
ulimit -c 0

if ! set_up_nodes >/dev/console 2>&1; then
    finish setup
fi

cd "$LAB_DIRECTORY" || cd /
export LAB_OUT=$job/out LAB_NODES LAB_DEVICES
: >$job/started
[ "$LAB_LIMIT" = 0 ] || watch_the_limit &

if [ -n "$LAB_TERMINAL" ]; then
    stty -F "$LAB_TERMINAL" sane rows "$LAB_ROWS" cols "$LAB_COLUMNS"
    setsid --ctty sh $job/command <"$LAB_TERMINAL" >"$LAB_TERMINAL" 2>&1
    status=$?
else
    stty -F "$LAB_STDOUT" raw -echo
    stty -F "$LAB_STDERR" raw -echo
    mkfifo /run/lab/stdout /run/lab/stderr
    cat /run/lab/stdout >"$LAB_STDOUT" & out=$!
    cat /run/lab/stderr >"$LAB_STDERR" & err=$!
    setsid --wait sh $job/command </dev/null >/run/lab/stdout 2>/run/lab/stderr
    status=$?
    # Output of the command itself is in the pipes now; what it left running may hold them open.
    turn=0
    while kill -0 $out 2>/dev/null || kill -0 $err 2>/dev/null; do
        turn=$((turn + 1))
        if [ $turn = 20 ]; then
            echo "lab: the command left processes that hold its output:" >/dev/console
            ps -e -o pid,ppid,stat,args | grep -v '\[.*\]$' >/dev/console
            break
        fi
        sleep 0.05
    done
fi
finish $status
