//! The tables of Nsight Systems: kernels, copies and NVTX ranges of each process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row};
use terms::{Collective, Error, Named as _, outside};
use trace::timeline::{Kind, NO_CALL, NameId, Names, RankTimeline, Span, Timeline};

use crate::counted::counted;
use crate::traces::{Spans, UNKNOWN_GROUP, words};

/// Spans that are kept.
const MOST_SPANS: u64 = 6_000_000;

/// NVTX events that are ranges: push and pop, start and end.
const RANGES: [i64; 2] = [59, 60];
/// An NVTX event that is a moment.
const MARK: i64 = 34;

/// Reads an export.
pub(super) fn read(path: &Path) -> Result<Spans, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(damaged)?;
    // A foreign file: its schema must not call functions, and cells are checked.
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;").map_err(damaged)?;
    let mut reader = NsysReader { tables: Tables::from_connection(connection)?, ..NsysReader::default() };
    reader.version()?;
    let origin = reader.origin()?;
    reader.kernels()?;
    reader.copies()?;
    reader.graphs()?;
    reader.ranges()?;
    reader.finish(origin)
}

fn damaged(error: rusqlite::Error) -> Error {
    Error::new("this SQLite file cannot be read").cause(error.to_string())
}

/// Tables that the file has, with their columns. Views are not used: they could compute anything.
#[derive(Default)]
struct Tables {
    connection: Option<Connection>,
    columns: HashMap<String, Vec<String>>,
}

impl Tables {
    fn from_connection(connection: Connection) -> Result<Self, Error> {
        let mut columns: HashMap<String, Vec<String>> = HashMap::new();
        let sql = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'";
        {
            let mut statement = connection.prepare(sql).map_err(damaged)?;
            let mut rows = statement.query([]).map_err(damaged)?;
            while let Some(row) = rows.next().map_err(damaged)? {
                let (table, column) = (row.get(0).map_err(damaged)?, row.get(1).map_err(damaged)?);
                columns.entry(table).or_default().push(column);
            }
        }
        Ok(Self { connection: Some(connection), columns })
    }

    fn has(&self, table: &str, column: &str) -> bool {
        self.columns.get(table).is_some_and(|columns| columns.iter().any(|known| known == column))
    }

    /// Calls `each` with every row. A column that the table lacks is null. False without the table.
    fn rows(
        &self,
        table: &str,
        columns: &[&str],
        each: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<bool, Error> {
        let (Some(connection), true) = (&self.connection, self.columns.contains_key(table)) else { return Ok(false) };
        let wanted = columns
            .iter()
            .map(|column| if self.has(table, column) { format!("\"{column}\"") } else { "NULL".to_owned() });
        let sql = format!("SELECT {} FROM \"{table}\"", wanted.collect::<Vec<_>>().join(", "));
        let mut statement = connection.prepare(&sql).map_err(damaged)?;
        let mut rows = statement.query([]).map_err(damaged)?;
        while let Some(row) = rows.next().map_err(damaged)? {
            each(row).map_err(damaged)?;
        }
        Ok(true)
    }
}

#[derive(Default)]
struct NsysReader {
    tables: Tables,
    texts: HashMap<i64, String>,
    names: Names,
    /// By process.
    ranks: BTreeMap<i64, RankTimeline>,
    queues: HashMap<(i64, i64, i64), u32>,
    /// The thread of the last step, by process.
    main: HashMap<i64, i64>,
    /// The rank that each process states, and the size of its world.
    stated_ranks: HashMap<i64, (u32, u32)>,
    spans: u64,
    lost: u64,
    odd: u64,
    unnamed: u64,
    /// Calls of NCCL that are ranges of the host.
    of_host: u64,
    /// Processes with kernels of NCCL.
    with_calls: BTreeSet<i64>,
    notes: Vec<String>,
}

impl NsysReader {
    fn version(&mut self) -> Result<(), Error> {
        let mut version = None;
        for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"] {
            self.tables.rows(table, &["name", "value"], &mut |row| {
                let (name, value): (Option<String>, Option<String>) = (row.get(0)?, row.get(1)?);
                if name.as_deref() == Some("EXPORT_SCHEMA_VERSION") {
                    version = value.map(|value| outside::text(&value).into_owned());
                }
                Ok(())
            })?;
        }
        match version {
            None => self.notes.push("the file does not say its version".to_owned()),
            Some(version) if !matches!(version.split('.').next(), Some("2" | "3")) => {
                return Err(Error::new(format!("version {version} of Nsight Systems' schema is not known"))
                    .hint("valid values: 2.x and 3.x"));
            }
            Some(_) => {}
        }
        let texts = &mut self.texts;
        self.tables.rows("StringIds", &["id", "value"], &mut |row| {
            if let (Some(id), Some(text)) = (row.get(0)?, row.get::<_, Option<String>>(1)?) {
                texts.insert(id, outside::text(&text).into_owned());
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Unix nanoseconds of the beginning of the session.
    fn origin(&mut self) -> Result<Option<i64>, Error> {
        let mut origin = None;
        self.tables.rows("TARGET_INFO_SESSION_START_TIME", &["utcEpochNs"], &mut |row| {
            origin = row.get(0)?;
            Ok(())
        })?;
        if origin.is_none() {
            self.notes.push("the times have no calendar: they cannot be compared with those of other files".to_owned());
        }
        Ok(origin)
    }

    fn kernels(&mut self) -> Result<(), Error> {
        let table = "CUPTI_ACTIVITY_KIND_KERNEL";
        let columns = ["start", "end", "globalPid", "deviceId", "streamId", "shortName", "demangledName"];
        let mut kernels = Vec::new();
        let found = self.tables.rows(table, &columns, &mut |row| {
            kernels.push((RowPlace::from_row(row)?, row.get(5)?, row.get(6)?));
            Ok(())
        })?;
        if !found {
            self.notes.push("the file has no kernels of a GPU".to_owned());
        }
        for (place, short, long) in kernels {
            let text = |id: Option<i64>| id.and_then(|id| self.texts.get(&id)).cloned();
            // NCCL's short names lack what the kernel does in some versions.
            let name = text(long).or_else(|| text(short)).unwrap_or_else(|| "(unnamed)".to_owned());
            if name.starts_with("nccl") || name.contains(" nccl") {
                let operation = words::operation_of_kernel(&name);
                let call = words::call(&mut self.names, &operation, UNKNOWN_GROUP);
                self.with_calls.insert(place.process());
                let Some((rank, mut span)) = self.span(place, Kind::Collective, call.operation) else { continue };
                span.collective = rank.collectives.len() as u32;
                rank.collectives.push(call);
                rank.spans.push(span);
            } else {
                let name = self.names.intern(&name);
                self.put(place, Kind::Kernel, name);
            }
        }
        Ok(())
    }

    fn copies(&mut self) -> Result<(), Error> {
        for (table, name) in [("CUPTI_ACTIVITY_KIND_MEMCPY", "copy"), ("CUPTI_ACTIVITY_KIND_MEMSET", "fill")] {
            let mut copies = Vec::new();
            self.tables.rows(table, &["start", "end", "globalPid", "deviceId", "streamId"], &mut |row| {
                copies.push(RowPlace::from_row(row)?);
                Ok(())
            })?;
            let name = self.names.intern(name);
            for place in copies {
                self.put(place, Kind::Copy, name);
            }
        }
        Ok(())
    }

    /// Launches of CUDA graphs. Nsight Systems records each as a whole unless it is told otherwise: their kernels are
    /// then in no table, and without the launches the GPU would look idle.
    fn graphs(&mut self) -> Result<(), Error> {
        let mut graphs = Vec::new();
        let columns = ["start", "end", "globalPid", "deviceId", "streamId"];
        self.tables.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", &columns, &mut |row| {
            graphs.push(RowPlace::from_row(row)?);
            Ok(())
        })?;
        // CUPTI writes zeros where it has no times.
        graphs.retain(|place| place.end != Some(0));
        if !graphs.is_empty() {
            self.notes.push(format!(
                "{} read as one kernel: its parts are not in the file (hint: nsys profile --cuda-graph-trace=node)",
                counted(graphs.len(), "launch of a CUDA graph is", "launches of CUDA graphs are each")
            ));
        }
        let name = self.names.intern("CUDA graph");
        for place in graphs {
            self.put(place, Kind::Kernel, name);
        }
        Ok(())
    }

    fn ranges(&mut self) -> Result<(), Error> {
        let (mut ranges, mut marks) = (Vec::new(), Vec::new());
        let columns = ["start", "end", "globalTid", "eventType", "text", "textId", "uint64Value"];
        let found = self.tables.rows("NVTX_EVENTS", &columns, &mut |row| {
            let kind: Option<i64> = row.get(3)?;
            let (text, id): (Option<String>, Option<i64>) = (row.get(4)?, row.get(5)?);
            let text = text.map(|text| outside::text(&text).into_owned());
            let place = RowPlace { begin: row.get(0)?, end: row.get(1)?, global: row.get(2)?, device: -1, stream: 0 };
            if kind.is_some_and(|kind| RANGES.contains(&kind)) {
                ranges.push((place, text, id, row.get::<_, Option<i64>>(6)?));
            } else if kind == Some(MARK) {
                marks.push((place, text, id));
            }
            Ok(())
        })?;
        if !found {
            self.notes.push("the file has no NVTX ranges, so it has no steps (hint: nsys profile -t nvtx)".to_owned());
        }
        for (place, text, id) in marks {
            let text = self.text(text, id);
            self.stated_ranks.extend(stated_rank(&text).map(|stated| (place.process(), stated)));
        }
        for (mut place, text, id, payload) in ranges {
            let text = self.text(text, id);
            // A thread of the host is not a stream.
            place.stream = place.global.unwrap_or(0);
            if Collective::from_name(&text).is_some() {
                self.operation(place, &text, payload);
                continue;
            }
            if let Some(operation) = of_nccl(&text) {
                // A kernel says how long the call takes, and the range only how long it is prepared.
                if !self.with_calls.contains(&place.process()) {
                    self.operation(place, &operation, None);
                    self.of_host += 1;
                }
                continue;
            }
            let payload = payload.and_then(|number| u32::try_from(number).ok());
            let Some((kind, number)) = phase(&text, payload) else {
                self.unnamed += 1;
                continue;
            };
            let name = self.names.intern(&text);
            if kind == Kind::Step {
                self.main.insert(place.process(), place.stream);
            }
            if let Some((rank, mut span)) = self.span(place, kind, name) {
                span.number = number;
                rank.spans.push(span);
            }
        }
        Ok(())
    }

    fn text(&self, text: Option<String>, id: Option<i64>) -> String {
        text.or_else(|| id.and_then(|id| self.texts.get(&id)).cloned()).unwrap_or_default()
    }

    /// An operation, as ranks of Rankmark name it; `number` counts operations.
    fn operation(&mut self, place: RowPlace, name: &str, number: Option<i64>) {
        let mut call = words::call(&mut self.names, name, UNKNOWN_GROUP);
        call.sequence = number.and_then(|number| u64::try_from(number).ok());
        if let Some((rank, mut span)) = self.span(place, Kind::Collective, call.operation) {
            span.collective = rank.collectives.len() as u32;
            rank.collectives.push(call);
            rank.spans.push(span);
        }
    }

    fn put(&mut self, place: RowPlace, kind: Kind, name: NameId) {
        if let Some((rank, span)) = self.span(place, kind, name) {
            rank.spans.push(span);
        }
    }

    /// A span, and the rank that it is of.
    fn span(&mut self, place: RowPlace, kind: Kind, name: NameId) -> Option<(&mut RankTimeline, Span)> {
        let times = place.begin.zip(place.end).filter(|(begin, end)| begin <= end);
        let Some((begin_ns, end_ns)) = times else {
            self.odd += 1;
            return None;
        };
        if self.spans >= MOST_SPANS {
            self.lost += 1;
            return None;
        }
        self.spans += 1;
        let process = place.process();
        let next = self.queues.len() as u32 + 1;
        let queue = *self.queues.entry((process, place.device, place.stream)).or_insert(next);
        let span = Span { begin_ns, end_ns, kind, queue, name, number: 0, collective: NO_CALL };
        Some((self.ranks.entry(process).or_default(), span))
    }

    /// The rank of each process and the size of their world, if all say it and it can be so.
    fn all_stated_ranks(&self) -> Option<(HashMap<i64, u32>, u32)> {
        let stated: Option<Vec<(i64, (u32, u32))>> =
            self.ranks.keys().map(|process| Some((*process, *self.stated_ranks.get(process)?))).collect();
        let stated = stated?;
        let world = stated.first()?.1.1;
        let distinct: BTreeSet<u32> = stated.iter().map(|(_, (rank, _))| *rank).collect();
        let fits = distinct.len() == stated.len() && stated.iter().all(|(_, (_, size))| *size == world);
        fits.then(|| (stated.into_iter().map(|(process, (rank, _))| (process, rank)).collect(), world))
    }

    fn finish(mut self, origin: Option<i64>) -> Result<Spans, Error> {
        for (count, [one, many], what) in [
            (self.odd, ["row is", "rows are"], "left out: no end, or one before the beginning"),
            (self.lost, ["span is", "spans are"], "left out: there is room for 6000000"),
            (self.unnamed, ["NVTX range is", "NVTX ranges are"], "left out: no step and no phase has such a name"),
            (
                self.of_host,
                ["call of NCCL is a range", "calls of NCCL are ranges"],
                "of the host: a transfer may take longer (hint: nsys profile -t cuda,nvtx)",
            ),
        ] {
            if count > 0 {
                self.notes.push(format!("{} {what}", counted(count, one, many)));
            }
        }
        if self.ranks.is_empty() {
            return Err(Error::new("the file has no kernels and no NVTX ranges of steps or phases")
                .hint("record them: nsys profile -t cuda,nvtx"));
        }
        let several = self.ranks.len() > 1;
        let stated = self.all_stated_ranks();
        if several && stated.is_none() {
            self.notes.push(format!(
                "the file has {} processes and names no ranks: they are read as ranks by their numbers",
                self.ranks.len()
            ));
        }
        let mut ranks = Vec::new();
        for (number, (process, mut rank)) in (0..).zip(self.ranks) {
            rank.rank = stated.as_ref().map_or(number, |(ranks, _)| ranks[&process]);
            let main = self.main.get(&process).and_then(|thread| self.queues.get(&(process, -1, *thread)));
            for span in &mut rank.spans {
                span.begin_ns = span.begin_ns.checked_add(origin.unwrap_or(0)).ok_or("a time is out of range")?;
                span.end_ns = span.end_ns.checked_add(origin.unwrap_or(0)).ok_or("a time is out of range")?;
                if Some(&span.queue) == main {
                    span.queue = 0;
                }
            }
            rank.sort();
            ranks.push(rank);
        }
        ranks.sort_by_key(|rank| rank.rank);
        let timeline = Timeline {
            source: "Nsight Systems".to_owned(),
            ranks,
            world: stated.as_ref().map(|(_, world)| *world),
            // One recording has one clock.
            clock_error_ns: several.then_some(0),
            names: self.names,
            notes: self.notes,
            ..Timeline::default()
        };
        Ok(Spans { timeline, rank: None, is_numbered: several || stated.is_some(), is_calendar: origin.is_some() })
    }
}

/// The rank and the world that a process says it is of: `rankmark rank 3 of 8`.
fn stated_rank(text: &str) -> Option<(u32, u32)> {
    let (rank, world) = text.strip_prefix("rankmark rank ")?.split_once(" of ")?;
    let (rank, world) = (rank.parse().ok()?, world.parse().ok()?);
    (rank < world).then_some((rank, world))
}

/// When a row happened, and where.
#[derive(Clone, Copy)]
struct RowPlace {
    begin: Option<i64>,
    end: Option<i64>,
    /// Process and, of a range, thread.
    global: Option<i64>,
    /// -1: a thread of the host.
    device: i64,
    stream: i64,
}

impl RowPlace {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let or_zero = |at: usize| row.get::<_, Option<i64>>(at).map(Option::unwrap_or_default);
        Ok(Self { begin: row.get(0)?, end: row.get(1)?, global: row.get(2)?, device: or_zero(3)?, stream: or_zero(4)? })
    }

    fn process(self) -> i64 {
        self.global.unwrap_or(0) >> 24 & 0xff_ffff
    }
}

/// The operation of a range by which NCCL tells a call: `ncclSend`, `ncclAllReduce`.
fn of_nccl(text: &str) -> Option<String> {
    let word = text.strip_prefix("nccl").filter(|word| word.starts_with(|first: char| first.is_ascii_uppercase()))?;
    let operation = words::operation(word);
    (operation != word).then(|| operation.into_owned())
}

/// The step or phase that a range is, by its name: `step 12`, `iteration_3`, `forward`. The number may be in the payload.
fn phase(text: &str, payload: Option<u32>) -> Option<(Kind, u32)> {
    let text = text.trim().to_ascii_lowercase();
    let word = text.trim_end_matches(|letter: char| !letter.is_ascii_alphabetic());
    let number = text[word.len()..].trim_matches(|letter: char| !letter.is_ascii_digit()).parse().ok().or(payload);
    let kind = match word {
        "step" | "train_step" | "training step" | "iteration" | "iter" | "profilerstep" => {
            return Some((Kind::Step, number?));
        }
        "forward" | "fwd" => Kind::Forward,
        "backward" | "bwd" => Kind::Backward,
        "optimizer" | "optimizer_step" | "optimizer step" | "opt" => Kind::Optimizer,
        "data" | "dataloader" | "data loading" | "input" | "load data" => Kind::Input,
        "wait" => Kind::Wait,
        "block" => Kind::Block,
        "host" => Kind::Host,
        _ => return None,
    };
    Some((kind, number.unwrap_or(0)))
}
