//! The tables of Nsight Systems: kernels, copies and NVTX ranges of each process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row};
use terms::{Collective, Error, Named as _};
use trace::timeline::{Kind, NO_CALL, NameId, Names, RankTimeline, Span, Timeline};

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
    let mut reader = Reader { tables: Tables::of(connection)?, ..Reader::default() };
    reader.version()?;
    let origin = reader.origin()?;
    reader.kernels()?;
    reader.copies()?;
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
    fn of(connection: Connection) -> Result<Self, Error> {
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
struct Reader {
    tables: Tables,
    texts: HashMap<i64, String>,
    names: Names,
    /// By process.
    ranks: BTreeMap<i64, RankTimeline>,
    queues: HashMap<(i64, i64, i64), u32>,
    /// The thread of the last step, by process.
    main: HashMap<i64, i64>,
    /// The rank that each process says it is, and of how many.
    told: HashMap<i64, (u32, u32)>,
    spans: u64,
    lost: u64,
    odd: u64,
    unnamed: u64,
    notes: Vec<String>,
}

impl Reader {
    fn version(&mut self) -> Result<(), Error> {
        let mut version = None;
        for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"] {
            self.tables.rows(table, &["name", "value"], &mut |row| {
                let (name, value): (Option<String>, Option<String>) = (row.get(0)?, row.get(1)?);
                if name.as_deref() == Some("EXPORT_SCHEMA_VERSION") {
                    version = value;
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
                texts.insert(id, text);
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
            kernels.push((Place::of(row)?, row.get(5)?, row.get(6)?));
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
                copies.push(Place::of(row)?);
                Ok(())
            })?;
            let name = self.names.intern(name);
            for place in copies {
                self.put(place, Kind::Copy, name);
            }
        }
        Ok(())
    }

    fn ranges(&mut self) -> Result<(), Error> {
        let (mut ranges, mut marks) = (Vec::new(), Vec::new());
        let columns = ["start", "end", "globalTid", "eventType", "text", "textId", "uint64Value"];
        let found = self.tables.rows("NVTX_EVENTS", &columns, &mut |row| {
            let kind: Option<i64> = row.get(3)?;
            let (text, id): (Option<String>, Option<i64>) = (row.get(4)?, row.get(5)?);
            let place = Place { begin: row.get(0)?, end: row.get(1)?, global: row.get(2)?, device: -1, stream: 0 };
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
            self.told.extend(rank_told(&text).map(|told| (place.process(), told)));
        }
        for (mut place, text, id, payload) in ranges {
            let text = self.text(text, id);
            // A thread of the host is no stream.
            place.stream = place.global.unwrap_or(0);
            if Collective::from_name(&text).is_some() {
                self.operation(place, &text, payload);
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
    fn operation(&mut self, place: Place, name: &str, number: Option<i64>) {
        let mut call = words::call(&mut self.names, name, UNKNOWN_GROUP);
        call.sequence = number.and_then(|number| u64::try_from(number).ok());
        if let Some((rank, mut span)) = self.span(place, Kind::Collective, call.operation) {
            span.collective = rank.collectives.len() as u32;
            rank.collectives.push(call);
            rank.spans.push(span);
        }
    }

    fn put(&mut self, place: Place, kind: Kind, name: NameId) {
        if let Some((rank, span)) = self.span(place, kind, name) {
            rank.spans.push(span);
        }
    }

    /// A span, and the rank that it is of.
    fn span(&mut self, place: Place, kind: Kind, name: NameId) -> Option<(&mut RankTimeline, Span)> {
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
    fn ranks_told(&self) -> Option<(HashMap<i64, u32>, u32)> {
        let told: Option<Vec<(i64, (u32, u32))>> =
            self.ranks.keys().map(|process| Some((*process, *self.told.get(process)?))).collect();
        let told = told?;
        let world = told.first()?.1.1;
        let distinct: BTreeSet<u32> = told.iter().map(|(_, (rank, _))| *rank).collect();
        let fits = distinct.len() == told.len() && told.iter().all(|(_, (_, size))| *size == world);
        fits.then(|| (told.into_iter().map(|(process, (rank, _))| (process, rank)).collect(), world))
    }

    fn finish(mut self, origin: Option<i64>) -> Result<Spans, Error> {
        for (count, what) in [
            (self.odd, "rows are left out: they have no end, or end before they begin"),
            (self.lost, "spans are left out: there is room for 6000000"),
            (self.unnamed, "NVTX ranges are left out: they name no step and no phase"),
        ] {
            if count > 0 {
                self.notes.push(format!("{count} {what}"));
            }
        }
        if self.ranks.is_empty() {
            return Err(Error::new("the file has no kernels and no NVTX ranges of steps or phases")
                .hint("record them: nsys profile -t cuda,nvtx"));
        }
        let several = self.ranks.len() > 1;
        let told = self.ranks_told();
        if several && told.is_none() {
            self.notes.push(format!(
                "the file has {} processes and names no ranks: they are read as ranks by their numbers",
                self.ranks.len()
            ));
        }
        let mut ranks = Vec::new();
        for (number, (process, mut rank)) in (0..).zip(self.ranks) {
            rank.rank = told.as_ref().map_or(number, |(ranks, _)| ranks[&process]);
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
            world: told.as_ref().map(|(_, world)| *world),
            // One recording has one clock.
            clock_error_ns: several.then_some(0),
            names: self.names,
            notes: self.notes,
            ..Timeline::default()
        };
        Ok(Spans { timeline, rank: None, is_numbered: several || told.is_some(), is_calendar: origin.is_some() })
    }
}

/// The rank and the world that a process says it is of: `rankmark rank 3 of 8`.
fn rank_told(text: &str) -> Option<(u32, u32)> {
    let (rank, world) = text.strip_prefix("rankmark rank ")?.split_once(" of ")?;
    let (rank, world) = (rank.parse().ok()?, world.parse().ok()?);
    (rank < world).then_some((rank, world))
}

/// When and where a row is of.
#[derive(Clone, Copy)]
struct Place {
    begin: Option<i64>,
    end: Option<i64>,
    /// Process and, of a range, thread.
    global: Option<i64>,
    /// -1: a thread of the host.
    device: i64,
    stream: i64,
}

impl Place {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let or_zero = |at: usize| row.get::<_, Option<i64>>(at).map(Option::unwrap_or_default);
        Ok(Self { begin: row.get(0)?, end: row.get(1)?, global: row.get(2)?, device: or_zero(3)?, stream: or_zero(4)? })
    }

    fn process(self) -> i64 {
        self.global.unwrap_or(0) >> 24 & 0xff_ffff
    }
}

/// The step or phase that a range is, by its name: `step 12`, `iteration_3`, `forward`. The number may be told beside it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::{Traces, read_timeline};

    const TABLES: &str = "
        CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
        INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.13.2');
        CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
        INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);
        CREATE TABLE StringIds (id INTEGER, value TEXT);
        INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)'), (3, 'forward');
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
        INSERT INTO NVTX_EVENTS VALUES (100, 900, 59, 'step 7', NULL, 1 << 24 | 5), (110, 200, 59, NULL, 3, 1 << 24 | 5),
            (120, NULL, 59, 'step 8', NULL, 1 << 24 | 5), (130, NULL, 34, 'mark', NULL, 1 << 24 | 5),
            (140, 150, 60, 'mine', NULL, 1 << 24 | 5);";

    const KERNELS: &str = "
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            demangledName INTEGER, shortName INTEGER, globalPid INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (300, 400, 0, 7, 1, 1, 1 << 24), (350, 450, 0, 8, 2, 2, 1 << 24);";

    fn read_sql(sql: &str) -> Result<Traces, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r3.sqlite");
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        read_timeline(&[path])
    }

    #[test]
    fn ranges_and_kernels_are_read() {
        let timeline = read_sql(&format!("{TABLES}{KERNELS}")).unwrap().timeline.unwrap();
        let rank = &timeline.ranks[0];
        let spans: Vec<(Kind, u32, i64, bool)> = rank
            .spans
            .iter()
            .map(|span| (span.kind, span.number, span.begin_ns - 1_700_000_000_000_000_000, span.queue == 0))
            .collect();
        let wanted = [
            (Kind::Step, 7, 100, true),
            (Kind::Forward, 0, 110, true),
            (Kind::Kernel, 0, 300, false),
            (Kind::Collective, 0, 350, false),
        ];
        assert_eq!((rank.rank, spans), (3, wanted.to_vec()));
        assert_eq!(timeline.names.get(rank.collectives[0].operation), "all_reduce");
        assert_eq!(timeline.notes.len(), 2, "{:?}", timeline.notes);
    }

    /// As nsys 2022.4 exports them: the number is told beside the name.
    #[test]
    fn ranges_of_our_own_ranks_are_read() {
        let (columns, _) = TABLES.split_once("INSERT INTO NVTX_EVENTS").unwrap();
        let columns = columns.replace("globalTid INTEGER)", "globalTid INTEGER, uint64Value INTEGER)");
        let rows = "INSERT INTO NVTX_EVENTS VALUES (100, 900, 59, 'step', NULL, 1 << 24 | 5, 12),
            (110, 500, 59, 'forward', NULL, 1 << 24 | 5, 12), (120, 200, 59, 'block', NULL, 1 << 24 | 5, 3),
            (300, 400, 59, 'wait', NULL, 1 << 24 | 5, 0), (310, 390, 60, 'all_reduce', NULL, 1 << 24 | 5, 41);";
        let timeline = read_sql(&format!("{columns}{rows}")).unwrap().timeline.unwrap();
        let rank = &timeline.ranks[0];
        let spans: Vec<(Kind, u32)> = rank.spans.iter().map(|span| (span.kind, span.number)).collect();
        let wanted = [(Kind::Step, 12), (Kind::Forward, 12), (Kind::Block, 3), (Kind::Wait, 0), (Kind::Collective, 0)];
        assert_eq!(spans, wanted);
        assert_eq!(rank.collectives[0].sequence, Some(41));
        assert!(rank.collectives[0].synchronises && timeline.notes.len() == 1, "{:?}", timeline.notes);
    }

    #[test]
    fn processes_that_say_their_rank_are_that_rank() {
        let (columns, _) = TABLES.split_once("INSERT INTO NVTX_EVENTS").unwrap();
        let rows = |second: &str| {
            let steps = "(100, 900, 59, 'step 7', NULL, 1 << 24 | 5), (110, 200, 59, 'step 7', NULL, 2 << 24 | 5)";
            let first = "(90, NULL, 34, 'rankmark rank 3 of 4', NULL, 1 << 24 | 5)";
            format!(
                "{columns}INSERT INTO NVTX_EVENTS VALUES {steps}, {first}, (91, NULL, 34, '{second}', NULL, 2 << 24 | 5);"
            )
        };
        let read = |second: &str| {
            let timeline = read_sql(&rows(second)).unwrap().timeline.unwrap();
            let begins: Vec<(u32, i64)> =
                timeline.ranks.iter().map(|rank| (rank.rank, rank.spans[0].begin_ns % 1_000)).collect();
            (timeline.world, begins, timeline.notes.iter().any(|note| note.contains("names no ranks")))
        };
        assert_eq!(read("rankmark rank 1 of 4"), (Some(4), vec![(1, 110), (3, 100)], false));
        // One process says nothing, the same rank, another world, or what cannot be: none is believed.
        for other in ["mark", "rankmark rank 3 of 4", "rankmark rank 1 of 2", "rankmark rank 4 of 4"] {
            assert_eq!(read(other), (None, vec![(0, 100), (1, 110)], true), "{other}");
        }
    }

    #[test]
    fn missing_tables_are_notes_and_other_versions_are_refused() {
        let notes = read_sql(TABLES).unwrap().timeline.unwrap().notes;
        assert!(notes.iter().any(|note| note == "the file has no kernels of a GPU"), "{notes:?}");
        let error = read_sql(&TABLES.replace("3.13.2", "9.1")).unwrap_err().to_string();
        assert!(error.contains("version 9.1 of Nsight Systems' schema"), "{error}");
        let error = read_sql("CREATE TABLE a (b); CREATE VIEW StringIds AS SELECT 1 AS id, 'x' AS value;").unwrap_err();
        assert!(error.to_string().contains("no kernels and no NVTX ranges"), "{error}");
    }
}
