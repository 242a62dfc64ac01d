//! Kinds of objects that start ranks, and what they are made from.

use serde_json::Value;

use super::super::description::Job;

/// A kind of object that starts the ranks of a step in several pods, or several ranks in a pod.
pub(super) struct ObjectKind {
    /// The target that this kind is for, as in `--for NAME`.
    pub(super) target: &'static str,
    /// Name of the kind for kubectl.
    pub(super) resource: &'static str,
    /// Where in it `suspend` stands.
    pub(super) suspend: &'static [&'static str],
    /// Files for the ConfigMap, besides the plan.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// The objects of a step; the last one starts its ranks.
    pub(super) objects: fn(&StepPods<'_>) -> Vec<Value>,
}

/// The pods of a step: what they have in common, whatever kind of object starts them.
pub(super) struct StepPods<'j> {
    /// With the ranks, nodes, cores and GPUs of this step.
    pub(super) job: Job,
    /// How often its launcher starts the ranks, in one record.
    pub(super) starts: u32,
    /// The ConfigMap with the plan.
    pub(super) config: &'j str,
    /// The object that starts the ranks, and its Service.
    pub(super) name: String,
    pub(super) image: &'j str,
    /// The Secret of several pods.
    pub(super) secret: &'j str,
    /// The volume that keeps the record.
    pub(super) claim: Option<&'j str>,
    /// The resource of an RDMA device, of which each pod gets one.
    pub(super) rdma: Option<&'j str>,
    /// Seconds after which the object is ended.
    pub(super) limit: Option<u64>,
    /// Name and namespace of the object.
    pub(super) metadata: Value,
    /// The program and its arguments.
    pub(super) command: Vec<String>,
}

impl StepPods<'_> {
    /// Whether ranks are in several pods, which need an address and a secret to connect.
    pub(super) fn several(&self) -> bool {
        self.job.nodes > 1
    }

    /// The words of a command that ends with the program.
    pub(super) fn command_after(&self, words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).chain(self.command.iter().cloned()).collect()
    }
}
