//! The text of the Intel MPI Benchmarks (IMB-MPI1): several benchmarks and numbers of processes in one file.

use terms::{Collective, Dtype, Error, Reduce};

use super::command;
use super::nccl::plain;
use super::osu::{per_rank, time};
use super::row_like::{self, Words};
use super::runs::Runs;
use super::versions::{self, unknown_column};
use crate::collective::{self, Call};
use crate::{Content, Details, Figures, Format, Line, Results, Source};

/// The format.
pub(super) struct Imb;

impl Format for Imb {
    fn name(&self) -> &'static str {
        "imb"
    }

    fn doc(&self) -> &'static str {
        "Intel MPI Benchmarks: what IMB-MPI1 prints"
    }

    fn begins(&self, line: &str) -> bool {
        let bare = line.trim_start_matches(['#', ' ']);
        bare.starts_with("Benchmarking ") || (bare.starts_with("Intel") && bare.contains("MPI Benchmark"))
    }

    fn marks(&self) -> &'static [&'static str] {
        &["# Benchmarking ", "#bytes", "#repetitions", "MPI Benchmark"]
    }

    fn recognises(&self, source: &Source) -> bool {
        let text = source.text();
        text.contains("#repetitions") && source.lines().any(|line| line.text.contains("# Benchmarking "))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = Reader { source, results: Runs::default(), head: Head::default(), table: Table::default() };
        for line in source.lines() {
            reader.line(line)?;
        }
        Ok(Content::Results(reader.results.finish(source)?))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Bytes,
    Repetitions,
    Time,
    Min,
    Max,
    Average,
    Defects,
    Rate,
}

#[derive(Default)]
struct Table {
    name: String,
    /// None where it has no counterpart here, or several groups ran at once.
    op: Option<Collective>,
    ranks: Option<u32>,
    columns: Vec<Column>,
    line: usize,
}

/// What the head of a run says.
struct Head {
    tool: String,
    facts: Vec<(String, String)>,
    notes: Vec<String>,
    /// What of the command line decides how calls are timed.
    method: String,
    command: String,
    device: &'static str,
    /// Types of what is reduced and of the rest.
    reduced: Option<Dtype>,
    other: Dtype,
    reduce: Option<Reduce>,
    /// Whether its tables have begun.
    is_over: bool,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            tool: "Intel MPI Benchmarks".to_owned(),
            facts: Vec::new(),
            notes: Vec::new(),
            method: String::new(),
            command: String::new(),
            device: "cpu",
            reduced: Some(Dtype::F32),
            other: Dtype::U8,
            reduce: Some(Reduce::Sum),
            is_over: false,
        }
    }
}

/// Options that tell what is measured, or that do not change how calls run.
const NO_METHOD: &[&str] = &[
    "-npmin",
    "-msglen",
    "-msglog",
    "-mem",
    "-input",
    "-include",
    "-exclude",
    "-time",
    "-data_type",
    "-red_data_type",
];

struct Reader<'s> {
    source: &'s Source,
    results: Runs,
    head: Head,
    table: Table,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        let bare = text.trim_start_matches(['#', ' ']);
        if text.starts_with("#bytes") || text.starts_with("#repetitions") {
            self.header(line.number, text)?;
        } else if row_like::begins_with_number(text)
            || (!text.starts_with('#') && !text.contains("IMB-") && Words::count(text).may_be(self.table.columns.len()))
        {
            self.row(line.number, text)?;
        } else if let Some(name) = bare.strip_prefix("Benchmarking ") {
            self.benchmark(line.number, name);
        } else if let Some(ranks) = bare.strip_prefix("processes = ") {
            self.table.ranks = ranks.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        } else if bare.contains("groups of") && bare.contains("simultaneous") && self.table.op.take().is_some() {
            let what = format!("`{}`: several groups ran at once", self.table.name);
            self.results().omit(line.number, what);
        } else if let Some(results) = self.results.current().filter(|_| row_like::is_ending(text)) {
            results.quote(format!("line {}: {}", line.number, plain(text)));
        } else {
            self.head(line.number, text, bare);
        }
        Ok(())
    }

    /// Results of the head.
    fn results(&mut self) -> &mut Results {
        let head = &mut self.head;
        let new = || Results::new(head.tool.clone(), "mean over iterations of the mean over ranks");
        if std::mem::replace(&mut head.is_over, true) {
            return self.results.current_or(new);
        }
        let results = self.results.begin(format!("{}: {}", head.tool, head.method), &head.command, new());
        results.tell(std::mem::take(&mut head.facts));
        std::mem::take(&mut head.notes).into_iter().for_each(|note| results.note(note));
        results
    }

    fn benchmark(&mut self, number: usize, name: &str) {
        let op = collective::op(name.trim()).filter(|op| *op != Collective::AllToAllV && !name.contains("_block"));
        if op.is_none() {
            self.results().omit(number, format!("`{}` has no counterpart here", plain(name)));
        }
        self.table = Table { name: plain(name), op, line: number, ..Table::default() };
    }

    /// What the head of a run says.
    fn head(&mut self, number: usize, text: &str, bare: &str) {
        if bare.starts_with("Intel") && bare.contains("MPI Benchmark") {
            (self.head, self.table) = (Head::default(), Table::default());
            let is_version = |word: &&str| word.trim_start_matches('V').starts_with(|c: char| c.is_ascii_digit());
            if let Some(version) = bare.split([' ', ',']).find(is_version) {
                self.head.notes.extend(versions::IMB.unseen(number, version));
                self.head.tool = format!("Intel MPI Benchmarks {}", plain(version));
            }
            if bare.contains("(GPU)") {
                self.on_gpus();
            }
            return;
        }
        if let Some((before, options)) = bare.split_once("IMB-MPI1") {
            // That of the next run is repeated in its head.
            if self.head.is_over {
                return;
            }
            let is_gpu = options.starts_with("-GPU");
            let options = options.strip_prefix("-GPU").unwrap_or(options);
            self.head.method = command::method(before, options, NO_METHOD);
            self.head.command = command::plain(bare);
            self.head.facts.push(("command line".to_owned(), plain(bare)));
            let memory = options.split_once("-mem_alloc_type ").map_or("", |(_, value)| value.trim_start());
            if is_gpu && !["host", "cpu"].iter().any(|word| memory.starts_with(word)) {
                self.on_gpus();
            } else if is_gpu {
                (self.head.device, self.head.notes) = ("cpu", Vec::new());
            }
        } else if !text.starts_with('#') {
            self.results.headings.add(number, text);
        }
        let Some((name, value)) = bare.split_once(':') else { return };
        let value = value.trim();
        match name.trim() {
            "MPI_Datatype" => self.head.other = collective::dtype(value).unwrap_or(Dtype::U8),
            "MPI_Datatype for reductions" => self.head.reduced = collective::dtype(value),
            "MPI_Op" => self.head.reduce = collective::reduce(value),
            "Date" | "Machine" | "System" | "Release" | "Version" | "MPI Version" => {
                self.head.facts.push((plain(name), plain(value)));
            }
            _ => {}
        }
    }

    /// Notes that buffers are in the memory of GPUs.
    fn on_gpus(&mut self) {
        self.head.device = "gpu";
        let note = "the buffers were in the memory of GPUs; the file does not say which kind";
        if !self.head.notes.iter().any(|known| known == note) {
            self.head.notes.push(note.to_owned());
        }
    }

    fn header(&mut self, number: usize, text: &str) -> Result<(), Error> {
        let mut columns = Vec::new();
        for word in text.split_ascii_whitespace() {
            columns.push(match word {
                "#bytes" => Column::Bytes,
                "#repetitions" => Column::Repetitions,
                "t[usec]" => Column::Time,
                "t_min[usec]" => Column::Min,
                "t_max[usec]" => Column::Max,
                "t_avg[usec]" => Column::Average,
                "defects" => Column::Defects,
                "Mbytes/sec" | "Msg/sec" => Column::Rate,
                // Tables of other suites have columns of their own.
                _ if self.table.op.is_none() => continue,
                _ => {
                    let known =
                        "#bytes #repetitions t[usec] t_min[usec] t_max[usec] t_avg[usec] Mbytes/sec Msg/sec defects";
                    return Err(unknown_column(self.source, number, &self.head.tool, word, known));
                }
            });
        }
        self.table.columns = columns;
        Ok(())
    }

    fn row(&mut self, number: usize, text: &str) -> Result<(), Error> {
        let Some(op) = self.table.op else { return Ok(()) };
        if self.table.columns.is_empty() {
            if Words::count(text).are_a_row() {
                self.results().omit(number, "no header of a table stands above this line");
            }
            return Ok(());
        }
        let ranks = match self.table.ranks {
            Some(ranks) => ranks,
            None => collective::given_ranks(self.source)?
                .ok_or_else(|| collective::no_ranks(self.source, self.table.line))?,
        };
        let Head { reduced, other, reduce: reduction, device, .. } = self.head;
        let call = Call::new(op, ranks, "mpi", device);
        let has_place = !matches!(op, Collective::PingPong | Collective::SendRecv | Collective::Barrier);
        let read = figures(&self.table.columns, text).and_then(|(bytes, figures)| {
            let dtype = if op.reduces() { reduced.ok_or("rankmark does not have its element type")? } else { other };
            let reduce =
                if op.reduces() { Some(reduction.ok_or("rankmark does not have its reduction")?) } else { None };
            let bytes = bytes.checked_mul(if per_rank(op) { u64::from(ranks) } else { 1 });
            let bytes = bytes.ok_or("its size is too large")?;
            if bytes == 0 && op != Collective::Barrier {
                return Err("0 bytes: nothing moves".to_owned());
            }
            Ok((Call { dtype, reduce, bytes, in_place: has_place.then_some(false), ..call }, figures))
        });
        let results = self.results();
        match read {
            Err(why) => results.omit(number, why),
            Ok((call, figures)) => {
                if per_rank(op) {
                    results.note(
                        "bytes of all_gather, all_to_all, gather and scatter are the printed size x ranks: it counts one rank's \
                         part",
                    );
                }
                if figures.details.is_some() {
                    results.note("smallest and largest are over ranks");
                }
                let place = results.place(call.shape());
                results.add_at(place, figures);
            }
        }
        Ok(())
    }
}

/// The size and the figures of a line.
fn figures(columns: &[Column], text: &str) -> Result<(u64, Figures), String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if words.len() != columns.len() {
        return Err(format!("expected {} columns, found {}", columns.len(), words.len()));
    }
    let (mut bytes, mut found, mut details) = (0, Figures::default(), Details::default());
    for (column, word) in columns.iter().zip(words) {
        let seconds = || time(word, 1e-6);
        let whole = || word.parse::<u64>().map_err(|_| format!("expected a whole number, found `{}`", plain(word)));
        match column {
            Column::Bytes => bytes = whole()?,
            Column::Repetitions => found.iterations = Some(whole()?),
            Column::Time | Column::Average => found.time_s = seconds()?,
            Column::Min => details.min = Some(seconds()?),
            Column::Max => details.max = Some(seconds()?),
            Column::Defects => {
                let share: f64 = word.parse().map_err(|_| format!("expected defects, found `{}`", plain(word)))?;
                if share != 0.0 {
                    return Err("its own check failed".to_owned());
                }
                found.wrong = Some(0);
            }
            Column::Rate => {}
        }
    }
    if found.time_s <= 0.0 {
        return Err("expected the column t_avg[usec] or t[usec]".to_owned());
    }
    if details != Details::default() {
        found.details = Some(Box::new(details));
    }
    Ok((bytes, found))
}
