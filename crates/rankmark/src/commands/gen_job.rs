//! `rankmark gen-job`: the file by which a launcher runs a plan.

mod fleet;
mod place;
mod steps;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use comm::mpi::Facts;
use launch::job::{Job, Step, TARGETS, Target, srun_mpi};
use record::{Case, Plan};
use serde_json::json;

use super::validate::plan::{self, Outlook};
use super::{Ended, Typed, trust};
use crate::session::Entry;
use crate::{Failure, screen};

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
    if fleet::is_asked(path) {
        return fleet::generate(given, target, options);
    }
    if let Some((name, _)) = options.iter().find(|(name, _)| *name == "gpus-per-node") {
        let hint = "a plan's cases say how many GPUs they need";
        return Err(Failure::new(format!("`--{name}` is for `fleet`")).hint(hint));
    }
    let (file, plan) = plan::load(path)?;
    let numbers = numbers(&plan);
    let ranks = ranks(given.ranks, &numbers)?;
    let nodes = nodes(&options, ranks, target)?;
    let several = numbers.len() > 1 && given.ranks.is_none();
    let spread = steps::spread(if several { &numbers } else { &[] }, (ranks, nodes), target);
    let (outlook, running) = match several {
        true => outlook(file, &plan, &spread, target),
        false => outlook(file, &plan, &[Step { ranks, nodes, cores: 0, gpus: 0, starts: 1 }], target),
    };
    if running.is_empty() {
        return Err(nothing_runs(&outlook, &plan, ranks, target));
    }
    let mut steps = steps::needed(spread, &running);
    let starts = if ranks > 1 { steps::starts(&running) } else { 1 };
    if steps.is_empty() && starts > 1 {
        steps.push(Step { ranks, nodes, cores: cores(&running, ranks), gpus: gpus(&running, ranks), starts });
    }
    // The largest step asks for the most; without steps it is the one.
    let Step { ranks, nodes, .. } =
        steps.last().copied().unwrap_or(Step { ranks, nodes, cores: 0, gpus: 0, starts: 1 });
    let mut job = Job {
        experiment: plan.experiment.clone(),
        program: program(given.program.as_deref(), target)?,
        is_fleet: false,
        plan: place::absolute(path)?,
        plan_text: plan.source_text.clone(),
        record: given.output_dir.clone(),
        cores: if several { steps::cores(&steps, (ranks, nodes)) } else { cores(&running, ranks) },
        gpus: gpus(&running, ranks),
        memory: memory(&running, ranks),
        written: jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string(),
        steps,
        ranks,
        nodes,
        mpi: None,
        notes: Vec::new(),
        options,
    };
    job.notes = notes(&job, &outlook, target);
    if target.takes("mpi") && ranks > 1 {
        choose_mpi(&running, &mut job, given.trust_plan);
    }
    let text = target.text(&job)?;
    deliver(given, target, &job, Some(&outlook), &text)
}

fn nothing_runs(outlook: &Outlook, plan: &Plan, ranks: u32, target: &Target) -> Failure {
    let mut failure = Failure::new("every case of the plan would be skipped");
    if let Some(first) = outlook.skipped.first() {
        failure = failure.cause(format!("{}: {}", first.name, first.reason));
    }
    if target.in_containers && !target.process_manager && plan.cases.iter().any(is_launched) {
        return failure.hint("`--for mpijob` writes a job in which mpirun starts the ranks");
    }
    let alone = "`--ranks 1` makes a job of one process, which starts the ranks of every case itself, on one host";
    if ranks > 1 { failure.hint(alone) } else { failure }
}

/// The numbers of ranks that a launcher must start, ascending.
fn numbers(plan: &Plan) -> Vec<u32> {
    let cases = plan.cases.iter().filter(|case| !benchmarks::is_in_process(case));
    cases.map(Case::ranks).collect::<BTreeSet<u32>>().into_iter().collect()
}

/// How many ranks: as many as were asked for, which some case must have, or 1; else the most that a case has.
fn ranks(asked: Option<u32>, numbers: &[u32]) -> Result<u32, Failure> {
    let Some(asked) = asked else {
        return Ok(numbers.last().copied().unwrap_or(1));
    };
    if asked == 1 || numbers.contains(&asked) {
        return Ok(asked);
    }
    let listed: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let cause = format!("its cases are of {} ranks", listed.join(", "));
    Err(Failure::new(format!("no case of the plan has {asked} ranks")).cause(cause))
}

fn nodes(options: &[(&'static str, String)], ranks: u32, target: &Target) -> Result<u32, Failure> {
    if target.rank_per_node {
        return Ok(ranks);
    }
    let number = |name: &str| {
        let Some((_, text)) = options.iter().find(|(option, _)| *option == name) else { return Ok(None) };
        let number = text.parse::<u32>().ok().filter(|number| *number > 0);
        number.map(Some).ok_or_else(|| Failure::new(format!("`--{name}` does not take `{text}`")).hint("from 1"))
    };
    let (nodes, each) = (number("nodes")?, number("ranks-per-node")?);
    let nodes = nodes.unwrap_or_else(|| each.map_or(1, |each| ranks.div_ceil(each)));
    let spread = ranks.is_multiple_of(nodes) && each.is_none_or(|each| each.checked_mul(nodes) == Some(ranks));
    if spread {
        return Ok(nodes);
    }
    let each = each.map_or(String::new(), |each| format!(", {each} on each"));
    let hint = "nodes times ranks on each node are the ranks; --ranks chooses another number that the plan has";
    Err(Failure::new(format!("{ranks} ranks do not fit {nodes} nodes{each}")).hint(hint))
}

/// The program there. In a container its path is not that of this one.
fn program(given: Option<&str>, target: &Target) -> Result<String, Failure> {
    if let Some(given) = given {
        let fine = !given.is_empty() && !given.starts_with('-');
        return if fine { Ok(given.to_owned()) } else { Err(Failure::new("`--program` is not a program")) };
    }
    if target.in_containers {
        return Ok("rankmark".to_owned());
    }
    let failed = |error: std::io::Error| Failure::new("this program's own path is not known").cause(error);
    place::text(&std::env::current_exe().map_err(failed)?)
}

/// What would be skipped and why, and the cases that would run. One step is a job that runs all it can.
fn outlook<'a>(file: String, plan: &'a Plan, steps: &[Step], target: &Target) -> (Outlook, Vec<&'a Case>) {
    let mut worlds: HashMap<u32, Case> = HashMap::new();
    let mut running = Vec::new();
    let launcher = target.launcher;
    let mut reason = |case: &Case| {
        // One process is nobody's rank; threads of one process need no launcher.
        let alone = matches!(steps, [Step { ranks: 1, .. }]);
        if case.skip.is_some() || alone || benchmarks::is_in_process(case) {
            return case.skip.clone();
        }
        let own = case.ranks();
        let Some(step) = steps.iter().find(|step| step.ranks == own) else {
            let more = if own == 1 { "rank" } else { "ranks" };
            return Some(match steps {
                [one] => format!("{launcher} starts {} ranks, and this case is of {own} {more}", one.ranks),
                _ => format!("{own} {more} cannot be spread evenly over the nodes"),
            });
        };
        if own == 1 {
            return None;
        }
        let hosts = step.nodes;
        let backend = case.backend().and_then(comm::backend)?;
        let about = backend.about();
        if !about.launched {
            let spread = about.one_host && hosts > 1;
            return spread.then(|| format!("`{}` needs all ranks on one host, and they are on {hosts}", about.name));
        }
        if let Err(why) = backend.accepts(target.started_by()) {
            return Some(why);
        }
        // Scripts start ranks once for each world.
        let other = worlds.entry(own).or_insert_with(|| case.clone()).world != case.world;
        (other && target.in_containers).then(|| {
            let once = launch::external::once(backend);
            format!("{launcher} starts each rank once, and {once}: a case of another world needs a job of its own")
        })
    };
    let outlook = Outlook::new(file, plan, &mut reason);
    running.extend(plan.cases.iter().filter(|case| !outlook.skipped.iter().any(|skipped| skipped.id == case.id)));
    (outlook, running)
}

fn is_launched(case: &Case) -> bool {
    case.backend().and_then(comm::backend).is_some_and(|backend| backend.about().launched)
}

/// Cores that each process keeps busy: a rank, or all ranks of a case.
fn cores(running: &[&Case], ranks: u32) -> usize {
    let processes = running.iter().filter(|case| !benchmarks::is_in_process(case));
    let wanted = processes.map(|case| benchmarks::cores_wanted(case.ranks(), &case.world));
    (wanted.max().unwrap_or(1) / ranks as usize).max(1)
}

/// GPUs that each process needs: a rank one, the one process as many as a case has ranks on GPUs.
fn gpus(running: &[&Case], ranks: u32) -> u32 {
    let on_gpus = running.iter().filter(|case| benchmarks::is_on_gpus(case));
    let wanted = on_gpus.map(|case| if benchmarks::is_in_process(case) { 1 } else { case.ranks() });
    wanted.max().map_or(0, |wanted| wanted.div_ceil(ranks))
}

/// Bytes that each process needs: a rank, or all ranks of a case.
fn memory(running: &[&Case], ranks: u32) -> u64 {
    let wanted = running.iter().map(|case| {
        let needed = runner::memory_of(case);
        if ranks == 1 { needed } else { needed / u64::from(case.ranks().max(1)) }
    });
    wanted.max().unwrap_or(0)
}

/// How srun must start ranks of the plan's MPI library, as it is here.
fn choose_mpi(running: &[&Case], job: &mut Job, trusted: bool) {
    let Some(case) = running.iter().find(|case| is_launched(case)) else { return };
    if job.options.iter().any(|(name, _)| *name == "mpi") {
        return;
    }
    if let Some(why) = trust::refusal(case, None, |_| false).filter(|_| !trusted) {
        job.notes.push(format!(
            "not looked at: {why}; without it, `gen-job --mpi pmix` or `pmi2` sets how srun starts its ranks"
        ));
        return;
    }
    let found = match benchmarks::library_of(case) {
        Some(library) => comm::mpi::facts(Some(library)).ok(),
        None => comm::mpi::NAMES.iter().find_map(|name| comm::mpi::facts(Some(name)).ok()),
    };
    job.mpi = found.as_ref().map(|facts| srun_mpi(facts.vendor));
    let said = found.as_ref().map(Facts::version);
    job.notes.push(match (said, job.mpi) {
        (Some(version), Some(kind)) => {
            format!("--mpi={kind} is what {version} wants; `srun --mpi=list` says what Slurm has")
        }
        _ => "no MPI library is found here: `gen-job --mpi pmix` or `pmi2` sets how srun starts its ranks".to_owned(),
    });
}

fn notes(job: &Job, outlook: &Outlook, target: &Target) -> Vec<String> {
    let (run, all) = (outlook.cases - outlook.skipped.len(), outlook.cases);
    let cases = if all == 1 { "case" } else { "cases" };
    let ranks = match job.ranks {
        1 => "one process, which starts their ranks".to_owned(),
        ranks => format!("{ranks} ranks"),
    };
    let ranks = if job.steps.is_empty() { ranks } else { steps::title(&job.steps) };
    let core = if job.cores == 1 { "core" } else { "cores" };
    let mut notes = vec![format!("{}: {run} of {all} {cases} in {ranks}, {} {core} each", outlook.file, job.cores)];
    notes.extend(outlook.notes.iter().map(|note| format!("note: {note}")));
    for (reason, names) in outlook.by_reason() {
        notes.push(format!("skipped, {} of {all}: {reason}", names.len()));
    }
    if target.in_containers && !job.options.iter().any(|(name, _)| *name == "claim") {
        notes.push("without --claim the record is lost with its pod; `kubectl logs` has the table".to_owned());
    }
    notes
}

fn deliver(given: &GenJob, target: &Target, job: &Job, outlook: Option<&Outlook>, text: &str) -> Ended {
    // `-` is standard output, which is the default.
    let output = given.output.as_ref().filter(|path| *path != Path::new("-"));
    if let Some(path) = output {
        place::write(path, text, target.executable, given.force)?;
    }
    if given.json {
        let object = json!({
            "for": target.name,
            "output": output.map(|path| path.display().to_string()),
            "ranks": job.ranks,
            "steps": job.steps.iter().map(steps::json).collect::<Vec<_>>(),
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
