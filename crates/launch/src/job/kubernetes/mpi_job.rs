//! An MPIJob of Kubeflow's MPI operator (v2beta1). It mounts a key in all pods and lists the workers in a file; Open MPI's
//! mpirun starts the ranks there through ssh.
//!
//! The files for ssh are in the ConfigMap, so an image needs only mpirun, ssh and sshd, and a user who is not root.

use serde_json::{Value, json};

use super::kind::{ObjectKind, StepPods};
use super::pod;
use crate::rank::{COORDINATOR, SECRET_FILE};

pub(super) const KIND: ObjectKind = ObjectKind {
    target: "mpijob",
    resource: "mpijob",
    suspend: &["spec", "runPolicy", "suspend"],
    files: &[("ssh", SSH), ("ssh_config", CLIENT), ("known_hosts", KNOWN_HOSTS), ("sshd_config", SERVER)],
    objects,
};

/// Where the operator mounts the key of the job.
const KEYS: &str = "/etc/rankmark/ssh";
/// Where the operator lists workers and their slots.
const HOSTS: &str = "/etc/mpi/hostfile";

/// What mpirun calls as ssh: a setting can name a program, but not always its arguments.
const SSH: &str = "#!/bin/sh\nexec ssh -F /etc/rankmark/plan/ssh_config \"$@\"\n";
/// The operator makes one key for all pods of a job, so each of them is known by it.
const CLIENT: &str = "\
Port 2222
IdentityFile /etc/rankmark/ssh/id_rsa
StrictHostKeyChecking yes
UserKnownHostsFile /dev/null
GlobalKnownHostsFile /dev/null
KnownHostsCommand /etc/rankmark/plan/known_hosts
LogLevel ERROR
";
/// Prints the lines of a file of known hosts, which the operator does not write.
const KNOWN_HOSTS: &str = "#!/bin/sh\necho \"* $(cat /etc/rankmark/ssh/id_rsa.pub)\"\n";
/// A port above 1023 and no file of its own: sshd runs as a plain user. Kubernetes mounts keys as links, which StrictModes
/// refuses.
const SERVER: &str = "\
Port 2222
HostKey /etc/rankmark/ssh/id_rsa
AuthorizedKeysFile /etc/rankmark/ssh/authorized_keys
StrictModes no
PidFile none
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
";
/// Ranks get the search paths of the container, which ssh does not pass on.
const WORKER: &str = "exec /usr/sbin/sshd -D -e -f /etc/rankmark/plan/sshd_config \
                      -o \"SetEnv=PATH=$PATH LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}\"";

/// Processes join by MPI once: cases of several such worlds need as many mpirun, and the last one has the code of all. A shell that
/// is the first process of a container ignores SIGTERM unless it says what to do.
const END: &str = "trap 'kill \"$mpirun\"; wait \"$mpirun\"; exit 143' TERM\n";

fn objects(pods: &StepPods<'_>) -> Vec<Value> {
    let mut policy = json!({"backoffLimit": 0, "cleanPodPolicy": "Running"});
    if let Some(limit) = pods.limit {
        policy["activeDeadlineSeconds"] = limit.into();
    }
    let spec = json!({
        "slotsPerWorker": pods.job.per_node(),
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": KEYS,
        // mpirun fails if it starts before a worker.
        "launcherCreationPolicy": "WaitForWorkersReady",
        "runPolicy": policy,
        "mpiReplicaSpecs": {
            "Launcher": replicas(1, pod::spec(pods, launcher(pods))),
            "Worker": replicas(pods.job.nodes, pod::spec(pods, worker(pods))),
        },
    });
    vec![json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": pods.metadata, "spec": spec})]
}

fn replicas(count: u32, pod: Value) -> Value {
    json!({"replicas": count, "restartPolicy": "Never", "template": {"spec": pod}})
}

fn worker(pods: &StepPods<'_>) -> Value {
    let command = ["/bin/sh", "-c", WORKER].map(str::to_owned).to_vec();
    let mut container = pod::container(pods, "worker", command, pod::environment(pods, &host(pods)));
    container["ports"] = json!([{"name": "ssh", "containerPort": 2222}]);
    container
}

/// The launcher's part of the job. It runs no rank, so it needs one core and no GPU.
fn launcher(pods: &StepPods<'_>) -> Value {
    let mut environment = pod::environment(pods, &host(pods));
    // Open MPI before version 5 reads the first, and later ones the second.
    for name in ["OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"] {
        environment.push(json!({"name": name, "value": "/etc/rankmark/plan/ssh"}));
    }
    let mut container = pod::container(pods, "launcher", mpirun(pods), environment);
    let one = json!({"cpu": "1", "memory": "1Gi"});
    container["resources"] = json!({"requests": one, "limits": one});
    container
}

fn mpirun(pods: &StepPods<'_>) -> Vec<String> {
    let (ranks, spread) = (pods.job.ranks.to_string(), format!("ppr:{}:node", pods.job.per_node()));
    // Ranks are bound by the program itself, as the plan says.
    let mut words = vec!["mpirun", "-n", &ranks, "--hostfile", HOSTS, "--map-by", &spread, "--bind-to", "none"];
    words.extend(["-x", "HOME"]);
    if pods.several() {
        words.extend(["-x", COORDINATOR, "-x", SECRET_FILE]);
    }
    let mut command = pods.command_after(&words);
    if pods.starts > 1 {
        let script = "\"$@\" & mpirun=$!\nwait \"$mpirun\"\n".repeat(pods.starts as usize - 1);
        let script = format!("{END}{script}exec \"$@\"\n");
        command.splice(0..0, ["/bin/sh".to_owned(), "-c".to_owned(), script, "rankmark".to_owned()]);
    }
    command
}

/// The first worker has rank 0.
fn host(pods: &StepPods<'_>) -> String {
    format!("{name}-worker-0.{name}", name = pods.name)
}
