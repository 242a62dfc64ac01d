#!/bin/sh
# A node check that fits Slurm's Prolog: it ends within a bound, starts no Slurm command, and leaves nothing behind. Slurm drains
# a node whose Prolog fails, and queues the job again. For nodes that jobs do not share.
#
#   slurm.conf:  Prolog=/etc/rankmark/node-check.sh
#                PrologFlags=Alloc                # when nodes are allocated, and not only before a step's first process
#                PrologEpilogTimeout=60           # above RANKMARK_LIMIT
#
# To judge a node by others of its kind, measure five or more nodes once (not with srun, which would join them to one run), and
# put the fleet.json beside this script:
#
#   pdsh -w node[01-64] 'rankmark run /etc/rankmark/node-check.yaml --quiet --output-dir /shared/nodes/$(hostname)'
#   rankmark fleet /shared/nodes --output-dir /shared/fleet && cp /shared/fleet/fleet.json /etc/rankmark/
#
# Exit codes: 0 the job may start; 1 the node is bad: a wrong result, a failed case, a missed gate, slow by fleet.json, or not
# ready in time; 2 no verdict, and RANKMARK_STRICT is 1. Without it, a check that is not possible lets the job start.
set -u
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export PATH

here=$(cd "$(dirname "$0")" && pwd)
rankmark=${RANKMARK:-rankmark}
plan=${RANKMARK_PLAN:-$here/node-check.yaml}
criteria=${RANKMARK_CRITERIA:-$here/fleet.json}
# Seconds for everything.
limit=${RANKMARK_LIMIT:-45}

say() {
    echo "rankmark node check: $*" >&2
    if command -v logger >/dev/null 2>&1; then logger -t rankmark-node-check -- "$*" 2>/dev/null || :; fi
}

bad() {
    say "bad: $*"
    exit 1
}

no_verdict() {
    say "no verdict: $*"
    if [ "${RANKMARK_STRICT:-0}" = 1 ]; then exit 2; fi
    exit 0
}

command -v "$rankmark" >/dev/null 2>&1 || no_verdict "$rankmark is not installed"
folder=$(mktemp -d) || no_verdict "no temporary folder"
trap 'rm -rf "$folder"' EXIT
begin=$(date +%s)

# The program ends its ranks at TERM. KILL is for a program that no longer answers.
timeout -k 5 "$limit" "$rankmark" run "$plan" --quiet --output-dir "$folder/run" 2>"$folder/said"
code=$?
case $code in
0) ;;
124 | 137) bad "not ready within $limit s" ;;
1) bad "a case failed, is wrong or missed its gate: $(tail -n 3 "$folder/said" | tr '\n' ' ')" ;;
*) no_verdict "rankmark run ended with $code: $(tail -n 3 "$folder/said" | tr '\n' ' ')" ;;
esac
if [ ! -f "$criteria" ]; then
    say "good: results are right, and gates hold"
    exit 0
fi

rest=$((limit - ($(date +%s) - begin)))
if [ "$rest" -lt 1 ]; then rest=1; fi
timeout -k 5 "$rest" "$rankmark" fleet --criteria "$criteria" "$folder/run" --output-dir "$folder/fleet" \
    >"$folder/said" 2>&1
code=$?
case $code in
0) say "good: as fast as the nodes of $criteria" ;;
1) bad "slow: $(tr '\n' ' ' <"$folder/said")" ;;
124 | 137) bad "not ready within $limit s" ;;
*) no_verdict "rankmark fleet ended with $code: $(tail -n 3 "$folder/said" | tr '\n' ' ')" ;;
esac
