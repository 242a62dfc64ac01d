//! The job by which a launcher runs a plan: its steps, and what each process of it needs.

mod fleet;
mod steps;

use std::collections::BTreeSet;
use std::path::Path;

use comm::mpi::Facts;
use launch::job::{Job, RankStart, Target, srun_mpi};
use record::{Case, Plan};
use terms::Error;

use crate::outlook::Outlook;
use crate::trust;

pub use fleet::{FLEET, job as of_fleet};
pub use steps::json as step_json;

/// Options of launchers: names and values.
pub type Options = Vec<(&'static str, String)>;

/// What is asked of a job.
pub struct Asked<'a> {
    /// The launcher.
    pub target: &'a Target,
    /// The plan.
    pub plan: &'a Plan,
    /// The file of the plan, as the user named it.
    pub file: &'a Path,
    /// One step of so many ranks.
    pub ranks: Option<u32>,
    /// This program there.
    pub program: &'a dyn Fn() -> Result<String, Error>,
    /// Where the record goes.
    pub record: Option<String>,
    /// When this is written, as a name of a record has it.
    pub written: String,
    /// Options of the launcher.
    pub options: Options,
    /// Whether what the plan names may be loaded.
    pub trusted: bool,
}

/// The job of a plan, and what would be skipped in it.
///
/// # Errors
/// When no case would run, or its ranks do not fit.
pub fn of_plan(asked: Asked<'_>) -> Result<(Job, Outlook), Error> {
    let Asked { target, plan, .. } = asked;
    let numbers = numbers(plan);
    let ranks = ranks(asked.ranks, &numbers)?;
    let nodes = nodes(&asked.options, ranks, target)?;
    let several = numbers.len() > 1 && asked.ranks.is_none();
    let file = asked.file.display().to_string();
    let spread = steps::spread(if several { &numbers } else { &[] }, (ranks, nodes), target);
    let (outlook, running) = match several {
        true => outlook(file, plan, &spread, target),
        false => outlook(file, plan, &[RankStart { ranks, nodes, cores: 0, gpus: 0, starts: 1 }], target),
    };
    if running.is_empty() {
        return Err(nothing_runs(&outlook, plan, ranks, target));
    }
    let mut steps = steps::needed(spread, &running);
    let starts = if ranks > 1 { steps::starts(&running) } else { 1 };
    if steps.is_empty() && starts > 1 {
        steps.push(RankStart { ranks, nodes, cores: cores(&running, ranks), gpus: gpus(&running, ranks), starts });
    }
    let (ranks, nodes) = steps::room(&steps).unwrap_or((ranks, nodes));
    let mut job = Job {
        experiment: plan.experiment.clone(),
        program: (asked.program)()?,
        is_fleet: false,
        plan: absolute(asked.file)?,
        plan_text: plan.source_text.clone(),
        record: asked.record,
        cores: if several { steps::cores(&steps, (ranks, nodes)) } else { cores(&running, ranks) },
        gpus: gpus(&running, ranks),
        memory: memory(&running, ranks),
        written: asked.written,
        steps,
        ranks,
        nodes,
        mpi: None,
        notes: Vec::new(),
        options: asked.options,
    };
    job.notes = notes(&job, &outlook, target);
    if target.takes("mpi") && ranks > 1 {
        choose_mpi(&running, &mut job, asked.trusted);
    }
    Ok((job, outlook))
}

/// A path as text: the job's file is one.
///
/// # Errors
/// When it is not UTF-8.
pub fn path_text(path: &Path) -> Result<String, Error> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::new(format!("{} is not UTF-8", path.display())).hint("rename it"))
}

/// The path from the root, by which other processes of the job find the file wherever they start.
fn absolute(path: &Path) -> Result<String, Error> {
    let failed = || Error::new(format!("{} has no path from the root", path.display()));
    path_text(&std::path::absolute(path).map_err(|error| failed().cause(error))?)
}

fn nothing_runs(outlook: &Outlook, plan: &Plan, ranks: u32, target: &Target) -> Error {
    let mut failure = Error::new("every case of the plan would be skipped");
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
fn ranks(asked: Option<u32>, numbers: &[u32]) -> Result<u32, Error> {
    let Some(asked) = asked else {
        return Ok(numbers.last().copied().unwrap_or(1));
    };
    if asked == 1 || numbers.contains(&asked) {
        return Ok(asked);
    }
    let listed: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let cause = format!("its cases need {} ranks", listed.join(", "));
    Err(Error::new(format!("no case of the plan has {asked} ranks")).cause(cause))
}

fn nodes(options: &[(&'static str, String)], ranks: u32, target: &Target) -> Result<u32, Error> {
    if target.rank_per_node {
        return Ok(ranks);
    }
    let number = |name: &str| {
        let Some((_, text)) = options.iter().find(|(option, _)| *option == name) else { return Ok(None) };
        let number = text.parse::<u32>().ok().filter(|number| *number > 0);
        number.map(Some).ok_or_else(|| Error::new(format!("`--{name}` does not take `{text}`")).hint("from 1"))
    };
    let (nodes, each) = (number("nodes")?, number("ranks-per-node")?);
    let nodes = nodes.unwrap_or_else(|| each.map_or(1, |each| ranks.div_ceil(each)));
    let spread = ranks.is_multiple_of(nodes) && each.is_none_or(|each| each.checked_mul(nodes) == Some(ranks));
    if spread {
        return Ok(nodes);
    }
    let each = each.map_or(String::new(), |each| format!(", {each} on each"));
    let hint = "nodes times ranks per node must give the number of ranks; --ranks selects another number of the plan";
    Err(Error::new(format!("{ranks} ranks do not fit {nodes} nodes{each}")).hint(hint))
}

/// What would be skipped and why, and the cases that would run. One step is a job that runs all it can.
fn outlook<'a>(file: String, plan: &'a Plan, steps: &[RankStart], target: &Target) -> (Outlook, Vec<&'a Case>) {
    let mut running = Vec::new();
    let launcher = target.launcher;
    let mut reason = |case: &Case| {
        if let Err(refused) = benchmarks::parse(case) {
            return Some(refused.error.on_one_line());
        }
        // One process is nobody's rank; threads of one process need no launcher.
        let alone = matches!(steps, [RankStart { ranks: 1, .. }]);
        if case.skip.is_some() || alone || benchmarks::is_in_process(case) {
            return case.skip.clone();
        }
        let own = case.ranks();
        let Some(step) = steps.iter().find(|step| step.ranks == own) else {
            let more = if own == 1 { "rank" } else { "ranks" };
            return Some(match steps {
                [one] => format!("{launcher} starts {} ranks, but this case needs {own} {more}", one.ranks),
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
            return spread.then(|| format!("`{}` needs all ranks on one host, not {hosts} hosts", about.name));
        }
        backend.accepts(target.started_by()).err()
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
    let parsed = running.iter().filter_map(|case| Some((case, benchmarks::parse(case).ok()?)));
    let wanted = parsed.map(|(case, parsed)| {
        let needed = runner::memory_of(&*parsed);
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
            "MPI library not examined: {why}, or set how srun starts its ranks with `gen-job --mpi pmix` or `pmi2`"
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
            format!("--mpi={kind} is what {version} needs; `srun --mpi=list` shows what Slurm supports")
        }
        _ => "no MPI library is found: set how srun starts its ranks with `gen-job --mpi pmix` or `pmi2`".to_owned(),
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
        notes.push("without --claim the record is lost with its pod; `kubectl logs` shows only the table".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use launch::job::TARGETS;

    use super::*;

    /// The largest step of a plan need not be the one on most nodes: 8 ranks would be, but cannot run.
    #[test]
    fn a_job_has_room_for_each_of_its_steps() {
        let text = "experiment: steps\ncases:\n  \
            - {benchmark: collective, op: barrier, ranks: [4, 6], backend: mpi}\n  \
            - {benchmark: collective, op: barrier, ranks: 8, backend: shm}\n";
        let plan = record::plan::read(text, "plan.yaml", &benchmarks::abouts(), &[]).unwrap();
        let target = TARGETS.iter().find(|one| one.name == "slurm").unwrap();
        let asked = Asked {
            target,
            plan: &plan,
            file: Path::new("plan.yaml"),
            ranks: None,
            program: &|| Ok::<_, Error>("rankmark".to_owned()),
            record: None,
            written: "20261129T181500Z".to_owned(),
            options: vec![("nodes", "4".to_owned()), ("mpi", "pmix".to_owned())],
            trusted: false,
        };
        let (job, _) = of_plan(asked).unwrap();
        let steps: Vec<(u32, u32)> = job.steps.iter().map(|step| (step.ranks, step.nodes)).collect();
        assert_eq!((steps.as_slice(), job.ranks, job.nodes), (&[(4, 4), (6, 3)][..], 8, 4));
        let script = target.text(&job).unwrap();
        for asked in ["nodes=4", "ntasks=8", "ntasks-per-node=2"] {
            assert!(script.contains(&format!("#SBATCH --{asked}\n")), "{asked}: {script}");
        }
        assert!(script.contains("srun --ntasks=4 --nodes=4 ") && script.contains("srun --ntasks=6 --nodes=3 "));
    }
}
