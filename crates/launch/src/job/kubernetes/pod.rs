//! What every pod has: a user that is not root, a root file system that cannot be written to, volumes, and resources.

use serde_json::{Value, json};
use terms::Error;

use super::kind::StepPods;
use crate::rank::{COORDINATOR, SECRET_FILE};

/// The plan, in each container.
pub(super) const PLAN: &str = "/etc/rankmark/plan/plan.yaml";
/// The folder of records.
pub(super) const RESULTS: &str = "/results";
/// Where the coordinator listens in its pod.
pub(super) const PORT: u16 = 29_400;
/// The user and the group of the container images in `packaging/container`.
const USER: u32 = 10_001;
/// What device plugins of NVIDIA call a GPU.
const GPU: &str = "nvidia.com/gpu";

/// The folder of the record, which must be below the volume of results: nothing else can be written to and outlives a pod.
pub(super) fn in_results(record: &str) -> Result<String, Error> {
    let below = match record.strip_prefix(RESULTS) {
        Some(rest) if rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => record,
    };
    if below.is_empty() || below.starts_with('/') || below.split('/').any(|part| part == "..") {
        let what = format!("`--output-dir` does not take `{}`", record.escape_debug());
        let hint = "a name, or a path below /results: other folders of a pod cannot be written to, or end with it";
        return Err(Error::new(what).hint(hint));
    }
    Ok(format!("{RESULTS}/{below}"))
}

/// A pod of a step, with this container.
pub(super) fn spec(pods: &StepPods<'_>, container: Value) -> Value {
    json!({
        "automountServiceAccountToken": false,
        "securityContext": security(),
        "containers": [container],
        "volumes": volumes(pods),
    })
}

/// The group owns the volumes, so that this user can write results and read the secret.
pub(super) fn security() -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// No capability, for RDMA neither: programs of a user who is not root would not have it.
pub(super) fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    })
}

pub(super) fn container(pods: &StepPods<'_>, name: &str, command: Vec<String>, environment: Vec<Value>) -> Value {
    json!({
        "name": name,
        "image": pods.image,
        "command": command,
        "workingDir": RESULTS,
        "env": environment,
        "resources": resources(pods),
        "securityContext": container_security(),
        "volumeMounts": mounts(pods),
    })
}

/// The plan, the secret of several pods, the record, temporary files, and memory that ranks share. Containers have 64 MiB
/// of shared memory otherwise.
pub(super) fn volumes(pods: &StepPods<'_>) -> Vec<Value> {
    let mut volumes = vec![json!({"name": "plan", "configMap": {"name": pods.config, "defaultMode": 0o555}})];
    if pods.several() {
        volumes.push(json!({"name": "secret", "secret": {"secretName": pods.secret, "defaultMode": 0o400}}));
    }
    volumes.push(match pods.claim {
        Some(claim) => json!({"name": "results", "persistentVolumeClaim": {"claimName": claim}}),
        None => json!({"name": "results", "emptyDir": {}}),
    });
    volumes.push(json!({"name": "tmp", "emptyDir": {}}));
    volumes.push(json!({"name": "shared-memory", "emptyDir": {"medium": "Memory"}}));
    volumes
}

pub(super) fn mounts(pods: &StepPods<'_>) -> Vec<Value> {
    let mut mounts = vec![json!({"name": "plan", "mountPath": "/etc/rankmark/plan", "readOnly": true})];
    if pods.several() {
        mounts.push(json!({"name": "secret", "mountPath": "/etc/rankmark/secret", "readOnly": true}));
    }
    mounts.push(json!({"name": "results", "mountPath": RESULTS}));
    mounts.push(json!({"name": "tmp", "mountPath": "/tmp"}));
    mounts.push(json!({"name": "shared-memory", "mountPath": "/dev/shm"}));
    mounts
}

/// Caches of libraries go below HOME, and some versions of PyTorch end if the user has no name. `host` is the name of the pod of rank 0, where the coordinator listens.
pub(super) fn environment(pods: &StepPods<'_>, host: &str) -> Vec<Value> {
    let mut variables = vec![json!({"name": "HOME", "value": "/tmp"}), json!({"name": "USER", "value": "rankmark"})];
    if pods.several() {
        variables.push(json!({"name": COORDINATOR, "value": format!("{host}:{PORT}")}));
        variables.push(json!({"name": SECRET_FILE, "value": "/etc/rankmark/secret/secret"}));
    }
    variables
}

/// What the ranks in one pod need. Requests equal limits, so a node that pins pods gives this one cores of its own. A fleet
/// measures all cores of a node, so its pods have no bound.
pub(super) fn resources(pods: &StepPods<'_>) -> Value {
    let ranks = pods.job.per_node();
    let mut amounts = match pods.job.is_fleet {
        true => json!({}),
        false => json!({
            "cpu": (pods.job.cores * ranks as usize).to_string(),
            "memory": memory(pods.job.memory.saturating_mul(ranks.into())),
        }),
    };
    if pods.job.gpus > 0 {
        amounts[GPU] = (pods.job.gpus * ranks).to_string().into();
    }
    if let Some(device) = pods.rdma {
        amounts[device] = "1".into();
    }
    json!({"requests": amounts, "limits": amounts})
}

/// The memory of a pod: that of its ranks with shared memory, and of the process that starts them. Beyond it, the kernel would
/// end them.
fn memory(ranks: u64) -> String {
    const OTHERS: u64 = 1 << 30;
    let gibibytes = ranks.saturating_add(ranks / 2).saturating_add(OTHERS).div_ceil(1 << 30);
    format!("{gibibytes}Gi")
}
