#!/bin/sh
# The first process of namespaces of its own: a Slurm cluster of one machine, then the command that is given. When it
# ends, the kernel ends whatever is left in them. Usage: cluster.sh FOLDER COMMAND...
set -eu
umask 077
root=$1
shift

# Slurm wants an address other than that of loopback, and a name for it.
ip link set lo up
ip address add 10.0.0.1/32 dev lo
hostname one
printf '127.0.0.1 localhost\n10.0.0.1 one\n' >"$root/hosts"
mount --bind "$root/hosts" /etc/hosts

mkdir "$root/state" "$root/spool"
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
SlurmdSpoolDir=$root/spool
SlurmctldPidFile=$root/slurmctld.pid
SlurmdPidFile=$root/slurmd.pid
SlurmctldLogFile=$root/slurmctld.log
SlurmdLogFile=$root/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=5
NodeName=one NodeAddr=10.0.0.1 CPUs=$(nproc --all) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF="$root/slurm.conf"

munged --socket="$root/munge.socket" --key-file="$root/munge.key" --pid-file="$root/munged.pid" \
    --log-file="$root/munged.log" --seed-file="$root/munged.seed" --num-threads=2 --force 2>/dev/null
slurmctld
slurmd -N one
looks=0
until sinfo --noheader --format=%T 2>/dev/null | grep -q '^idle'; do
    looks=$((looks + 1))
    [ "$looks" -lt 400 ] || { tail -n 20 "$root/slurmctld.log" "$root/slurmd.log" >&2; exit 99; }
    sleep 0.05
done
# Not exec: a first process adopts those that outlive their parents.
"$@"
