//! A TrainJob of Kubeflow Trainer (v1alpha1). The runtime `torch-distributed` sets the variables of torchrun (`PET_*`) in
//! each pod; torchrun starts the ranks.

use serde_json::{Value, json};

use super::kind::{ObjectKind, StepPods};
use super::pod;

pub(super) const KIND: ObjectKind =
    ObjectKind { target: "trainjob", resource: "trainjob", suspend: &["spec", "suspend"], files: &[], objects };

/// What runtimes of Kubeflow Trainer call the job and the container of ranks.
const NODE: &str = "node";

fn objects(pods: &StepPods<'_>) -> Vec<Value> {
    let host = format!("{name}-{NODE}-0-0.{name}", name = pods.name);
    let mut spec = json!({
        "runtimeRef": {
            "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "torch-distributed"
        },
        "trainer": {
            "image": pods.image,
            "command": pods.command_after(&["torchrun", "--no-python"]),
            "env": pod::environment(pods, &host),
            "numNodes": pods.job.nodes,
            "numProcPerNode": pods.job.per_node(),
            "resourcesPerNode": pod::resources(pods),
        },
        "runtimePatches": [patch(pods)],
    });
    if let Some(limit) = pods.limit {
        spec["activeDeadlineSeconds"] = limit.into();
    }
    vec![json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": pods.metadata, "spec": spec
    })]
}

/// What a TrainJob cannot set directly: user, volumes, and a root file system that cannot be written to.
fn patch(pods: &StepPods<'_>) -> Value {
    let container =
        json!({"name": NODE, "securityContext": pod::container_security(), "volumeMounts": pod::mounts(pods)});
    let pod = json!({
        "securityContext": pod::security(), "containers": [container], "volumes": pod::volumes(pods)
    });
    let jobs = json!([{"name": NODE, "template": {"spec": {"template": {"spec": pod}}}}]);
    // Each author of patches has one entry, under a name with a slash.
    json!({"manager": "rankmark/gen-job", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}})
}
