//! `rankmark gen-job`: the file by which a launcher runs a plan.

use std::io;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use launch::job::{Job, TARGETS, Target};
use plans::job::{self, FLEET};
use plans::outlook::Outlook;
use plans::trust;
use serde_json::json;
use terms::Error;

use super::{Ended, Typed};
use crate::session::Entry;
use crate::{Failure, plan_files, screen};

/// Writes the file by which a launcher runs a plan: Slurm, Kubernetes, mpirun, torchrun
#[derive(clap::Args)]
#[command(
    after_help = "The job has a step for each number of ranks of the plan, all into one record; on Kubernetes, a Job \
                  with a record each. `kubernetes` is an indexed Job with one rank in each pod; `mpijob`, \
                  `pytorchjob` and `trainjob` are jobs of Kubeflow. `fleet` in place of a plan, with `--for kubernetes --ranks NODES`, \
                  measures and judges the nodes. With `--ranks N` it has one step, and cases of other ranks are skipped. With \
                  `--ranks 1` it is one process, which starts the ranks of every case itself, on one host."
)]
pub(crate) struct GenJob {
    /// the launcher
    #[arg(long = "for", value_name = "LAUNCHER", value_parser = PossibleValuesParser::new(TARGETS.iter().map(|target| target.name)))]
    launcher: String,
    /// a plan, YAML or JSON; `fleet`: no plan, the nodes are judged [kubernetes]
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    plan: PathBuf,
    /// one step of so many ranks (default: a step for each number of ranks of the plan)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// this program there (default: this one's own path; in a container, `rankmark`)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    program: Option<String>,
    /// where the record goes
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath)]
    output_dir: Option<String>,
    /// write it there (default: standard output)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    output: Option<PathBuf>,
    /// replace a FILE that is there
    #[arg(long, requires = "output")]
    force: bool,
    #[arg(long, help = trust::HELP)]
    trust_plan: bool,
    /// JSON on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: LauncherOptions,
}

impl Typed for GenJob {
    const NAME: &'static str = "gen-job";

    fn run(self, _: Entry<'_>) -> Ended {
        generate(&self)
    }
}

/// What launchers declare of themselves, as given: names and values.
struct LauncherOptions(Vec<(&'static str, String)>);

impl LauncherOptions {
    /// The options, which must be the target's.
    fn for_target(&self, target: &Target) -> Result<Vec<(&'static str, String)>, Failure> {
        let Some((name, _)) = self.0.iter().find(|(name, _)| !target.takes(name)) else { return Ok(self.0.clone()) };
        let own: Vec<String> = target.options.iter().map(|choice| format!("--{}", choice.name)).collect();
        let hint = format!("{} takes {}", target.name, own.join(", "));
        Err(Failure::new(format!("`--{name}` is not for {}", target.name)).hint(hint))
    }
}

/// Names of launchers' options, each once.
fn choices() -> Vec<&'static launch::job::Choice> {
    let mut found: Vec<&launch::job::Choice> = Vec::new();
    for choice in TARGETS.iter().flat_map(|target| target.options) {
        if found.iter().all(|known| known.name != choice.name) {
            found.push(choice);
        }
    }
    found
}

impl Args for LauncherOptions {
    fn augment_args(command: Command) -> Command {
        choices().into_iter().fold(command, |command, choice| {
            let having = TARGETS.iter().filter(|target| target.takes(choice.name)).map(|target| target.name);
            let help = format!("{} [{}]", choice.doc, having.collect::<Vec<_>>().join(", "));
            let arg = Arg::new(choice.name).long(choice.name).value_name(choice.value).help(help);
            let arg = arg.help_heading("Options of some launchers");
            command.arg(if choice.name == "ranks-per-node" { arg.visible_alias("ntasks-per-node") } else { arg })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LauncherOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |choice: &launch::job::Choice| Some((choice.name, matches.get_one::<String>(choice.name)?.clone()));
        Ok(Self(choices().into_iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn generate(given: &GenJob) -> Ended {
    let target = TARGETS.iter().find(|target| target.name == given.launcher);
    let target = target.ok_or_else(|| Failure::new("there is no such launcher"))?;
    let options = given.options.for_target(target)?;
    let path = given.plan.as_path();
    let (program, record) = (|| program(given.program.as_deref(), target), given.output_dir.clone());
    // No plan has that name. A folder may have it, which an earlier fleet left.
    if path == Path::new(FLEET) && !path.is_file() {
        let job = job::of_fleet(target, given.ranks, program, record, options)?;
        let text = target.text(&job)?;
        return deliver(given, target, &job, None, &text);
    }
    if let Some((name, _)) = options.iter().find(|(name, _)| *name == "gpus-per-node") {
        let hint = "a plan's cases say how many GPUs they need";
        return Err(Failure::new(format!("`--{name}` is for `fleet`")).hint(hint));
    }
    let plan = plan_files::complete(path)?;
    let asked = job::Asked {
        target,
        plan: &plan,
        file: path,
        ranks: given.ranks,
        program: &program,
        record,
        written: jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string(),
        options,
        trusted: given.trust_plan,
    };
    let (job, outlook) = job::of_plan(asked)?;
    let text = target.text(&job)?;
    deliver(given, target, &job, Some(&outlook), &text)
}

/// The program there. In a container its path is not that of this one.
fn program(given: Option<&str>, target: &Target) -> Result<String, Error> {
    if let Some(given) = given {
        let fine = !given.is_empty() && !given.starts_with('-');
        return if fine { Ok(given.to_owned()) } else { Err(Error::new("`--program` is not a program")) };
    }
    if target.in_containers {
        return Ok("rankmark".to_owned());
    }
    let failed = |error: io::Error| Error::new("this program's own path is not known").cause(error);
    job::path_text(&std::env::current_exe().map_err(failed)?)
}

/// Writes the job's file, which the user names.
fn write(path: &Path, text: &str, target: &Target, replace: bool) -> Result<(), Failure> {
    if replace && path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(Failure::new(format!("{} is not a plain file", path.display())));
    }
    let mode = if target.executable { 0o755 } else { 0o644 };
    record::file::create_named(path, text.as_bytes(), mode, replace).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::new(format!("{} exists already", path.display())).hint("`--force` replaces it")
        }
        _ => Failure::new(format!("{} cannot be written", path.display())).cause(error),
    })
}

fn deliver(given: &GenJob, target: &Target, job: &Job, outlook: Option<&Outlook>, text: &str) -> Ended {
    // `-` is standard output, which is the default.
    let output = given.output.as_ref().filter(|path| *path != Path::new("-"));
    if let Some(path) = output {
        write(path, text, target, given.force)?;
    }
    if given.json {
        let object = json!({
            "for": target.name,
            "output": output.map(|path| path.display().to_string()),
            "ranks": job.ranks,
            "steps": job.steps.iter().map(job::step_json).collect::<Vec<_>>(),
            "nodes": job.nodes,
            "cores_per_process": job.cores,
            "gpus_per_process": job.gpus,
            "plan": outlook.map(Outlook::json),
            "notes": job.notes,
            "text": text,
        });
        return screen::print_json(&format!("{object}\n"));
    }
    let notes: String = job.notes.iter().map(|note| format!("{note}\n")).collect();
    match output {
        Some(path) => screen::print(&format!("{notes}written  {}\n", path.display())),
        None => {
            // They stand in the text, too; who pipes it away should see them.
            screen::remark(&notes);
            screen::print(text)
        }
    }
}
