# Two nodes on one machine: network namespaces node0 and node1, a cable (veth) between them, and the
# soft RDMA devices of each.  node0 is the namespace that this script runs in.  Sourced by job.sh.
#
# LAB_NODES    1 or 2; with 1 the cable's other end lies in a namespace called `wire`
# LAB_DEVICES  words out of: rxe siw
# LAB_RATE LAB_DELAY LAB_LOSS  netem's rate, delay and loss on both ends, each may be empty

must() { "$@" || { echo "lab: failed: $*" >&2; return 1; }; }

inside() { node=$1; shift; nsenter --net=/run/netns/"$node" "$@"; }

address() {  # address NAMESPACE DEVICE NUMBER
    must ip -n "$1" link set lo up
    must ip -n "$1" link set "$2" up
    must ip -n "$1" addr add 10.77.0."$3"/24 dev "$2"
    must ip -n "$1" addr add fd77::"$3"/64 dev "$2" nodad
    # No pause for duplicate detection on a cable with two ends.
    local=$(ip -n "$1" -o -6 addr show dev "$2" scope link | sed -n 's/.*inet6 \([^ ]*\) .*/\1/p')
    if [ -n "$local" ]; then
        ip -n "$1" addr del "$local" dev "$2" && ip -n "$1" addr add "$local" dev "$2" nodad
    fi
}

shape() {  # shape NAMESPACE DEVICE
    words="${LAB_RATE:+rate $LAB_RATE }${LAB_DELAY:+delay $LAB_DELAY }${LAB_LOSS:+loss $LAB_LOSS }"
    # shellcheck disable=SC2086  # a list of words
    [ -z "$words" ] || must tc -n "$1" qdisc add dev "$2" root netem $words limit 20000
}

set_up_nodes() {
    far=node1
    [ "${LAB_NODES:-2}" = 2 ] || far=wire
    mkdir -p /run/netns
    must ip netns attach node0 $$ || return 1
    must ip netns add $far || return 1
    # Room for a 4096-byte path MTU and the headers of RoCE.
    must ip link add v0 mtu 4200 type veth peer name v1 mtu 4200 netns $far || return 1
    address node0 v0 1 || return 1
    address $far v1 2 || return 1
    shape node0 v0 || return 1
    shape $far v1 || return 1
    for kind in $LAB_DEVICES; do
        must rdma link add ${kind}0 type "$kind" netdev v0 || return 1
        [ $far = wire ] || must inside $far rdma link add ${kind}1 type "$kind" netdev v1 || return 1
    done
}
