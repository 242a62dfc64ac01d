//! What the commands read, made when a row needs it and removed when another one needs something else.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::runs;

use super::child::{self, Cost};
use super::logs::{self, Distinct};
use super::records::{Lines, Seed, Vary};
use super::rows::Row;

/// What a row reads, of a number of cases, calls, lines or records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// A plan of so many cases.
    Plan(Planned),
    /// A trace of PyTorch's profiler: steps, and files of one rank each, with as many calls together.
    Trace(Distinct, usize, u32),
    /// A log of nccl-tests.
    NcclTests,
    /// A log of OSU's benchmarks.
    Osu,
    /// A record.
    Record(Vary, Lines),
    /// So many records of four cases.
    Records,
    /// Six records of so many cases.
    SixRecords,
    /// The record of a launcher with so many nodes.
    Fleet,
    /// The record of an invented run with sweeps, training, failures and drift (crates/report/examples/large.rs).
    Invented,
}

/// What a plan's cases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planned {
    Calls,
    Backends,
    Training,
}

/// The plan of the run whose lines records are made of.
const SEED: &str = "experiment: scale\ncases:\n  - {benchmark: collective, op: all_reduce, backend: sim, ranks: 2, \
                    bytes: [1KiB, 64KiB], quick: true}\n";

/// Makes inputs below a folder.
pub(super) struct Inputs {
    programs: PathBuf,
    folder: PathBuf,
    /// The last that was made, and its sizes.
    made: Option<(Input, Vec<usize>)>,
    seed: Option<Seed>,
}

impl Inputs {
    /// `programs`: where cargo put them.
    pub(super) fn new(programs: &Path, folder: &Path) -> Self {
        Self { programs: programs.to_owned(), folder: folder.to_owned(), made: None, seed: None }
    }

    /// What a row's command takes with an input of this size.
    pub(super) fn cost(&mut self, row: &Row, size: usize) -> Result<Cost, String> {
        let input = self.input(row.input, size).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let out = self.folder.join("out");
        runs::cleared(&out)?;
        let path = |path: &Path| path.display().to_string();
        let word = |word: &&str| match *word {
            "INPUT" => vec![path(&input)],
            "INPUT/*" => inside(&input).iter().map(|file| path(file)).collect(),
            "OUT" => vec![path(&out)],
            other => vec![other.to_owned()],
        };
        let words: Vec<String> = row.words.iter().flat_map(word).collect();
        let cost = child::cost(&self.programs.join("rankmark"), &words, &self.folder, row.codes)?;
        if row.changes_its_input {
            self.forget()?;
        }
        Ok(cost)
    }

    /// Removes all inputs.
    fn forget(&mut self) -> Result<(), String> {
        self.made = None;
        runs::cleared(&self.folder.join("in")).map(drop)
    }

    fn input(&mut self, input: Input, size: usize) -> Result<PathBuf, String> {
        if self.made.as_ref().is_none_or(|(made, _)| *made != input) {
            self.forget()?;
            self.made = Some((input, Vec::new()));
        }
        let path = self.folder.join("in").join(size.to_string());
        let known = self.made.as_mut().map(|(_, sizes)| sizes).filter(|sizes| !sizes.contains(&size));
        if let Some(known) = known {
            known.push(size);
            std::fs::create_dir_all(&path).map_err(|error| error.to_string())?;
            self.make(input, size, &path)?;
        }
        Ok(match input {
            Input::Plan(_) => path.join("plan.yaml"),
            Input::NcclTests | Input::Osu => path.join("log.txt"),
            _ => path,
        })
    }

    fn make(&mut self, input: Input, size: usize, folder: &Path) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        match input {
            Input::Plan(of) => std::fs::write(folder.join("plan.yaml"), plan(of, size)).map_err(failed),
            Input::Trace(distinct, steps, ranks) => {
                let of_rank = |rank: u32| {
                    let calls = size.div_ceil(ranks as usize);
                    let write = |to: &mut dyn Write| logs::trace(to, (calls, steps), distinct, rank);
                    file(&folder.join(format!("rank{rank}.pt.trace.json")), write)
                };
                (0..ranks).try_for_each(of_rank).map_err(failed)
            }
            Input::NcclTests => file(&folder.join("log.txt"), |to| logs::nccl_tests(to, size)).map_err(failed),
            Input::Osu => file(&folder.join("log.txt"), |to| logs::osu(to, size)).map_err(failed),
            Input::Invented => {
                let words = [folder.display().to_string(), size.to_string()];
                child::cost(&self.programs.join("examples/large"), &words, &self.folder, &[0]).map(drop)
            }
            Input::Fleet => self.seed()?.fleet(folder, size).map_err(failed),
            Input::Record(vary, lines) => self.seed()?.write(folder, size, (vary, lines, 1)).map_err(failed),
            Input::Records | Input::SixRecords => {
                let (records, cases) = if input == Input::Records { (size, 4) } else { (6, size) };
                let seed = self.seed()?;
                let of_one = |number: usize| {
                    seed.write(&folder.join(format!("r{number:05}")), cases, (Vary::Sizes, Lines::All, number + 1))
                };
                (0..records).try_for_each(of_one).map_err(failed)
            }
        }
    }

    /// A small run, made once.
    fn seed(&mut self) -> Result<&Seed, String> {
        if self.seed.is_none() {
            let folder = self.folder.join("seed");
            std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            std::fs::write(folder.join("plan.yaml"), SEED).map_err(|error| error.to_string())?;
            runs::cleared(&folder.join("record"))?;
            let words = ["run", "plan.yaml", "--quiet", "--output-dir", "record"].map(str::to_owned);
            child::cost(&self.programs.join("rankmark"), &words, &folder, &[0])?;
            self.seed = Some(Seed::read(&folder.join("record")).map_err(|error| format!("the seed: {error}"))?);
        }
        self.seed.as_ref().ok_or_else(|| "there is no seed".to_owned())
    }
}

fn file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut to = BufWriter::new(File::create(path)?);
    write(&mut to)?;
    to.flush()
}

/// The files of a folder, in the order of their names.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// A plan of as many cases, or a few fewer.
fn plan(of: Planned, cases: usize) -> String {
    let bytes = "bytes: [1KiB, 2KiB, 4KiB, 8KiB, 16KiB]";
    let (fields, in_seed) = match of {
        Planned::Calls => {
            (format!("benchmark: collective, op: [all_reduce, all_gather, broadcast, reduce], ranks: 2, {bytes}"), 20)
        }
        Planned::Backends => {
            (format!("benchmark: collective, op: all_reduce, backend: [shm, mpi, nccl, sim], ranks: 2, {bytes}"), 20)
        }
        Planned::Training => {
            ("benchmark: training, model: mlp, ranks: [1, 2], batch: [1, 2], overlap: [true, false]".to_owned(), 8)
        }
    };
    let seeds: Vec<String> = (0..(cases / in_seed).max(1)).map(|seed| seed.to_string()).collect();
    format!("experiment: many\ncases:\n  - {{{fields}, seed: [{}]}}\n", seeds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_stand_for_as_many_cases_as_they_say() {
        for of in [Planned::Calls, Planned::Backends, Planned::Training] {
            let text = plan(of, 20_000);
            let lists = text.split('[').skip(1).map(|rest| rest.split(']').next().unwrap_or("").split(',').count());
            assert_eq!(lists.product::<usize>(), 20_000, "{of:?}");
        }
    }
}
