//! A PyTorchJob of Kubeflow's training operator (v1). It sets the variables of torchrun (`PET_*`) in each pod, and makes a
//! Service for each; torchrun starts the ranks.

use serde_json::{Value, json};

use super::kind::{ObjectKind, StepPods};
use super::pod;

pub(super) const KIND: ObjectKind = ObjectKind {
    target: "pytorchjob",
    resource: "pytorchjob",
    suspend: &["spec", "runPolicy", "suspend"],
    files: &[],
    objects,
};

fn objects(pods: &StepPods<'_>) -> Vec<Value> {
    let nodes = pods.job.nodes;
    let mut replicas = json!({"Master": replicas(pods, 1)});
    if nodes > 1 {
        replicas["Worker"] = self::replicas(pods, nodes - 1);
    }
    let mut policy = json!({"backoffLimit": 0, "cleanPodPolicy": "Running"});
    if let Some(limit) = pods.limit {
        policy["activeDeadlineSeconds"] = limit.into();
    }
    let spec = json!({
        "runPolicy": policy,
        "nprocPerNode": pods.job.per_node().to_string(),
        "pytorchReplicaSpecs": replicas,
    });
    vec![json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": pods.metadata, "spec": spec})]
}

/// The operator looks for a container of this name.
fn replicas(pods: &StepPods<'_>, count: u32) -> Value {
    let environment = pod::environment(pods, &format!("{}-master-0", pods.name));
    let container = pod::container(pods, "pytorch", pods.command_after(&["torchrun", "--no-python"]), environment);
    json!({"replicas": count, "restartPolicy": "Never", "template": {"spec": pod::spec(pods, container)}})
}
