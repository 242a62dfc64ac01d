//! No secret that a text holds is kept or shown: every form in which programs are given secrets, in every place that keeps or
//! quotes text.

use std::fs;
use std::io::Read;

use proptest::prelude::*;
use record::pack::{Names, Redaction, pack};
use record::store::{CASES_FILE, RUN_FILE};
use record::{CaseLine, Labels, Plan, RunFile, Store, plan};
use terms::Status;

use crate::store::{line, run_file};
use crate::table::{COLLECTIVES, TABLE, pairs};

/// Forms of one word or more, with `{}` for the secret.
const FORMS: [&str; 34] = [
    "MY_TOKEN={}",
    "--env=HF_TOKEN={}",
    "API_KEY={}",
    "--password={}",
    "--password {}",
    "--db-passwd={}",
    "-secret={}",
    "--client-secret {}",
    "--token={}",
    "--auth={}",
    "--oauth-token {}",
    "--ssh-key={}",
    "redis://:{}@h",
    "redis://:{}@h:6379/0",
    "postgres://me:{}@h/db",
    "amqps://me:{}@[::1]:5671",
    "x+y://me:{}@h?a=b",
    "tcp://a:1,http://me:{}@h",
    "me:{}@node-a",
    "https://h/x?sig={}",
    "https://h/x?sv=1&sig={}&se=2",
    "https://h/x?token={}#y",
    "https://h/x?a=1&access_token={}",
    "https://h/x?X-Amz-Signature={}&X-Amz-Date=1",
    "https://h/x?X-Amz-Credential={}",
    "https://h/x?code={}",
    "DefaultEndpointsProtocol=https;AccountName=n;AccountKey={};EndpointSuffix=x",
    "Server=h;Uid=u;Pwd={}",
    "Authorization: Bearer {}",
    "curl -H 'X-Api-Key: {}' h",
    "{\"password\": \"{}\"}",
    "sh -c 'export MY_SECRET={}; run'",
    "train --hf-token {} --epochs 3",
    "--config=password={}",
];

/// A secret that no other text holds, of the characters that each form allows.
fn secret() -> impl Strategy<Value = String> {
    "[A-Za-z0-9][A-Za-z0-9_.~+-]{5,20}".prop_map(|text| format!("Zq{text}qZ"))
}

fn form() -> impl Strategy<Value = (String, String)> {
    (prop::sample::select(FORMS.to_vec()), secret()).prop_map(|(form, secret)| (form.replace("{}", &secret), secret))
}

/// The words of a command line that holds the form, as a shell would split it.
fn words(text: &str) -> Vec<String> {
    let inner: Vec<String> = match text.contains('\'') || text.contains('"') || text.contains(": ") {
        true => vec![text.to_owned()],
        false => text.split(' ').map(str::to_owned).collect(),
    };
    ["rankmark", "profile", "--"]
        .map(str::to_owned)
        .into_iter()
        .chain(inner)
        .chain(["--epochs".into(), "3".into()])
        .collect()
}

fn files(directory: &std::path::Path) -> String {
    [RUN_FILE, CASES_FILE].map(|name| fs::read_to_string(directory.join(name)).unwrap()).concat()
}

/// All files of an archive, one after the other.
fn unpacked(archive: &std::path::Path) -> String {
    let mut all = String::new();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(fs::File::open(archive).unwrap()));
    for entry in archive.entries().unwrap() {
        entry.unwrap().read_to_string(&mut all).unwrap();
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_keeps_it((text, secret) in form()) {
        let safe = record::masked(&text);
        prop_assert!(!safe.contains(&secret), "{}", safe);
        prop_assert_eq!(record::masked(&safe), safe.clone());
        prop_assert!(record::holds_secret(&text));
        let kept = record::environment([("NCCL_X".to_owned(), text.clone())]);
        prop_assert!(!kept["NCCL_X"].contains(&secret), "{:?}", kept);
        let kept = record::command_line(words(&text)).join(" ");
        prop_assert!(!kept.contains(&secret) && kept.ends_with("--epochs 3"), "{}", kept);
        // Within a sentence, in quotes and without.
        for sentence in [format!("cannot open `{text}` here"), format!("failed: {text}\nnext line")] {
            let said = record::masked(&sentence);
            prop_assert!(!said.contains(&secret), "{}", said);
        }
    }

    #[test]
    fn labels_and_plans_refuse_it_and_no_error_shows_it((text, secret) in form()) {
        for labels in [
            Labels { note: Some(text.clone()), ..Labels::default() },
            Labels { tags: vec![text.clone()], ..Labels::default() },
            Labels { name: Some(text.clone()), ..Labels::default() },
        ] {
            let (what, rule) = labels.checked().unwrap_err();
            prop_assert!(!what.contains(&secret) && !rule.contains(&secret), "{}", what);
        }
        let value = format!("A={text}");
        for (name, value) in [("inject", &text), ("inject", &value), ("traffic_file", &text), ("expect", &text), ("bytes", &text),
            ("op", &text), ("no_such_field", &text), ("ranks", &text)] {
            let given = pairs(&[("op", "reduce"), ("bytes", "8"), (name, value)]);
            for errors in [plan::from_flags(&COLLECTIVES, &given[..2], &given[2..]), plan::from_flags(&COLLECTIVES, &given, &[])] {
                let said = errors.unwrap_err().to_string();
                prop_assert!(!said.contains(&secret), "{}", said);
            }
        }
        let quoted = serde_json::to_string(&text).unwrap();
        for (name, value) in [("inject", &quoted), ("traffic_file", &quoted), ("dtype", &quoted), ("nothing", &quoted)] {
            let text = format!("experiment: x\ncases:\n  - {{benchmark: collective, op: reduce, bytes: 8, {name}: [{value}]}}\n");
            let said = plan::read(&text, "p.yaml", &TABLE, &[]).unwrap_err().to_string();
            prop_assert!(!said.contains(&secret), "{}", said);
        }
    }

    #[test]
    fn no_file_of_a_record_has_it((text, secret) in form()) {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("record");
        let mut file = run_file();
        file.command_line = words(&text);
        file.launcher = words(&text);
        file.environment.insert("NCCL_X".to_owned(), text.clone());
        file.plan.source_text = format!("# {text}\nexperiment: x\n");
        let mut store = Store::create(&directory, &file).unwrap();
        let failed = CaseLine { reason: Some(format!("rank 0 died: {text}")), ..line(&file, 0, Status::Failed) };
        store.append(&failed, &[]).unwrap();
        store.finish(&mut file).unwrap();
        drop(store);
        let kept = files(&directory);
        prop_assert!(!kept.contains(&secret), "{}", kept);
        prop_assert!(record::read_run(&directory).unwrap().damaged.is_empty());
    }

    #[test]
    fn no_redacted_archive_has_it((text, secret) in form()) {
        // As a version wrote it that knew less.
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("record");
        let file = run_file();
        drop(Store::create(&directory, &file).unwrap());
        let mut of_case = serde_json::to_value(line(&file, 0, Status::Failed)).unwrap();
        let mut whole = serde_json::to_value(&RunFile { plan: Plan { source_text: text.clone(), ..file.plan.clone() }, ..file }).unwrap();
        whole["command_line"] = words(&text).into();
        whole["environment"] = serde_json::json!({"NCCL_X": text});
        fs::write(directory.join(RUN_FILE), serde_json::to_vec_pretty(&whole).unwrap()).unwrap();
        of_case["reason"] = text.clone().into();
        fs::write(directory.join(CASES_FILE), format!("{of_case}\n")).unwrap();
        fs::write(directory.join("report.md"), format!("command: {text}\n")).unwrap();
        let html = text.replace('&', "&amp;").replace('"', "&quot;");
        fs::write(directory.join("report.html"), format!("<p title=\"{html}\">{html}</p>")).unwrap();
        let mut redaction = Redaction::new(Names::default());
        pack(&directory, &root.path().join("a.tar.gz"), Some(&mut redaction)).unwrap();
        let all = unpacked(&root.path().join("a.tar.gz"));
        prop_assert!(!all.contains(&secret) && all.contains("***"), "{}", all);
        prop_assert!(redaction.secrets >= 5, "{}", redaction.secrets);
    }
}
