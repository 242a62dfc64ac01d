#!/bin/sh
# The first process of namespaces of its own: a Slurm cluster, then the command that is given. When it ends, the kernel
# ends whatever is left in them. Usage: cluster.sh FOLDER NODES COMMAND... with 1 node, or 2; the second has a name
# and a network of its own.
set -eu
umask 077
root=$1
nodes=$2
shift 2

# Slurm wants an address other than that of loopback, and a name for it.
ip link set lo up
ip address add 10.0.0.1/32 dev lo
hostname one
printf '127.0.0.1 localhost\n10.0.0.1 one\n10.0.0.2 two\n' >"$root/hosts"
mount --bind "$root/hosts" /etc/hosts

mkdir "$root/state" "$root/spool" "$root/tmp-one" "$root/tmp-two"
if [ "$nodes" = 2 ]; then
    cat >"$root/second.sh" <<END
hostname two
ip link set lo up
ip address add 10.0.0.2/32 dev lo
until ip link show eth0 2>/dev/null | grep -q eth0; do sleep 0.02; done
ip address add 10.1.0.2/24 dev eth0
ip link set eth0 up
ip route add 10.0.0.1 via 10.1.0.1
until [ -e "$root/go" ]; do sleep 0.02; done
SLURM_CONF=$root/slurm.conf exec slurmd -N two
END
    unshare --net --uts sh "$root/second.sh" &
    second=$!
    while [ "$(readlink /proc/$second/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
    ip link add eth0 type veth peer name eth0 netns "$second"
    ip address add 10.1.0.1/24 dev eth0
    ip link set eth0 up
    ip route add 10.0.0.2 via 10.1.0.2
fi
head -c 128 /dev/urandom >"$root/munge.key"
cat >"$root/slurm.conf" <<END
ClusterName=rankmark
SlurmctldHost=one(10.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$root/munge.socket
CredType=cred/munge
StateSaveLocation=$root/state
SlurmdSpoolDir=$root/spool/%n
TmpFS=$root/tmp-%n
SlurmctldPidFile=$root/slurmctld.pid
SlurmdPidFile=$root/slurmd-%n.pid
SlurmctldLogFile=$root/slurmctld.log
SlurmdLogFile=$root/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
${RANKMARK_TEST_PROLOG:+Prolog=$RANKMARK_TEST_PROLOG}
MpiDefault=none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=5
NodeName=one NodeAddr=10.0.0.1 CPUs=$(nproc --all) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
if [ "$nodes" = 2 ]; then
    echo "NodeName=two NodeAddr=10.0.0.2 CPUs=$(nproc --all) State=UNKNOWN" >>"$root/slurm.conf"
fi
export SLURM_CONF="$root/slurm.conf"

munged --socket="$root/munge.socket" --key-file="$root/munge.key" --pid-file="$root/munged.pid" \
    --log-file="$root/munged.log" --seed-file="$root/munged.seed" --num-threads=2 --force 2>/dev/null
slurmctld
slurmd -N one
: >"$root/go"
looks=0
until [ "$(sinfo --noheader --states=idle --format=%D 2>/dev/null)" = "$nodes" ]; do
    looks=$((looks + 1))
    [ "$looks" -lt 400 ] || { tail -n 20 "$root"/slurm*.log >&2; exit 99; }
    sleep 0.05
done
# A process of the second node, by which others enter its namespaces.
[ "$nodes" = 1 ] || RANKMARK_SECOND=$(cat "$root/slurmd-two.pid")
export RANKMARK_SECOND="${RANKMARK_SECOND:-}"
# Not exec: a first process adopts those that outlive their parents.
"$@"
