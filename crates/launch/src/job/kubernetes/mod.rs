//! Objects for kubectl: the plan as a ConfigMap, and for each step of the job an object that starts its ranks.
//!
//! Each object is JSON, which is also YAML. YAML's separators and comments stand between the objects, because JSON has
//! none.
//!
//! The secret that pods share is not part of the file, because files are kept, copied and committed. The file names the
//! Secret, and says how to create it without showing its content.

mod fleet;
mod indexed_job;
mod kind;
mod mpi_job;
mod names;
mod pod;
mod pytorch_job;
mod train_job;

use serde_json::{Value, json};
use terms::Error;

use super::description::{CLAIM, IMAGE, Job, LONGEST_NAME, NAMESPACE, RDMA, RankStart, SECRET, TIME, unfit};
use super::shell::comments;
use super::time;
use kind::{ObjectKind, StepPods};

/// A ConfigMap holds at most 1 MiB, including names.
const LONGEST_PLAN: usize = 1_000_000;

/// What RDMA needs of the nodes. The capability IPC_LOCK would lift the limit for root alone: Kubernetes sets no ambient
/// capabilities (kubernetes/kubernetes#56374), so that programs of other users lose it.
const LOCKED_MEMORY: &str = "\
# RDMA locks memory, so `ulimit -l` in a pod must say `unlimited`. A pod has the limit of its node's container runtime:\n\
# LimitMEMLOCK=infinity in the [Service] of containerd or CRI-O lifts it (`systemctl edit`, and a restart of the service).\n";

/// Ranks as pods of an indexed Job, one in each.
pub(super) fn indexed_job(job: &Job) -> Result<String, Error> {
    text(job, &indexed_job::KIND)
}

/// Ranks that mpirun starts in the workers of an MPIJob.
pub(super) fn mpi_job(job: &Job) -> Result<String, Error> {
    text(job, &mpi_job::KIND)
}

/// Ranks that torchrun starts in the pods of a PyTorchJob.
pub(super) fn pytorch_job(job: &Job) -> Result<String, Error> {
    text(job, &pytorch_job::KIND)
}

/// Ranks that torchrun starts in the pods of a TrainJob.
pub(super) fn train_job(job: &Job) -> Result<String, Error> {
    text(job, &train_job::KIND)
}

fn text(job: &Job, kind: &ObjectKind) -> Result<String, Error> {
    let name = job.name()?;
    let image = job.option(&IMAGE).filter(|image| !image.is_empty()).ok_or_else(|| {
        Error::new("a Job needs a container image, with this program in it")
            .hint("--image registry.example/rankmark:0.1")
    })?;
    names::check_image(image)?;
    if job.plan_text.len() > LONGEST_PLAN {
        let what = format!("the plan has {} bytes, but a ConfigMap holds at most {LONGEST_PLAN}", job.plan_text.len());
        return Err(Error::new(what).hint("split it into several plans"));
    }
    let secret = names::subdomain(job, &SECRET)?.map_or_else(|| format!("{name}-secret"), str::to_owned);
    let namespace = names::label(job, &NAMESPACE)?;
    let claim = names::subdomain(job, &CLAIM)?;
    let rdma = names::resource(job, &RDMA)?;
    let limit = limit(job)?;
    let metadata = |name: &str| match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    };
    let pods = |step: Job, starts: u32, name: String| -> Result<StepPods<'_>, Error> {
        let command = command(&step, starts, &name)?;
        let metadata = metadata(&name);
        Ok(StepPods {
            job: step,
            starts,
            config: "",
            name,
            image,
            secret: &secret,
            claim,
            rdma,
            limit,
            metadata,
            command,
        })
    };
    let steps = match job.steps.as_slice() {
        [] => vec![pods(job.clone(), 1, name.clone())?],
        [one] => vec![pods(job.of_step(one), one.starts, name.clone())?],
        steps => {
            let of = |step: &RankStart| pods(job.of_step(step), step.starts, step_name(&name, step.ranks));
            steps.iter().map(of).collect::<Result<_, _>>()?
        }
    };
    let mut text =
        format!("# Submit with `kubectl apply -f FILE`; made by `rankmark gen-job --for {}`.\n", kind.target);
    text.push_str(&comments(&job.notes));
    if steps.iter().any(StepPods::several) {
        text.push_str(&how_to_make_the_secret(namespace, &secret));
    }
    if job.is_fleet {
        text.push_str(&fleet::head(namespace, &name));
    }
    if rdma.is_some() {
        text.push_str(LOCKED_MEMORY);
    }
    let mut objects = vec![config_map(job, kind, metadata(&name))?];
    for (place, step) in steps.into_iter().enumerate() {
        let step = StepPods { config: &name, ..step };
        // One process starts all ranks itself, so a plain Job is enough.
        let kind = if step.job.ranks == 1 { &indexed_job::KIND } else { kind };
        let mut made = (kind.objects)(&step);
        if place > 0 {
            text.push_str(&how_to_start(kind, namespace, &step.name));
            if let Some(object) = made.last_mut() {
                suspend(object, kind.suspend);
            }
        }
        objects.extend(made);
    }
    objects.iter().for_each(|object| text.push_str(&document(object)));
    Ok(text)
}

fn config_map(job: &Job, kind: &ObjectKind, metadata: Value) -> Result<Value, Error> {
    let mut data = match job.is_fleet {
        true => json!({(fleet::FILE): fleet::script(&job.program, &record(job, &job.name()?)?)}),
        false => json!({"plan.yaml": job.plan_text}),
    };
    for (name, content) in kind.files {
        data[*name] = (*content).into();
    }
    Ok(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}))
}

fn how_to_make_the_secret(namespace: Option<&str>, secret: &str) -> String {
    let namespace = within(namespace);
    format!(
        "# Its pods share a secret that is not in this file. Make it once, so that nobody sees it:\n\
         #   head -c 32 /dev/urandom | base64 | kubectl create secret generic{namespace} {secret} \
         --from-file=secret=/dev/stdin\n"
    )
}

/// How to start a suspended object.
fn how_to_start(kind: &ObjectKind, namespace: Option<&str>, name: &str) -> String {
    let patch = kind.suspend.iter().rev().fold(json!(false), |inner, member| json!({(*member): inner}));
    let (resource, namespace) = (kind.resource, within(namespace));
    format!(
        "# When the Job before it has ended:  kubectl patch {resource} {name}{namespace} --type merge -p '{patch}'\n"
    )
}

/// The option by which kubectl looks into the namespace of the objects.
fn within(namespace: Option<&str>) -> String {
    namespace.map_or_else(String::new, |namespace| format!(" --namespace {namespace}"))
}

fn suspend(object: &mut Value, path: &[&str]) {
    let member = path.iter().fold(object, |object, member| &mut object[*member]);
    *member = true.into();
}

/// The name of a step's object, which has at most as many letters as that of the job.
fn step_name(name: &str, ranks: u32) -> String {
    let suffix = format!("-ranks-{ranks}");
    let kept = &name[..name.len().min(LONGEST_NAME - suffix.len())];
    format!("{}{suffix}", kept.trim_end_matches('-'))
}

/// Where the record goes in a pod.
fn record(job: &Job, name: &str) -> Result<String, Error> {
    match &job.record {
        Some(record) => pod::in_results(record),
        None => Ok(format!("{}/{name}", pod::RESULTS)),
    }
}

/// The program with its arguments, for this step. Several starts go on with one record, which the first begins.
fn command(job: &Job, starts: u32, name: &str) -> Result<Vec<String>, Error> {
    if job.is_fleet {
        return Ok(fleet::command());
    }
    let record = record(job, name)?;
    let step = !job.steps.is_empty();
    let record =
        if job.steps.len() > 1 && job.record.is_some() { format!("{record}/ranks-{}", job.ranks) } else { record };
    let option = if starts > 1 { "resume" } else { "output-dir" };
    let mut words = vec![job.program.clone(), "run".to_owned(), pod::PLAN.to_owned(), format!("--{option}={record}")];
    if step {
        words.push(format!("--only-ranks={}", job.ranks));
    }
    // Kubernetes puts the value of a variable in the place of `$(NAME)`, and `$` in that of `$$`.
    Ok(words.into_iter().map(|word| word.replace('$', "$$")).collect())
}

/// `--time` in seconds.
fn limit(job: &Job) -> Result<Option<u64>, Error> {
    let Some(limit) = job.option(&TIME) else { return Ok(None) };
    let hint = "30 (minutes), 1:30:00, 2-12";
    time::seconds(limit).map(Some).ok_or_else(|| Error::new(unfit(&TIME, limit)).hint(hint))
}

/// One document of the file. Letters that YAML does not allow as they are (YAML 1.2, 5.1) are escaped, which JSON allows
/// anywhere in a string. Such letters stand nowhere else.
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
