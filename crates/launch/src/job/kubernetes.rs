//! Objects for kubectl: the plan as a ConfigMap, a headless Service by which pods find the first, and an indexed Job.
//!
//! Each object is JSON, which is YAML, too; between them stand YAML's separators and comments, which JSON has not.
//!
//! The secret that pods share is no part of the file: files are kept, copied and committed. The file says which Secret it
//! wants and how one is made without anybody seeing the content.

use serde_json::{Value, json};
use terms::Error;

use super::shell::comments;
use super::{CLAIM, IMAGE, Job, NAMESPACE, SECRET, TIME, is_label, time, unfit};
use crate::rank::{COORDINATOR, LOCAL_WORLD_SIZE, SECRET_FILE, WORLD_SIZE};

/// Where the coordinator listens in its pod.
const PORT: u16 = 29_400;
/// A ConfigMap holds no more than 1 MiB, names and all.
const LONGEST_PLAN: usize = 1_000_000;

pub(super) fn text(job: &Job) -> Result<String, Error> {
    let name = job.name()?;
    let image = job.option(&IMAGE).filter(|image| !image.is_empty());
    let image = image.ok_or_else(|| {
        Error::new("a Job needs a container image, with this program in it")
            .hint("--image registry.example/rankmark:0.1")
    })?;
    if job.plan_text.len() > LONGEST_PLAN {
        let what = format!("the plan has {} bytes, and a ConfigMap holds {LONGEST_PLAN}", job.plan_text.len());
        return Err(Error::new(what).hint("cut it into several plans"));
    }
    let secret = label(job, &SECRET)?.unwrap_or_else(|| format!("{name}-secret"));
    let place = label(job, &NAMESPACE)?;
    let mut text = "# Submit with `kubectl apply -f FILE`; made by `rankmark gen-job --for kubernetes`.\n".to_owned();
    text.push_str(&comments(&job.notes));
    let several = job.ranks > 1;
    if several {
        let space = place.as_ref().map_or_else(String::new, |place| format!(" --namespace {place}"));
        text.push_str(&format!(
            "# Its pods share a secret that is not in this file. Make it once, so that nobody sees it:\n\
             #   head -c 32 /dev/urandom | base64 | kubectl create secret generic{space} {secret} --from-file=secret=/dev/stdin\n"
        ));
    }
    let mut metadata = json!({"name": name});
    if let Some(place) = place {
        metadata["namespace"] = place.into();
    }
    let data = json!({"plan.yaml": job.plan_text});
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})];
    if several {
        let ports = json!([{"name": "coordinator", "port": PORT}]);
        let spec = json!({
            "clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"job-name": name}, "ports": ports
        });
        objects.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}));
    }
    let spec = specification(job, &name, image, &secret)?;
    objects.push(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}));
    objects.iter().for_each(|object| text.push_str(&document(object)));
    Ok(text)
}

/// The Job's `spec`.
fn specification(job: &Job, name: &str, image: &str, secret: &str) -> Result<Value, Error> {
    // A pod that ended took its part of the run with it: none is started again.
    let mut spec = json!({"backoffLimit": 0});
    let mut pod = json!({"restartPolicy": "Never", "automountServiceAccountToken": false});
    let mut volumes = vec![json!({"name": "plan", "configMap": {"name": name}})];
    if job.ranks > 1 {
        spec["completionMode"] = "Indexed".into();
        spec["completions"] = job.ranks.into();
        spec["parallelism"] = job.ranks.into();
        // With it each pod has a name: JOB-INDEX.SERVICE.
        pod["subdomain"] = name.into();
        volumes.push(json!({"name": "secret", "secret": {"secretName": secret, "defaultMode": 0o400}}));
    }
    if let Some(limit) = job.option(&TIME) {
        let hint = "30 (minutes), 1:30:00, 2-12";
        let seconds = time::seconds(limit).ok_or_else(|| Error::new(unfit(&TIME, limit)).hint(hint))?;
        spec["activeDeadlineSeconds"] = seconds.into();
    }
    volumes.push(match label(job, &CLAIM)? {
        Some(claim) => json!({"name": "results", "persistentVolumeClaim": {"claimName": claim}}),
        None => json!({"name": "results", "emptyDir": {}}),
    });
    pod["containers"] = json!([container(job, name, image)]);
    pod["volumes"] = volumes.into();
    spec["template"] = json!({"spec": pod});
    Ok(spec)
}

fn container(job: &Job, name: &str, image: &str) -> Value {
    let record = job.record.clone().unwrap_or_else(|| format!("/results/{name}"));
    let command = json!([job.program, "run", "/etc/rankmark/plan/plan.yaml", format!("--output-dir={record}")]);
    let mut container = json!({"name": "rank", "image": image, "command": command});
    let mut mounts = vec![json!({"name": "plan", "mountPath": "/etc/rankmark/plan"})];
    if job.ranks > 1 {
        container["env"] = json!([
            {"name": WORLD_SIZE, "value": job.ranks.to_string()},
            {"name": LOCAL_WORLD_SIZE, "value": "1"},
            {"name": COORDINATOR, "value": format!("{name}-0.{name}:{PORT}")},
            {"name": SECRET_FILE, "value": "/etc/rankmark/secret/secret"},
        ]);
        mounts.push(json!({"name": "secret", "mountPath": "/etc/rankmark/secret"}));
    }
    let cores = json!({"cpu": job.cores.to_string()});
    container["resources"] = json!({"requests": cores, "limits": cores});
    mounts.push(json!({"name": "results", "mountPath": "/results"}));
    container["volumeMounts"] = mounts.into();
    container
}

/// A name of an object, where one is given.
fn label(job: &Job, choice: &super::Choice) -> Result<Option<String>, Error> {
    let Some(value) = job.option(choice) else { return Ok(None) };
    let fine = is_label(value) && value.len() <= 63;
    let hint = "lower-case letters, digits and hyphens, beginning with a letter, at most 63";
    if fine { Ok(Some(value.to_owned())) } else { Err(Error::new(unfit(choice, value)).hint(hint)) }
}

/// One document of the file. What YAML does not take as it is (YAML 1.2, 5.1) is escaped, which JSON allows anywhere in a
/// string; such letters stand nowhere else.
fn document(object: &Value) -> String {
    let mut text = "---\n".to_owned();
    for letter in format!("{object:#}\n").chars() {
        match letter {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => text.push(letter),
        }
    }
    text
}
