//! The text of the OSU Micro-Benchmarks, 3 to 7: collectives, blocking or not, the ping-pong of `osu_latency`, and the
//! rates of messages of `osu_bw` and `osu_bibw`.

use terms::Error;

use super::command::{Commands, JoinedLine};
use super::nccl::plain;
use super::osu_rows::OsuTable;
use super::osu_table::{self, OsuColumn};
use super::osu_title::{self, Buffers, Launched, Test, Title, launched, title};
use super::row_like::{self, WordCount};
use super::runs::Runs;
use super::sizes::{Mixed, Sizes};
use super::versions;
use crate::{Content, Format, Line, Results, Source, collective};

/// The format.
pub(super) struct Osu;

impl Format for Osu {
    fn about(&self) -> (&'static str, &'static str) {
        ("osu", "OSU Micro-Benchmarks: what osu_allreduce and its like print (give --ranks)")
    }

    fn begins(&self, line: &str) -> bool {
        title(line).is_some()
    }

    fn marks(&self) -> &'static [&'static str] {
        &["# OSU ", " Test", "# Size"]
    }

    fn recognises(&self, source: &Source) -> bool {
        source.text().contains("OSU ") && source.lines().any(|line| title(line.text).is_some())
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = OsuReader {
            source,
            commands: Commands::default(),
            launched: None,
            table: None,
            results: Runs::default(),
            mixed: None,
        };
        for line in source.lines() {
            reader.joined(line)?;
        }
        reader.end_table();
        let results = reader.results.finish(source)?;
        match reader.mixed.filter(|_| results.iter().all(Results::is_empty)) {
            Some(mixed) => Err(mixed.refusal(source)),
            None => Ok(Content::Results(results)),
        }
    }
}

/// The most sizes whose overlap is kept.
const MOST_OVERLAPS: usize = 64;

struct OsuReader<'s> {
    source: &'s Source,
    commands: Commands,
    /// The last command line: it is that of the table that begins next.
    launched: Option<Launched>,
    table: Option<OsuTable>,
    results: Runs,
    /// The first table that several programs wrote.
    mixed: Option<Mixed>,
}

impl OsuReader<'_> {
    /// A line, as a part of a command line or by itself.
    fn joined(&mut self, line: Line<'_>) -> Result<(), Error> {
        match self.commands.join(line.text.trim()) {
            JoinedLine::Line(text) => self.line(line.number, text),
            JoinedLine::GoesOn => Ok(()),
            JoinedLine::Whole(text) => self.line(line.number, &text),
        }
    }

    fn line(&mut self, number: usize, text: &str) -> Result<(), Error> {
        if let Some(title) = title(text) {
            self.end_table();
            return self.begin(number, title);
        }
        let bare = behind_mark(text);
        if bare.is_some_and(is_of_another) || text.starts_with("#bytes") {
            self.end_table();
        }
        let Some(table) = &mut self.table else {
            match launched(text) {
                Some(launched) => self.launched = Some(launched),
                None => self.results.headings.add(number, text),
            }
            return Ok(());
        };
        if let Some(bare) = bare {
            return self.head(number, bare);
        }
        let is_heading = row_like::is_heading(text);
        if row_like::begins_with_number(text) && !is_heading {
            self.row(number, text);
        } else if let Some(launched) = launched(text) {
            self.launched = Some(launched);
        } else if WordCount::count(text).may_be(table.columns.len()) && !is_heading {
            self.row(number, text);
        } else if let Some(results) = self.results.current().filter(|_| row_like::is_ending(text)) {
            results.quote(format!("line {number}: {}", plain(text)));
        } else {
            self.results.headings.add(number, text);
        }
        Ok(())
    }

    /// The results of the table.
    fn results(&mut self) -> Option<&mut Results> {
        let table = self.table.as_mut()?;
        if std::mem::replace(&mut table.has_begun, true) {
            return self.results.current();
        }
        let (method, text) = table.launched.as_ref().map_or(("", ""), |it| (&it.method, &it.text));
        let (text, statistic) = (text.to_owned(), table.statistic());
        let mut results = Results::new(table.tool.clone(), statistic.clone());
        table.unseen.take().into_iter().for_each(|note| results.note(note));
        if !method.is_empty() {
            results.facts.insert("settings of the command line".to_owned(), method.to_owned());
        }
        if let Some(buffers) = table.buffers.as_ref().filter(|_| table.test.is_some_and(Test::is_of_two)) {
            results.facts.insert("buffers".to_owned(), buffers.words());
        }
        table.tell(&mut results);
        let words = table.buffers.as_ref().map(Buffers::words).unwrap_or_default();
        let key = format!("{}: {method}: {statistic}: {words}", table.tool);
        Some(self.results.begin(key, &text, results))
    }

    fn omit(&mut self, line: usize, why: impl std::fmt::Display) {
        if let Some(results) = self.results() {
            results.omit(line, why);
        }
    }

    fn begin(&mut self, number: usize, title: Title<'_>) -> Result<(), Error> {
        let launched = self.launched.take();
        let backend = osu_title::backend(title.library);
        let device = osu_title::device(backend.unwrap_or("mpi"), title.library);
        let test = backend.zip(device).and_then(|_| Test::named(title.test));
        let told = launched.as_ref().and_then(|launched| launched.ranks);
        let ranks = match test.filter(|test| !test.is_of_two()) {
            Some(_) => collective::ranks(self.source, number, told)?,
            None => 2,
        };
        self.table = Some(OsuTable {
            line: number,
            name: osu_title::shown(title),
            tool: format!("OSU Micro-Benchmarks {}", plain(title.version)),
            test,
            backend: backend.unwrap_or("mpi"),
            device: device.unwrap_or("cpu"),
            ranks,
            is_launched: told.is_some(),
            buffers: launched.as_ref().and_then(|launched| launched.buffers.clone()).filter(|_| device != Some("cpu")),
            launched,
            dtype: None,
            columns: Vec::new(),
            sizes: Sizes::default(),
            rows: Vec::new(),
            overlaps: 0,
            unseen: versions::OSU.unseen(number, title.version),
            has_begun: false,
        });
        if test.is_none() {
            let shown = osu_title::shown(title);
            let why = if device.is_none() { ": its buffers are neither of a processor nor of a GPU" } else { "" };
            self.omit(number, format!("`{shown}` has no counterpart here{why}"));
        }
        Ok(())
    }

    /// A line behind its `#`.
    fn head(&mut self, number: usize, bare: &str) -> Result<(), Error> {
        let Some(table) = &mut self.table else { return Ok(()) };
        if let Some(name) = bare.strip_prefix("Datatype:") {
            let name = name.trim().trim_end_matches('.');
            let dtype = collective::dtype(name);
            // A program that measures several types begins again with the smallest size.
            self.end_rows();
            let Some(table) = &mut self.table else { return Ok(()) };
            table.dtype = dtype;
            if dtype.is_none() && table.test.take().is_some() {
                self.omit(number, format!("there is no element type `{}`", plain(name)));
            }
        } else if bare.starts_with("OSU ") {
            table.test = None;
            self.omit(number, "the title of a table is cut, so its rows are left out");
        } else if let Some(buffers) = Buffers::of_line(bare) {
            table.buffers = Some(buffers);
        } else if table.test.is_some() && osu_table::is_header(bare) {
            let columns = osu_table::columns(self.source, number, &table.tool, bare)?;
            let has_rate = columns.contains(&OsuColumn::Bandwidth);
            if has_rate == matches!(table.test, Some(Test::Call { .. })) {
                let what = format!("the title says `{}`, and the table has other columns", table.name);
                return Err(self.source.error(number, what));
            }
            table.columns.clone_from(&columns);
            let asks = |launched: &Launched| launched.checks;
            let is_cut = table.launched.as_ref().is_some_and(asks) && !columns.contains(&OsuColumn::Validation);
            table.sizes.header(number);
            if let Some(results) = self.results() {
                if is_cut {
                    results.note(
                        "the command line asks for a check (`-c`), and a table has no column of it: its lines may be cut",
                    );
                }
                osu_table::unread(&columns).into_iter().for_each(|what| results.leave_unread(what.to_owned()));
            }
        }
        Ok(())
    }

    fn row(&mut self, number: usize, text: &str) {
        let Some(table) = self.table.as_mut() else { return };
        let Some(test) = table.test else { return };
        if table.columns.is_empty() {
            if WordCount::count(text).are_a_row() {
                self.omit(number, "no header of a table stands above this line");
            }
            return;
        }
        let has_size = table.columns.first() == Some(&OsuColumn::Bytes);
        let size = text.split_ascii_whitespace().next().filter(|_| has_size).unwrap_or("0");
        let read = table.sizes.add(number, size).and_then(|()| osu_table::row(&table.columns, text));
        let measured = read.and_then(|row| {
            let overlap = row.overlap.map(|overlap| format!("{} B: {overlap} %", row.bytes));
            Ok((table.measured(test, row)?, overlap))
        });
        match measured {
            Err(why) => self.omit(number, why),
            Ok((row, overlap)) => {
                table.rows.push(row);
                table.overlaps += usize::from(overlap.is_some());
                let (is_kept, name) = (table.overlaps <= MOST_OVERLAPS, table.name.clone());
                if let (Some(overlap), Some(results)) = (overlap.filter(|_| is_kept), self.results()) {
                    results.tell([(format!("overlap of {name}"), overlap)]);
                }
            }
        }
    }

    /// Keeps the rows so far, unless several programs wrote them.
    fn end_rows(&mut self) {
        let Some(table) = &mut self.table else { return };
        let (rows, sizes) = (std::mem::take(&mut table.rows), std::mem::take(&mut table.sizes));
        let ranks = (!table.test.is_some_and(Test::is_of_two)).then_some(table.ranks);
        if let Some(mixed) = sizes.mixed(ranks) {
            // Neither are later rows those of one program.
            table.test = None;
            self.omit(mixed.line, &mixed.what);
            self.mixed.get_or_insert(mixed);
            return;
        }
        if rows.is_empty() {
            return;
        }
        let notes = table.notes(&rows);
        let Some(results) = self.results() else { return };
        notes.into_iter().for_each(|note| results.note(note));
        for (shape, figures) in rows {
            let place = results.place(shape);
            results.add_at(place, figures);
        }
    }

    fn end_table(&mut self) {
        self.end_rows();
        self.results();
        self.table = None;
    }
}

/// What stands behind the `#` of a line. Who copies a rendered page loses it, because there it marks a heading.
fn behind_mark(text: &str) -> Option<&str> {
    let has_unit = || text.contains("(us)") || text.contains("(MB/s)");
    let is_own = || {
        (osu_table::is_header(text) && has_unit())
            || text.starts_with("Datatype: MPI_")
            || Buffers::of_line(text).is_some()
    };
    text.strip_prefix('#').map(str::trim).or_else(|| is_own().then_some(text))
}

/// Whether a line behind its `#` is of another program's table.
fn is_of_another(bare: &str) -> bool {
    bare.starts_with("nThread ") || bare.starts_with("Benchmarking ") || bare.starts_with("Intel(R) MPI Benchmark")
}
