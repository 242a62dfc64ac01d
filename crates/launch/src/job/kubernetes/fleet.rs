//! `rankmark fleet` in an indexed Job: one pod on each node, and the record of the first in its log, because pods share no folder.

use serde_json::{Value, json};

use super::super::shell::quoted;
use super::kind::StepPods;
use super::within;

/// The script that each pod runs, in the ConfigMap.
pub(super) const FILE: &str = "fleet.sh";
const PATH: &str = "/etc/rankmark/plan/fleet.sh";
/// Lines around the record in the log.
const MARKS: [&str; 2] = ["-----BEGIN RANKMARK RECORD-----", "-----END RANKMARK RECORD-----"];

/// What a pod runs in place of a plan.
pub(super) fn command() -> Vec<String> {
    ["/bin/sh", PATH].map(str::to_owned).to_vec()
}

/// The script. A shell that is the first process of a container ignores SIGTERM unless it says what to do: what was measured by
/// then is printed, too. Nothing may come between the lines of the record. The verdict is the code of the first pod alone.
pub(super) fn script(program: &str, record: &str) -> String {
    let (program, [begin, end]) = (quoted(program), MARKS);
    let (record, folder) = (quoted(&format!("--output-dir={record}")), quoted(record));
    format!(
        "#!/bin/sh\n\
         # Measures the nodes. Then pod 0 prints its record: no folder is shared, and its own ends with it.\n\
         code=0\n\
         {program} fleet {record} & fleet=$!\n\
         # Of a job that is ended, what was measured is printed, too.\n\
         trap 'kill \"$fleet\"; wait \"$fleet\"' TERM\n\
         wait \"$fleet\" || code=$?\n\
         trap '' TERM\n\
         [ \"${{JOB_COMPLETION_INDEX:-0}}\" = 0 ] || exit 0\n\
         if [ -e {folder} ]; then\n    \
             {program} pack {folder} --output /tmp/record.tar.gz >/dev/null && {{\n        \
                 echo {begin}\n        base64 /tmp/record.tar.gz\n        echo {end}\n    }}\n\
         fi\n\
         exit \"$code\"\n"
    )
}

/// For the head of the file: the oldest Kubernetes that it is for, and how to get the record.
pub(super) fn head(namespace: Option<&str>, name: &str) -> String {
    let (namespace, [begin, end]) = (within(namespace), MARKS);
    format!(
        "# It needs Kubernetes 1.29 or later: there a pod that fails does not end the others.\n\
         # When it has ended, the log of pod 0 has the verdict and the record:\n\
         #   kubectl logs{namespace} --tail=-1 --selector batch.kubernetes.io/job-name={name},\
         batch.kubernetes.io/job-completion-index=0 |\n\
         #     sed -n '/^{begin}$/,/^{end}$/p' | sed '1d;$d' | base64 -d > fleet.tar.gz\n\
         #   rankmark fleet fleet.tar.gz\n"
    )
}

/// Each pod on a node of its own.
pub(super) fn apart(pods: &StepPods<'_>) -> Value {
    let selector = json!({"matchLabels": {"job-name": pods.name}});
    let term = json!({"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"});
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}
