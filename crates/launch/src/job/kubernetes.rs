//! Objects for kubectl: the plan as a ConfigMap, a headless Service by which pods find the first, and an indexed Job.
//!
//! Each object is JSON, which is YAML, too; between them stand YAML's separators and comments, which JSON has not.
//!
//! The secret that pods share is not part of the file: files are kept, copied and committed. The file says which Secret it
//! wants and how one is made without anybody seeing the content.

use serde_json::{Value, json};
use terms::Error;

use super::description::{CLAIM, IMAGE, Job, LONGEST_NAME, NAMESPACE, SECRET, TIME, is_label, unfit};
use super::shell::comments;
use super::time;
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
    if job.ranks > 1 {
        let space = place.as_ref().map_or_else(String::new, |place| format!(" --namespace {place}"));
        text.push_str(&format!(
            "# Its pods share a secret that is not in this file. Make it once, so that nobody sees it:\n\
             #   head -c 32 /dev/urandom | base64 | kubectl create secret generic{space} {secret} --from-file=secret=/dev/stdin\n"
        ));
    }
    let metadata = |name: &str| match &place {
        Some(place) => json!({"name": name, "namespace": place}),
        None => json!({"name": name}),
    };
    let data = json!({"plan.yaml": job.plan_text});
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(&name), "data": data})];
    if job.steps.is_empty() {
        objects.extend(started(job, &Names { plan: &name, own: &name, image, secret: &secret }, metadata(&name))?);
    }
    for (place, step) in job.steps.iter().enumerate() {
        let own = step_name(&name, step.ranks);
        let one = Job { ranks: step.ranks, nodes: step.nodes, cores: step.cores, ..job.clone() };
        let mut step = started(&one, &Names { plan: &name, own: &own, image, secret: &secret }, metadata(&own))?;
        if place > 0 {
            text.push_str(&format!(
                "# When the Job before it has ended:  kubectl patch job {own} --type merge -p '{{\"spec\": {{\"suspend\": false}}}}'\n"
            ));
            if let Some(job) = step.last_mut() {
                job["spec"]["suspend"] = true.into();
            }
        }
        objects.extend(step);
    }
    objects.iter().for_each(|object| text.push_str(&document(object)));
    Ok(text)
}

/// What an object is called and refers to.
struct Names<'n> {
    /// The ConfigMap with the plan.
    plan: &'n str,
    /// The Job, and its Service.
    own: &'n str,
    image: &'n str,
    secret: &'n str,
}

/// A pod's name is this, `-` and its index, and a name has at most 63 letters.
fn step_name(name: &str, ranks: u32) -> String {
    let suffix = format!("-ranks-{ranks}");
    let kept = &name[..name.len().min(LONGEST_NAME - suffix.len())];
    format!("{}{suffix}", kept.trim_end_matches('-'))
}

/// A Job, behind the Service by which several pods find the first.
fn started(job: &Job, names: &Names<'_>, metadata: Value) -> Result<Vec<Value>, Error> {
    let mut objects = Vec::new();
    if job.ranks > 1 {
        let ports = json!([{"name": "coordinator", "port": PORT}]);
        let spec = json!({
            "clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"job-name": names.own}, "ports": ports
        });
        objects.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}));
    }
    let spec = specification(job, names)?;
    objects.push(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}));
    Ok(objects)
}

/// The Job's `spec`.
fn specification(job: &Job, names: &Names<'_>) -> Result<Value, Error> {
    // A pod that ended took its part of the run with it: none is started again.
    let mut spec = json!({"backoffLimit": 0});
    let mut pod = json!({"restartPolicy": "Never", "automountServiceAccountToken": false});
    let mut volumes = vec![json!({"name": "plan", "configMap": {"name": names.plan}})];
    if job.ranks > 1 {
        spec["completionMode"] = "Indexed".into();
        spec["completions"] = job.ranks.into();
        spec["parallelism"] = job.ranks.into();
        // With it each pod has a name: JOB-INDEX.SERVICE.
        pod["subdomain"] = names.own.into();
        volumes.push(json!({"name": "secret", "secret": {"secretName": names.secret, "defaultMode": 0o400}}));
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
    pod["containers"] = json!([container(job, names.own, names.image)]);
    pod["volumes"] = volumes.into();
    spec["template"] = json!({"spec": pod});
    Ok(spec)
}

fn container(job: &Job, name: &str, image: &str) -> Value {
    let record = match &job.record {
        Some(record) if !job.steps.is_empty() => format!("{record}/ranks-{}", job.ranks),
        Some(record) => record.clone(),
        None => format!("/results/{name}"),
    };
    let mut command = json!([job.program, "run", "/etc/rankmark/plan/plan.yaml", format!("--output-dir={record}")]);
    if let (false, Some(words)) = (job.steps.is_empty(), command.as_array_mut()) {
        words.push(format!("--only-ranks={}", job.ranks).into());
    }
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
