//! `rankmark gen-job`: the file by which a launcher runs a plan.

mod place;
mod steps;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use clap::ArgMatches;
use comm::mpi::Facts;
use launch::job::{Job, Step, TARGETS, Target, srun_mpi};
use record::{Case, Plan};
use serde_json::json;

use crate::commands::trust;
use crate::commands::validate::plan::{self, Outlook};
use crate::{Failure, terminal};

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let named = matches.get_one::<String>("for");
    let target = TARGETS.iter().find(|target| named.is_some_and(|name| name == target.name));
    let target = target.ok_or_else(|| Failure::new("there is no such launcher"))?;
    let options = options(matches, target)?;
    let path = matches.get_one::<std::path::PathBuf>("plan").map_or(Path::new(""), std::path::PathBuf::as_path);
    let (file, plan) = plan::load(path)?;
    let numbers = numbers(&plan);
    let ranks = ranks(matches, &numbers)?;
    let nodes = nodes(&options, ranks, target)?;
    let several = numbers.len() > 1 && !matches.contains_id("ranks");
    let spread = steps::spread(if several { &numbers } else { &[] }, (ranks, nodes), target);
    let (outlook, running) = match several {
        true => outlook(file, &plan, &spread, target),
        false => outlook(file, &plan, &[Step { ranks, nodes, cores: 0 }], target),
    };
    if running.is_empty() {
        return Err(nothing_runs(&outlook, ranks));
    }
    let steps = steps::needed(spread, &running);
    // The largest step asks for the most; without steps it is the one.
    let Step { ranks, nodes, .. } = steps.last().copied().unwrap_or(Step { ranks, nodes, cores: 0 });
    let mut job = Job {
        experiment: plan.experiment.clone(),
        program: program(matches, target)?,
        plan: place::absolute(path)?,
        plan_text: plan.source_text.clone(),
        record: matches.get_one::<String>("output-dir").cloned(),
        cores: if several { steps::cores(&steps, (ranks, nodes)) } else { cores(&running, ranks) },
        steps,
        ranks,
        nodes,
        mpi: None,
        notes: Vec::new(),
        options,
    };
    job.notes = notes(&job, &outlook, target);
    if target.takes("mpi") && ranks > 1 {
        choose_mpi(&running, &mut job, matches.get_flag("trust-plan"));
    }
    let text = target.text(&job)?;
    deliver(matches, target, &job, &outlook, &text)
}

/// The options that were given, which must be the target's.
fn options(matches: &ArgMatches, target: &Target) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut given: Vec<(&'static str, String)> = Vec::new();
    for choice in TARGETS.iter().flat_map(|target| target.options) {
        if given.iter().any(|(name, _)| *name == choice.name) {
            continue;
        }
        let Some(value) = matches.get_one::<String>(choice.name) else { continue };
        if !target.takes(choice.name) {
            let own: Vec<String> = target.options.iter().map(|choice| format!("--{}", choice.name)).collect();
            let hint = format!("{} takes {}", target.name, own.join(", "));
            return Err(Failure::new(format!("`--{}` is not for {}", choice.name, target.name)).hint(hint));
        }
        given.push((choice.name, value.clone()));
    }
    Ok(given)
}

fn nothing_runs(outlook: &Outlook, ranks: u32) -> Failure {
    let mut failure = Failure::new("every case of the plan would be skipped");
    if let Some(first) = outlook.skipped.first() {
        failure = failure.cause(format!("{}: {}", first.name, first.reason));
    }
    let alone = "`--ranks 1` makes a job of one process, which starts the ranks of every case itself, on one host";
    if ranks > 1 { failure.hint(alone) } else { failure }
}

/// The numbers of ranks that a launcher must start, ascending.
fn numbers(plan: &Plan) -> Vec<u32> {
    let cases = plan.cases.iter().filter(|case| !benchmarks::is_in_process(case));
    cases.map(Case::ranks).collect::<BTreeSet<u32>>().into_iter().collect()
}

/// As many as were asked for, which some case must have, or 1; else the most that a case has.
fn ranks(matches: &ArgMatches, numbers: &[u32]) -> Result<u32, Failure> {
    let Some(asked) = matches.get_one::<u32>("ranks").copied() else {
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
fn program(matches: &ArgMatches, target: &Target) -> Result<String, Failure> {
    if let Some(given) = matches.get_one::<String>("program") {
        let fine = !given.is_empty() && !given.starts_with('-');
        return if fine { Ok(given.clone()) } else { Err(Failure::new("`--program` is not a program")) };
    }
    if target.rank_per_node {
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
        let other = worlds.entry(own).or_insert_with(|| case.clone()).world != case.world;
        other.then(|| {
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
    if target.rank_per_node && !job.options.iter().any(|(name, _)| *name == "claim") {
        notes.push("without --claim the record is gone with its pod; `kubectl logs` has the table".to_owned());
    }
    notes
}

fn deliver(matches: &ArgMatches, target: &Target, job: &Job, outlook: &Outlook, text: &str) -> Result<u8, Failure> {
    let output = matches.get_one::<std::path::PathBuf>("output");
    if let Some(path) = output {
        place::write(path, text, target.executable, matches.get_flag("force"))?;
    }
    if matches.get_flag("json") {
        let object = json!({
            "for": target.name,
            "output": output.map(|path| path.display().to_string()),
            "ranks": job.ranks,
            "steps": job.steps.iter().map(steps::json).collect::<Vec<_>>(),
            "nodes": job.nodes,
            "cores_per_process": job.cores,
            "plan": outlook.json(),
            "notes": job.notes,
            "text": text,
        });
        return terminal::print_json(&format!("{object}\n"));
    }
    let notes: String = job.notes.iter().map(|note| format!("{note}\n")).collect();
    match output {
        Some(path) => terminal::print(&format!("{notes}written  {}\n", path.display())),
        None => {
            // They stand in the text, too; who pipes it away should see them.
            terminal::remark(&notes);
            terminal::print(text)
        }
    }
}
