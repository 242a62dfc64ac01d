//! The text of the Intel MPI Benchmarks (IMB-MPI1, IMB-NBC): several benchmarks and numbers of processes in one file.

use terms::{Collective, Dtype, Error};

use super::command::{Commands, JoinedLine};
use super::imb_head::{Head, Started};
use super::imb_table::{self, ImbColumn, Timed};
use super::nccl::plain;
use super::osu_rows::{ONE_RANK, PER_RANK, per_rank};
use super::osu_title;
use super::row_like::{self, WordCount};
use super::runs::Runs;
use super::sizes::{Mixed, Sizes};
use super::versions;
use crate::{Content, Figures, Format, Line, Results, Shape, Source, collective};

/// The format.
pub(super) struct Imb;

impl Format for Imb {
    fn about(&self) -> (&'static str, &'static str) {
        ("imb", "Intel MPI Benchmarks: what IMB-MPI1 and IMB-NBC print")
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
        let is_begin = |text: &str| text.contains("# Benchmarking ") || text.trim_start().starts_with("Benchmarking ");
        text.contains("#repetitions") && source.lines().any(|line| is_begin(line.text))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = ImbReader {
            source,
            commands: Commands::default(),
            results: Runs::default(),
            launched: None,
            head: Head::default(),
            table: ImbTable::default(),
            mixed: None,
        };
        for line in source.lines() {
            match reader.commands.join(line.text.trim()) {
                JoinedLine::Line(text) => reader.line(Line { number: line.number, text })?,
                JoinedLine::GoesOn => {}
                JoinedLine::Whole(text) => reader.line(Line { number: line.number, text: &text })?,
            }
        }
        reader.end_table();
        let results = reader.results.finish(source)?;
        match reader.mixed.filter(|_| results.iter().all(Results::is_empty)) {
            Some(mixed) => Err(mixed.refusal(source)),
            None => Ok(Content::Results(results)),
        }
    }
}

#[derive(Default)]
struct ImbTable {
    name: String,
    /// None where it has no counterpart here, or several groups ran at once.
    op: Option<Collective>,
    /// The file's, else the user's.
    ranks: Option<u32>,
    columns: Vec<ImbColumn>,
    line: usize,
    sizes: Sizes,
    rows: Vec<(Shape, Figures)>,
    /// Rows that tell how much overlaps.
    overlaps: usize,
}

/// The most sizes whose overlap is kept.
const MOST_OVERLAPS: usize = 64;

struct ImbReader<'s> {
    source: &'s Source,
    commands: Commands,
    results: Runs,
    /// The shell's last command line: it is that of the run that begins next.
    launched: Option<(Started, bool)>,
    head: Head,
    table: ImbTable,
    /// The first table that several programs wrote.
    mixed: Option<Mixed>,
}

impl ImbReader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        let bare = text.trim_start_matches(['#', ' ']);
        if text.starts_with("#bytes") || text.starts_with("#repetitions") {
            self.header(line.number, text)?;
        } else if !row_like::is_heading(text)
            && (row_like::begins_with_number(text)
                || (!text.starts_with('#')
                    && !text.contains("IMB-")
                    && WordCount::count(text).may_be(self.table.columns.len())))
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

    /// Results of the head and of what the table times.
    fn results(&mut self) -> &mut Results {
        let timed = imb_table::measured(&self.table.name).map(|(_, timed)| timed).or(self.head.begun);
        self.results_of(timed.unwrap_or(Timed::Blocking))
    }

    fn results_of(&mut self, timed: Timed) -> &mut Results {
        let head = &mut self.head;
        let new = || Results::new(head.tool.clone(), timed.statistic());
        if head.begun.replace(timed) == Some(timed) {
            return self.results.current_or(new);
        }
        if let Some((started, is_gpu)) = self.launched.take().filter(|_| head.launched.is_none()) {
            head.take(started, is_gpu, true);
        }
        let new = Results::new(head.tool.clone(), timed.statistic());
        let key = format!("{}: {}: {}", head.tool, head.method(), timed.statistic());
        let results = self.results.begin(key, &head.command(), new);
        if let Some(started) = head.launched.as_ref().or(head.repeated.as_ref()) {
            results.tell([("command line".to_owned(), started.text.clone())]);
        }
        results.tell(head.facts.iter().cloned());
        head.notes.iter().for_each(|note| results.note(note.clone()));
        results
    }

    fn benchmark(&mut self, number: usize, name: &str) {
        self.end_table();
        let measured = imb_table::measured(name.trim());
        if measured.is_none() {
            self.results().omit(number, format!("`{}` has no counterpart here", plain(name)));
        }
        let op = measured.map(|(op, _)| op);
        let sizes = Sizes::new(self.head.are_listed);
        self.table = ImbTable { name: plain(name), op, line: number, sizes, ..ImbTable::default() };
    }

    /// What the head of a run says.
    fn head(&mut self, number: usize, text: &str, bare: &str) {
        if bare.starts_with("Intel") && bare.contains("MPI Benchmark") {
            self.end_table();
            self.head = Head::default();
            if let Some((started, is_gpu)) = self.launched.take() {
                self.head.take(started, is_gpu, true);
            }
            let is_version = |word: &&str| word.trim_start_matches('V').starts_with(|c: char| c.is_ascii_digit());
            if let Some(version) = bare.split([' ', ',']).find(is_version) {
                self.head.notes.extend(versions::IMB.unseen(number, version));
                self.head.tool = format!("Intel MPI Benchmarks {}", plain(version));
            }
            if bare.contains("(GPU)") {
                self.head.on_gpus();
            }
            return;
        }
        if osu_title::title(text).is_some() || bare.starts_with("nThread ") {
            self.end_table();
        }
        match Started::parse(bare) {
            Some(found) if !text.starts_with('#') => self.launched = Some(found),
            Some((started, is_gpu)) if self.head.begun.is_none() => self.head.take(started, is_gpu, false),
            Some(_) => return,
            None if !text.starts_with('#') => self.results.headings.add(number, text),
            None => {}
        }
        if bare.starts_with("Message lengths were user defined") {
            self.head.are_listed = true;
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

    fn header(&mut self, number: usize, text: &str) -> Result<(), Error> {
        let is_known = self.table.op.is_some();
        self.table.columns = imb_table::columns(self.source, number, &self.head.tool, text, is_known)?;
        if is_known {
            self.table.sizes.header(number);
        }
        if let Some(what) = imb_table::unread(&self.table.columns).filter(|_| is_known) {
            self.results().leave_unread(what.to_owned());
        }
        Ok(())
    }

    fn row(&mut self, number: usize, text: &str) -> Result<(), Error> {
        let Some(op) = self.table.op else { return Ok(()) };
        if self.table.columns.is_empty() {
            if WordCount::count(text).are_a_row() {
                self.results().omit(number, "no header of a table stands above this line");
            }
            return Ok(());
        }
        let ranks = self.ranks()?;
        let table = &mut self.table;
        let has_size = table.columns.first() == Some(&ImbColumn::Bytes);
        let size = text.split_ascii_whitespace().next().filter(|_| has_size).unwrap_or("0");
        let read = table.sizes.add(number, size).and_then(|()| imb_table::row(&table.columns, text));
        match read
            .and_then(|(bytes, figures, overlap)| Ok((self.head.call(op, ranks, bytes)?, bytes, figures, overlap)))
        {
            Err(why) => self.results().omit(number, why),
            Ok((call, bytes, figures, overlap)) => {
                self.results();
                self.table.rows.push((call.shape(), figures));
                self.table.overlaps += usize::from(overlap.is_some());
                if let Some(overlap) = overlap.filter(|_| self.table.overlaps <= MOST_OVERLAPS) {
                    let name = format!("overlap of {}, {ranks} ranks", self.table.name);
                    self.results().tell([(name, format!("{bytes} B: {overlap} %"))]);
                }
            }
        }
        Ok(())
    }

    /// The ranks of the table.
    fn ranks(&mut self) -> Result<u32, Error> {
        let launched = self.launched.as_ref().map(|(started, _)| started).or(self.head.launched.as_ref());
        let launched = launched.and_then(|started| started.ranks);
        let ranks = collective::ranks(self.source, self.table.line, self.table.ranks.or(launched))?;
        self.table.ranks = Some(ranks);
        Ok(ranks)
    }

    /// Keeps the rows of the table, unless several programs wrote them.
    fn end_table(&mut self) {
        let (rows, sizes) = (std::mem::take(&mut self.table.rows), std::mem::take(&mut self.table.sizes));
        if let Some(mixed) = sizes.mixed(self.table.ranks) {
            self.results().omit(mixed.line, &mixed.what);
            self.mixed.get_or_insert(mixed);
        } else if !rows.is_empty() {
            let (op, is_alone) = (self.table.op, self.table.ranks == Some(1));
            let results = self.results();
            if op.is_some_and(per_rank) {
                results.note(PER_RANK);
            }
            if rows.iter().any(|(_, figures)| figures.details.is_some()) {
                results.note("smallest and largest are over ranks");
            }
            if is_alone {
                results.note(ONE_RANK);
            }
            for (shape, figures) in rows {
                let place = results.place(shape);
                results.add_at(place, figures);
            }
        }
        self.table = ImbTable::default();
    }
}
