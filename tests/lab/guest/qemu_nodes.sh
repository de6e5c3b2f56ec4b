# The nodes where the kernel's rxe knows no network namespaces but the first one, as in Debian 12.
# Follows nodes.sh in the job's folder and replaces its set_up_nodes.
#
# node0 and node1 are two names of one namespace then.  The cable is there, and policy routing sends
# what goes from one of its ends to the other over it: to the kernel both are its own addresses, which
# it would reach without any device.

ends_of_the_cable() {  # ends_of_the_cable FAR: addresses, as nodes.sh gives them, in few commands
    for end in "node0 v0 1" "$1 v1 2"; do
        # shellcheck disable=SC2086  # three words
        set -- $end
        must ip -n "$1" -batch - <<EOT || return 1
link set lo up
link set $2 addrgenmode none
link set $2 up
addr add 10.77.0.$3/24 dev $2
addr add fd77::$3/64 dev $2 nodad
addr add fe80::$3/64 dev $2 nodad
EOT
    done
}

over_the_cable() {
    for end in v0 v1; do
        # Packets from an address of this very system are no lie here.
        echo 1 >/proc/sys/net/ipv4/conf/$end/accept_local
        echo 0 >/proc/sys/net/ipv4/conf/$end/rp_filter
        # Only the end that has an address answers for it.
        echo 1 >/proc/sys/net/ipv4/conf/$end/arp_ignore
    done
    for version in 4 6; do
        [ $version = 4 ] && net=10.77.0. || net=fd77::
        must ip -$version -batch - <<EOT || return 1
route add ${net}2 dev v0 src ${net}1 table 77
route add ${net}1 dev v1 src ${net}2 table 77
rule add pref 10 iif v0 lookup local
rule add pref 10 iif v1 lookup local
rule add pref 11 from ${net}1 to ${net}1 lookup local
rule add pref 11 from ${net}2 to ${net}2 lookup local
rule add pref 12 lookup 77
rule add pref 13 lookup local
rule del pref 0 lookup local
EOT
    done
}

set_up_nodes() {
    mkdir -p /run/netns
    must ip netns attach node0 $$ || return 1
    if [ "${LAB_NODES:-2}" = 2 ]; then
        far=node1
        must ip netns attach $far $$ || return 1
    else
        far=wire
        must ip netns add $far || return 1
    fi
    must ip link add v0 mtu 4200 type veth peer name v1 mtu 4200 netns $far || return 1
    ends_of_the_cable $far || return 1
    [ $far = wire ] || over_the_cable || return 1
    shape node0 v0 || return 1
    shape $far v1 || return 1
    for kind in $LAB_DEVICES; do
        must rdma link add "${kind}0" type "$kind" netdev v0 || return 1
        [ $far = wire ] || must rdma link add "${kind}1" type "$kind" netdev v1 || return 1
    done
}
