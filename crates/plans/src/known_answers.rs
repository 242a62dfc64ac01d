//! Known answers, as `validate` asks for them: a small all_reduce in each backend, with each MPI library, in PyTorch.

use std::path::Path;
use std::time::Duration;

use benchmarks::Host;
use comm::{Backend, Readiness};
use launch::HostStarter;
use measure::machine;
use record::{Case, PlanErrors};
use survey::{Finding, State};
use terms::{Error, Seconds, Status};

/// The group of backends' own rows.
const GROUP: &str = "backends";

/// What a known-answer test may take, from starting its ranks to their end.
const LIMIT: Duration = Duration::from_secs(30);

/// Who asks. Must be used on the main thread, which ranks are tied to.
pub struct KnownAnswers<'a> {
    /// What ranks have here.
    pub host: &'a Host,
    /// Whether no ranks are started.
    pub quick: bool,
    /// Who starts ranks.
    pub starter: fn() -> HostStarter,
    /// Why this is to end, once it is.
    pub interrupted: fn() -> Option<String>,
}

impl KnownAnswers<'_> {
    /// A row for each backend.
    ///
    /// # Errors
    /// When the user ended it.
    pub fn of_backends(&self) -> Result<Vec<Finding>, PlanErrors> {
        comm::backends().map(|backend| self.row(backend)).collect()
    }

    /// Checks what the survey found: each MPI library with its own launcher, and the backends of PyTorch. After
    /// [`Self::of_backends`]. Other rows stay as they are.
    ///
    /// # Errors
    /// When the user ended it.
    pub fn of_found(&self, rows: Vec<Finding>, python: Option<&Path>) -> Result<Vec<Finding>, PlanErrors> {
        let one = |row: Finding| match fields_of(&row, python) {
            Some(fields) => self.answered(row, &fields),
            None => Ok(row),
        };
        rows.into_iter().map(one).collect()
    }

    fn row(&self, backend: &dyn Backend) -> Result<Finding, PlanErrors> {
        let about = backend.about();
        let (version, path) = match backend.probe() {
            Readiness::Missing { why, hint } => return Ok(Finding::missing(about.name, why).fix(hint).group(GROUP)),
            Readiness::Ready { version, path } => (version, path),
        };
        let place = path.map_or(String::new(), |path| format!("  {path}"));
        let row = Finding::ready(about.name, format!("{version}{place}")).group(GROUP);
        self.answered(row, &[("backend", about.name.to_owned())])
    }

    /// A row that is ready, and what became of its known answer.
    fn answered(&self, row: Finding, fields: &AnswerFields) -> Result<Finding, PlanErrors> {
        let Finding { group, name, found, library, .. } = row;
        let case = case(fields)?;
        let asked = asked(&case);
        let answered = if let Some(why) = &case.skip {
            Finding::missing(name, why)
        } else if self.quick {
            Finding::ready(name, format!("{found}; not run"))
        } else {
            match self.known_answer(&case) {
                BackendAnswer::Right(time) => {
                    let time = said(time, benchmarks::is_simulated(&case));
                    Finding::ready(name, format!("{found}; {asked} right{time}"))
                }
                BackendAnswer::Lacking(why) => Finding::missing(name, format!("{found}; {asked}: {why}")),
                BackendAnswer::Wrong(why) => {
                    let flags: String =
                        fields.iter().map(|(name, value)| format!(" --{} {value}", name.replace('_', "-"))).collect();
                    let ranks = if flags.contains(" --ranks ") { "" } else { " --ranks 2" };
                    Finding::misconfigured(name, format!("{found}; {asked}: {why}"))
                        .impact("no case of it can be trusted here")
                        .fix(format!("rankmark comm all_reduce{ranks} --bytes 64KiB{flags} shows more"))
                }
            }
        };
        let answered = Finding { group, library, ..answered };
        // What the user ended has not failed.
        (self.interrupted)().map_or(Ok(answered), |why| Err(Error::new(why).into()))
    }

    /// All ranks' sums, every element of them, by the path that every measurement takes.
    fn known_answer(&self, case: &Case) -> BackendAnswer {
        let mut starter = (self.starter)().limit(LIMIT);
        let line = runner::trial(case, self.host, &mut starter, LIMIT, self.interrupted);
        match (line.status, line.wrong) {
            (Status::Ok, Some(0)) => BackendAnswer::Right(line.time_s.map(|times| times.median)),
            (Status::Ok, wrong) => BackendAnswer::Wrong(format!("not checked ({wrong:?})")),
            (Status::Skipped, _) => BackendAnswer::Lacking(line.reason.unwrap_or_else(|| "skipped".to_owned())),
            _ => BackendAnswer::Wrong(line.reason.unwrap_or_else(|| "failed".to_owned())),
        }
    }
}

/// Fields of a case by which a row's known answer is asked for.
type AnswerFields = [(&'static str, String)];

/// None for rows that are not ready, and for libraries by which no native rank moves data.
fn fields_of(row: &Finding, python: Option<&Path>) -> Option<Vec<(&'static str, String)>> {
    if row.state != State::Ready {
        return None;
    }
    if let Some(library) = &row.library {
        let loading = |backend: &dyn Backend| backend.fields().iter().find(|field| field.loads).map(|field| field.name);
        let (backend, field) = comm::backends().find_map(|it| Some((it.about().name, loading(it)?)))?;
        return Some(vec![("backend", backend.to_owned()), (field, library.display().to_string())]);
    }
    let backend = row.name.strip_prefix("pytorch/")?;
    let mut fields = vec![("runtime", "pytorch".to_owned()), ("backend", backend.to_owned())];
    fields.extend(python.map(|python| ("python", python.display().to_string())));
    if backend == "nccl" && machine::gpus() > 0 {
        // It moves GPU memory only, and each rank needs one.
        fields.extend([("device", "cuda".to_owned()), ("ranks", machine::gpus().min(2).to_string())]);
    }
    Some(fields)
}

/// What is asked for.
fn asked(case: &Case) -> String {
    let ranks = case.ranks();
    format!("64 KiB all_reduce on {ranks} rank{}", if ranks == 1 { "" } else { "s" })
}

/// A time that was computed is none.
fn said(time: Option<f64>, simulated: bool) -> String {
    match time {
        _ if simulated => ", simulated".to_owned(),
        Some(time) => format!(", {}", Seconds(time)),
        None => String::new(),
    }
}

/// The known answer by shared memory on so many ranks.
pub(crate) fn by_shared_memory(ranks: usize) -> Result<Case, PlanErrors> {
    case(&[("backend", "shm".to_owned()), ("ranks", ranks.to_string())])
}

/// The case with a known answer.
fn case(fields: &AnswerFields) -> Result<Case, PlanErrors> {
    let fixed = [
        ("op", "all_reduce"),
        ("ranks", "2"),
        ("bytes", "64KiB"),
        ("iters", "6"),
        ("warmup", "1"),
        ("max_seconds", "1s"),
        ("timeout", "20s"),
        ("limits", "false"),
    ];
    let is_open = |(name, _): &&(&str, &str)| fields.iter().all(|(own, _)| own != name);
    let fixed = fixed.iter().filter(is_open).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let own = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let fields: Vec<(String, String)> = fixed.chain(own).collect();
    let unknown = || Error::new("there is no benchmark of one operation");
    let benchmark = benchmarks::benchmark("collective").ok_or_else(unknown)?;
    let plan = record::plan::from_flags(benchmark.about(), &fields, &[])?;
    plan.cases.into_iter().next().ok_or_else(|| Error::new("there is no case of a known answer").into())
}

/// What became of it.
enum BackendAnswer {
    /// With the median time in seconds.
    Right(Option<f64>),
    /// The answer could not be asked for, as this machine is.
    Lacking(String),
    Wrong(String),
}
