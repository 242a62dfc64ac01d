//! The table that `log_summary()` of DeepSpeed's communication logger prints (`CommsLogger.log_all` of
//! `deepspeed/utils/comms_logging.py`), and the table of stragglers behind it.
//!
//! Times are those of calls within a job: a call takes as long as rank 0 waits for it. Sizes are rounded. Bandwidths
//! follow from both, and the share of the bus tells how many ranks the job has.

mod calls;
mod rows;

use terms::Error;

use super::deepspeed_tables::{self, behind};
use super::nccl::{fact, plain};
use super::row_like;
use super::runs::{self, Headings, MOST_RESULTS, Origin};
use super::versions::unknown_column;
use crate::collective;
use crate::{Content, Details, Figures, Format, Line, Results, Source};
use rows::{CommsRow, TableKind, TableLine};

/// The format.
pub(super) struct DeepspeedComms;

impl Format for DeepspeedComms {
    fn about(&self) -> (&'static str, &'static str) {
        ("deepspeed_comms", "DeepSpeed's communication logger: the table of log_summary(), with stragglers or without")
    }

    fn begins(&self, line: &str) -> bool {
        rows::head(line).is_some()
    }

    fn marks(&self) -> &'static [&'static str] {
        &["Comm. Op", "Message Size", "Total Latency(ms)", "busbw_avg (Gbps)"]
    }

    fn recognises(&self, source: &Source) -> bool {
        source.text().contains(rows::HEAD) && source.lines().any(|line| rows::head(line.text).is_some())
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let given = collective::given_ranks(source)?;
        let mut reader = CommsReader { source, given, ..CommsReader::new(source) };
        for line in source.lines() {
            reader.line(line)?;
        }
        reader.finish().map(Content::Results)
    }
}

/// A table: its head, and the rows of one kind.
struct CommsTable {
    line: usize,
    kind: TableKind,
    prefix: String,
    origin: Origin,
    /// From the launcher above.
    launched: Option<u32>,
    /// From the log above.
    backend: Option<String>,
    /// Names of operations, as their lines come: `all_reduce | [Caller Func: has_overflow]`.
    names: Vec<(usize, String)>,
    rows: Vec<(usize, CommsRow)>,
    /// Lines that could not be read, and why.
    lost: Vec<(usize, String)>,
}

struct CommsReader<'s> {
    source: &'s Source,
    given: Option<u32>,
    headings: Headings,
    launched: Option<u32>,
    backend: Option<String>,
    tables: Vec<CommsTable>,
}

impl<'s> CommsReader<'s> {
    fn new(source: &'s Source) -> Self {
        Self { source, given: None, headings: Headings::default(), launched: None, backend: None, tables: Vec::new() }
    }

    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        if let Some(prefix) = rows::head(line.text) {
            let head = &line.text[prefix.len()..];
            // Who quotes a table may put a mark before its first line alone.
            let is_mark = prefix.trim_matches(['`', '"', ' ']).is_empty();
            return self.begin(line.number, if is_mark { "" } else { prefix }, head);
        }
        let bare = self.tables.last().and_then(|table| behind(line.text, &table.prefix));
        match (self.tables.last_mut(), bare) {
            (Some(table), Some(text)) => match rows::read(text, table.kind, table.names.is_empty()) {
                TableLine::Row(row) => table.row(self.source, line.number, row)?,
                TableLine::Name(name) => table.name(self.source, line.number, name)?,
                TableLine::Damaged(why) => table.lost.push((line.number, why)),
                TableLine::Other => self.other(line),
            },
            (Some(table), None) if rows::is_row_within(line.text) => {
                let why = "a row behind another prefix than that of the table above";
                table.lost.push((line.number, why.to_owned()));
            }
            _ => self.other(line),
        }
        Ok(())
    }

    /// A line of somebody else.
    fn other(&mut self, line: Line<'_>) {
        if let Some(backend) = deepspeed_tables::backend(line.text) {
            self.backend = Some(backend);
        }
        if let Some(ranks) = deepspeed_tables::world(line.text) {
            self.launched = Some(ranks);
        }
        if !row_like::is_ending(line.text) {
            self.headings.add(line.number, line.text);
        }
    }

    fn begin(&mut self, line: usize, prefix: &str, head: &str) -> Result<(), Error> {
        let tool = "DeepSpeed's communication logger";
        let kind = match rows::kind(head) {
            Ok(kind) => kind,
            Err(Some(column)) => return Err(unknown_column(self.source, line, tool, &column, rows::COLUMNS)),
            Err(None) => {
                let what = "the head of the table is cut: its last column is `busbw_avg (Gbps)` or `Avg straggler(ms)`";
                return Err(self.source.error(line, what).hint("print it again with wider lines, or into a file"));
            }
        };
        let is_second = |last: &CommsTable| last.rows.is_empty() && last.names.is_empty() && last.prefix == prefix;
        if let Some(last) = self.tables.last().filter(|last| is_second(last)) {
            let what = format!("a second head, and the table of line {} has no line yet: {}", last.line, rows::MIXED);
            return Err(self.source.error(line, what));
        }
        self.tables.push(CommsTable {
            line,
            kind,
            prefix: prefix.to_owned(),
            origin: self.headings.begin(""),
            launched: self.launched,
            backend: self.backend.clone(),
            names: Vec::new(),
            rows: Vec::new(),
            lost: Vec::new(),
        });
        Ok(())
    }

    /// One record a table and calling function: each table counts all calls since the start, so tables are not trials.
    fn finish(self) -> Result<Vec<Results>, Error> {
        let mut found: Vec<(Origin, Results)> = Vec::new();
        let mut ranks_above = None;
        for table in &self.tables {
            let ranks = table.ranks(self.source, self.given, ranks_above)?;
            ranks_above = ranks;
            if table.rows.is_empty() && table.lost.is_empty() {
                continue;
            }
            let ranks = ranks.ok_or_else(|| collective::no_ranks(self.source, table.line))?;
            let mut results = table.results(ranks);
            if let (Some(given), Some(first)) = (self.given.filter(|given| *given != ranks), results.first_mut()) {
                let line = table.told().line.max(table.line);
                first.note(format!(
                    "line {line}: busbw_avg / tput_avg is that of {ranks} ranks, so {given} is not used"
                ));
            }
            found.extend(results.into_iter().map(|results| (table.origin.clone(), results)));
        }
        if found.is_empty() {
            let what = format!("{} holds no line of results", self.source.name());
            return Err(Error::new(what).hint("the table is cut off behind its head"));
        }
        if found.len() > MOST_RESULTS {
            let what = format!("{} holds more than {MOST_RESULTS} tables", self.source.name());
            return Err(Error::new(what).hint("each counts all calls since the start: keep the last one"));
        }
        Ok(runs::name(found.into_iter()))
    }
}

impl CommsTable {
    fn name(&mut self, source: &Source, line: usize, name: &str) -> Result<(), Error> {
        if let Some((first, _)) = self.names.iter().find(|(_, known)| known == name) {
            let what = format!("`{}` stands twice in one table, first in line {first}: {}", plain(name), rows::MIXED);
            return Err(source.error(line, what));
        }
        self.names.push((line, name.to_owned()));
        Ok(())
    }

    /// Sizes of an operation are sorted. Two may be printed alike, because they are rounded.
    fn row(&mut self, source: &Source, line: usize, row: CommsRow) -> Result<(), Error> {
        let row = CommsRow { name: self.names.len().saturating_sub(1), ..row };
        if let Some((first, last)) = self.rows.last().filter(|(_, last)| last.name == row.name)
            && last.size.bytes > row.size.bytes
        {
            let what = format!("the size is smaller than that of line {first}: {}", rows::MIXED);
            return Err(source.error(line, what));
        }
        self.rows.push((line, row));
        Ok(())
    }

    /// Ranks of the job: busbw is (n-1)/n of tput for some operations; else as the user or a launcher says.
    fn ranks(&self, source: &Source, given: Option<u32>, above: Option<u32>) -> Result<Option<u32>, Error> {
        let told = self.told();
        match (told.only(), given) {
            (None, Some(given)) if !told.may_be(given) => {
                let what = format!("busbw_avg / tput_avg is not that of {given} ranks");
                Err(source.error(told.line, what).hint("give the ranks of the whole job"))
            }
            (only, given) => Ok(only.or(given).or(above).or(self.launched)),
        }
    }

    /// What shares of the bus say of the number of ranks.
    fn told(&self) -> rows::Ranks {
        let mut told = rows::Ranks::default();
        for (line, row) in self.rows.iter().filter(|_| self.kind == TableKind::Latency) {
            let (name, _) = rows::caller(&self.names[row.name].1);
            if calls::has_share(name) {
                told.narrow(*line, row);
            }
        }
        told
    }

    /// Results by calling function: with `debug`, each has lines of its own.
    fn results(&self, ranks: u32) -> Vec<Results> {
        let mut all: Vec<(&str, Results)> = Vec::new();
        for (line, row) in &self.rows {
            let (name, caller) = rows::caller(&self.names[row.name].1);
            let at = all.iter().position(|(known, _)| *known == caller).unwrap_or_else(|| {
                all.push((caller, self.empty(ranks, caller)));
                all.len() - 1
            });
            self.add(&mut all[at].1, *line, name, row, ranks);
        }
        if all.is_empty() {
            all.push(("", self.empty(ranks, "")));
        }
        self.lost.iter().for_each(|(line, why)| all[0].1.omit(*line, why));
        all.into_iter().map(|(_, results)| results).collect()
    }

    fn empty(&self, ranks: u32, caller: &str) -> Results {
        let trimmed = "without the shortest and the longest tenth";
        let statistic = match self.kind {
            TableKind::Latency => format!("mean over the calls of rank 0, {trimmed}, with waiting for other ranks"),
            TableKind::Straggler => format!("mean over calls of the time of the rank that waited least, {trimmed}"),
        };
        let mut results = Results::new("DeepSpeed communication logger", statistic);
        results.begin_run();
        results.note(format!(
            "the table does not tell which ranks make a call: each is read as one of all {ranks} ranks of the job"
        ));
        results.note("the table does not tell the element type: sizes are read as bytes, of type u8");
        results.note("times are printed to 0.01 ms");
        let table = match self.kind {
            TableKind::Latency => "all calls since the start",
            TableKind::Straggler => "breakdown with straggler effect",
        };
        results.facts.insert("table".to_owned(), table.to_owned());
        if !caller.is_empty() {
            results.facts.insert("caller".to_owned(), fact(caller));
        }
        if self.kind == TableKind::Straggler {
            results.note(
                "DeepSpeed before its pull request 8199 sorted the times of each rank before it compared them: \
                 then these times are too long, and stragglers too short",
            );
            let unread = "the columns `Total straggler(ms)` and `Avg straggler(ms)`: what rank 0 waited is the \
                          difference to the table above";
            results.leave_unread(unread.to_owned());
        }
        if self.backend.is_none() {
            results.note("the file does not tell the backend: it is read as nccl, DeepSpeed's for GPUs");
        }
        results
    }

    fn add(&self, results: &mut Results, line: usize, name: &str, row: &CommsRow, ranks: u32) {
        let size = row.size;
        let shape = match calls::shape(name, size.bytes, ranks, self.backend.as_deref()) {
            Ok(shape) => shape,
            Err(why) => return results.omit(line, why),
        };
        if row.average_ms <= 0.0 {
            return results.omit(line, "a mean of 0.00 ms: it is shorter than the digits show");
        }
        if let Some(unit) = size.rounded_in {
            let within = (size.within().ceil() as u64).to_string();
            results
                .note(format!("sizes in {unit} are rounded to 0.01 {unit}: bytes are within {within} of those sent"));
        }
        if name == "all_to_all_single" || name == "all_to_all" {
            results.note(format!("`{name}` is read as blocks of equal size: the table does not tell how it was split"));
        }
        let mean = (row.total_ms > 0.0).then(|| row.total_ms * 1e-3 / row.count as f64);
        let figures = Figures {
            time_s: row.average_ms * 1e-3,
            iterations: Some(row.count),
            wrong: None,
            details: Some(Box::new(Details { mean, ..Details::default() })),
        };
        let place = results.place(shape);
        if results.shapes()[place].1.is_empty() {
            results.add_at(place, figures);
        } else {
            results.omit(line, "a line above is of the same operation, and its size is printed alike");
        }
    }
}
