//! An indexed Job: a pod for each rank, and a headless Service by which pods find the first. A plain Job for one process.

use serde_json::{Value, json};

use super::kind::{ObjectKind, StepPods};
use super::{fleet, pod};
use crate::rank::{LOCAL_WORLD_SIZE, WORLD_SIZE};

pub(super) const KIND: ObjectKind =
    ObjectKind { target: "kubernetes", resource: "job", suspend: &["spec", "suspend"], files: &[], objects };

fn objects(pods: &StepPods<'_>) -> Vec<Value> {
    let mut objects = Vec::new();
    let mut template = pod::spec(pods, pod::container(pods, "rank", pods.command.clone(), environment(pods)));
    template["restartPolicy"] = "Never".into();
    if pods.job.is_fleet {
        template["affinity"] = fleet::apart(pods);
    }
    // A pod that ended took its part of the run with it: none is started again. The ranks of a plan need each other, so the
    // first pod that fails ends the Job. A fleet goes on without a node that is lost, and the log of its first pod has the
    // record, so there a pod that fails ends alone (a beta in Kubernetes 1.29, stable in 1.33).
    let limit = if pods.job.is_fleet { "backoffLimitPerIndex" } else { "backoffLimit" };
    let mut spec = json!({(limit): 0});
    if pods.several() {
        spec["completionMode"] = "Indexed".into();
        spec["completions"] = pods.job.ranks.into();
        spec["parallelism"] = pods.job.ranks.into();
        // With it each pod has a name: JOB-INDEX.SERVICE.
        template["subdomain"] = pods.name.clone().into();
        objects.push(service(pods));
    }
    if let Some(limit) = pods.limit {
        spec["activeDeadlineSeconds"] = limit.into();
    }
    spec["template"] = json!({"spec": template});
    objects.push(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": pods.metadata, "spec": spec}));
    objects
}

fn service(pods: &StepPods<'_>) -> Value {
    let ports = json!([{"name": "coordinator", "port": pod::PORT}]);
    let selector = json!({"job-name": pods.name});
    let spec = json!({"clusterIP": "None", "publishNotReadyAddresses": true, "selector": selector, "ports": ports});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": pods.metadata, "spec": spec})
}

/// Kubernetes tells a pod its index, but not the number of pods.
fn environment(pods: &StepPods<'_>) -> Vec<Value> {
    let mut variables = pod::environment(pods, &format!("{name}-0.{name}", name = pods.name));
    if pods.several() {
        variables.push(json!({"name": WORLD_SIZE, "value": pods.job.ranks.to_string()}));
        variables.push(json!({"name": LOCAL_WORLD_SIZE, "value": "1"}));
    }
    variables
}
