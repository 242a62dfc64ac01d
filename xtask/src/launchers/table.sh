#!/bin/sh
# Runs each line of a file of cells on the first node of a cluster of two (cluster.sh), in a folder of its own each:
# NAME<tab>LAUNCHER<tab>ARGUMENTS; the cell `X-resume` has the record of `X-plan`. What it said is in FOLDER/NAME.out and .err, its code in .code.
# Usage: table.sh FOLDER CELLS, with `rankmark` and RANKMARK_SECOND (the process of the second node) in the environment.
set -u
folder=$1
cells=$2
tab=$(printf '\t')

# What stands in for ssh to the second node, as `agent [OPTIONS] HOST COMMAND`.
cat >"$folder/agent" <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
if [ "\$host" = one ]; then exec sh -c "\$*"; fi
exec nsenter --target $RANKMARK_SECOND --net --uts sh -c "\$*"
END
chmod +x "$folder/agent"
export agent="$folder/agent"

while IFS="$tab" read -r name launcher arguments; do
    # Of an earlier try that was ended.
    [ ! -s "$folder/$name.code" ] || continue
    mkdir -p "$folder/$name"
    cd "$folder/$name" || exit 1
    case $name in *-resume) cp -r "../${name%-resume}-plan/r" r ;; esac
    # shellcheck disable=SC2086 # words of a line
    eval "timeout --kill-after=10 ${limit:-120} $launcher $arguments" >"../$name.out" 2>"../$name.err" </dev/null
    echo $? >"../$name.code"
done <"$cells"
