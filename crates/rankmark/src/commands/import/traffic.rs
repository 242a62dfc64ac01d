//! `rankmark import --as plan TRACE...`: the collectives of a traced job as a plan.

use import::traces::read_timeline;
use import::traffic::{JobTraffic, TrafficPlan};

use super::{Ended, Import, refuse_others};
use crate::options::refuse_given;
use crate::screen;

/// The name of the plan in what comes next: the shell writes it.
const PLAN: &str = "plan.yaml";

/// Prints the plan; what was read and left out goes to standard error.
pub(super) fn plan(given: &Import) -> Ended {
    let files = &given.file;
    refuse_others(files, "`--as plan` reads traces", "`rankmark import FILE` reads results and configurations")?;
    let others = [
        ("format", given.format.is_some()),
        ("op", given.op.is_some()),
        ("python", given.python.is_some()),
        ("output-dir", given.output_dir.is_some()),
    ];
    refuse_given(&others, "has no effect with `--as plan`, which prints a plan of traces")?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let traces = read_timeline(files)?;
    let format = traces.files.first().map_or("", |(_, format)| format);
    let job = JobTraffic { name: &names[0], ranks: given.ranks, identity: &identity };
    let made = import::traffic::plan(traces, &job)?;
    // What is printed must be a plan: a fault of the reader is an error here, not at the next command.
    record::plan::read(&made.plan.text, "the plan of these traces", &benchmarks::abouts(), &[])?;
    if given.json {
        return screen::print_json(&made.plan.as_json(("files", names.into()), format));
    }
    let summary = format!("{}\n{}{}", names.join(", "), made.plan.as_text(), next(&made, &names));
    screen::remark(&summary);
    screen::print(&made.plan.text)
}

/// The identity of the one case of a plan; else why it cannot run.
fn identity(text: &str) -> Result<String, String> {
    let plan = record::plan::read(text, "a collective", &benchmarks::abouts(), &[]);
    let case = plan
        .map_err(|errors| errors.errors.first().map_or_else(|| errors.to_string(), |error| error.error.what.clone()))?;
    let case = case.cases.into_iter().next().ok_or("the plan has no case")?;
    match case.skip {
        Some(why) => Err(why),
        None => Ok(case.id),
    }
}

/// What to type next: as many ranks as the job has, or as this machine has cores.
fn next(made: &TrafficPlan, names: &[String]) -> String {
    let cores = u32::try_from(measure::machine::allowed_cpus().len()).unwrap_or(u32::MAX).max(2);
    if made.ranks <= cores {
        return screen::next(&["rankmark", "run", PLAN], "runs this plan, once it is in a file");
    }
    let (cores, ranks) = (cores.to_string(), made.ranks);
    let why = format!("the job's {ranks} ranks are more than this machine has cores: {cores} of them");
    if made.is_uniform {
        return screen::next(&["rankmark", "run", PLAN, "--set", &format!("ranks={cores}")], &why);
    }
    let words: Vec<&str> = ["rankmark", "import", "--as", "plan", "--ranks", &cores]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect();
    screen::next(&words, &why)
}
