//! Objects for kubectl: the plan as a ConfigMap, a headless Service by which pods find the first, and an indexed Job.
//!
//! The secret that pods share is no part of the file: files are kept, copied and committed. The file says which Secret it
//! wants and how one is made of which nobody sees the content.

use super::shell::comments;
use super::{CLAIM, IMAGE, Job, NAMESPACE, Problem, SECRET, TIME, is_label, time, unfit};
use crate::rank::{COORDINATOR, LOCAL_WORLD_SIZE, SECRET_FILE, WORLD_SIZE};

/// Where the coordinator listens in its pod.
const PORT: u16 = 29_400;
/// A ConfigMap holds no more than 1 MiB, names and all.
const LONGEST_PLAN: usize = 1_000_000;

pub(super) fn text(job: &Job) -> Result<String, Problem> {
    let name = job.name()?;
    let image = job.option(&IMAGE).filter(|image| !image.is_empty());
    let image = image.ok_or_else(|| {
        Problem::new("a Job needs a container image, with this program in it", "--image registry.example/rankmark:0.1")
    })?;
    if job.plan_text.len() > LONGEST_PLAN {
        let what = format!("the plan has {} bytes, and a ConfigMap holds {LONGEST_PLAN}", job.plan_text.len());
        return Err(Problem::new(what, "cut it into several plans"));
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
    let space = place.map_or_else(String::new, |place| format!("  namespace: {}\n", string(&place)));
    let head = |kind: &str, version: &str| {
        format!("---\napiVersion: {version}\nkind: {kind}\nmetadata:\n  name: {}\n{space}", string(&name))
    };
    text.push_str(&head("ConfigMap", "v1"));
    text.push_str(&format!("data:\n  plan.yaml: {}\n", block(&job.plan_text, "    ")));
    if several {
        text.push_str(&head("Service", "v1"));
        text.push_str(&format!(
            "spec:\n  clusterIP: None\n  publishNotReadyAddresses: true\n  selector:\n    job-name: {}\n  \
             ports:\n    - name: coordinator\n      port: {PORT}\n",
            string(&name)
        ));
    }
    text.push_str(&head("Job", "batch/v1"));
    text.push_str(&specification(job, &name, image, &secret)?);
    Ok(text)
}

/// The Job's `spec`.
fn specification(job: &Job, name: &str, image: &str, secret: &str) -> Result<String, Problem> {
    let several = job.ranks > 1;
    // A pod that ended took its part of the run with it: none is started again.
    let mut text = "spec:\n  backoffLimit: 0\n".to_owned();
    if several {
        text.push_str(&format!("  completionMode: Indexed\n  completions: {0}\n  parallelism: {0}\n", job.ranks));
    }
    if let Some(limit) = job.option(&TIME) {
        let hint = "30 (minutes), 1:30:00, 2-12";
        let seconds = time::seconds(limit).ok_or_else(|| Problem::new(unfit(&TIME, limit), hint))?;
        text.push_str(&format!("  activeDeadlineSeconds: {seconds}\n"));
    }
    text.push_str("  template:\n    spec:\n      restartPolicy: Never\n      automountServiceAccountToken: false\n");
    if several {
        // With it each pod has a name: JOB-INDEX.SERVICE.
        text.push_str(&format!("      subdomain: {}\n", string(name)));
    }
    let claim = label(job, &CLAIM)?;
    text.push_str(&container(job, name, image));
    text.push_str("      volumes:\n");
    text.push_str(&format!("        - name: plan\n          configMap:\n            name: {}\n", string(name)));
    if several {
        text.push_str(&format!(
            "        - name: secret\n          secret:\n            secretName: {}\n            defaultMode: {} # 0400\n",
            string(secret),
            0o400
        ));
    }
    let kept = claim.map_or_else(
        || "emptyDir: {}".to_owned(),
        |claim| format!("persistentVolumeClaim:\n            claimName: {}", string(&claim)),
    );
    text.push_str(&format!("        - name: results\n          {kept}\n"));
    Ok(text)
}

fn container(job: &Job, name: &str, image: &str) -> String {
    let several = job.ranks > 1;
    let record = job.record.clone().unwrap_or_else(|| format!("/results/{name}"));
    let mut text = format!(
        "      containers:\n        - name: rank\n          image: {}\n          command:\n            - {}\n            - run\n            \
         - /etc/rankmark/plan/plan.yaml\n            - {}\n",
        string(image),
        string(&job.program),
        string(&format!("--output-dir={record}"))
    );
    if several {
        let variables = [
            (WORLD_SIZE, job.ranks.to_string()),
            (LOCAL_WORLD_SIZE, "1".to_owned()),
            (COORDINATOR, format!("{name}-0.{name}:{PORT}")),
            (SECRET_FILE, "/etc/rankmark/secret/secret".to_owned()),
        ];
        text.push_str("          env:\n");
        for (name, value) in variables {
            text.push_str(&format!("            - name: {name}\n              value: {}\n", string(&value)));
        }
    }
    text.push_str(&format!(
        "          resources:\n            requests:\n              cpu: {0}\n            limits:\n              cpu: {0}\n",
        string(&job.cores.to_string())
    ));
    text.push_str("          volumeMounts:\n            - name: plan\n              mountPath: /etc/rankmark/plan\n");
    if several {
        text.push_str("            - name: secret\n              mountPath: /etc/rankmark/secret\n");
    }
    text.push_str("            - name: results\n              mountPath: /results\n");
    text
}

/// A name of an object, where one is given.
fn label(job: &Job, choice: &super::Choice) -> Result<Option<String>, Problem> {
    let Some(value) = job.option(choice) else { return Ok(None) };
    let fine = is_label(value) && value.len() <= 63;
    let hint = "lower-case letters, digits and hyphens, beginning with a letter, at most 63";
    if fine { Ok(Some(value.to_owned())) } else { Err(Problem::new(unfit(choice, value), hint)) }
}

/// Whether YAML takes it as it is; all others must be written out (YAML 1.2, 5.1).
fn is_printable(letter: char) -> bool {
    matches!(letter, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(letter, '\u{2028}' | '\u{2029}')
}

/// A text in double quotes, whatever it holds.
fn string(text: &str) -> String {
    let one = |letter: char| match letter {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        letter if is_printable(letter) => letter.to_string(),
        letter => format!("\\U{:08x}", u32::from(letter)),
    };
    format!("\"{}\"", text.chars().map(one).collect::<String>())
}

/// A text of several lines as people read it, where YAML gives it back unchanged; else in quotes.
fn block(text: &str, indent: &str) -> String {
    let ends_once = text.ends_with('\n') && !text.ends_with("\n\n") && text.len() > 1;
    let plain = text.chars().all(|letter| letter == '\n' || is_printable(letter));
    if !ends_once || !plain || text.starts_with('\n') {
        return string(text);
    }
    let indented = |line: &str| if line.is_empty() { String::new() } else { format!("{indent}{line}") };
    let lines: Vec<String> = text.trim_end_matches('\n').split('\n').map(indented).collect();
    // The number: a first line may begin with spaces.
    format!("|2\n{}", lines.join("\n"))
}
