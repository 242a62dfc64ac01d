//! Small exports by hand: versions, ranges, kernels, and what processes say of their ranks.

use rusqlite::Connection;
use terms::Error;
use trace::timeline::Kind;

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

/// Ranges as nsys 2022.4 exports them: the number is not in the name but next to it.
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
fn a_launch_of_a_cuda_graph_keeps_the_gpu_busy() {
    let graphs = "
        CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            globalPid INTEGER, graphId INTEGER);
        INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (200, 800, 0, 7, 1 << 24, 9), (0, 0, 0, 7, 1 << 24, 9);";
    let timeline = read_sql(&format!("{TABLES}{graphs}")).unwrap().timeline.unwrap();
    let kernels = timeline.ranks[0].spans.iter().filter(|span| span.kind == Kind::Kernel);
    assert_eq!(kernels.map(|span| span.duration_ns()).collect::<Vec<_>>(), [600]);
    let note = "1 launch of a CUDA graph is read as one kernel";
    assert!(timeline.notes.iter().any(|said| said.starts_with(note)), "{:?}", timeline.notes);
}

/// NCCL tells its calls, too. Ranges of the host count where no kernels say how long the calls take.
#[test]
fn ranges_of_nccl_are_sends_receives_and_collectives() {
    let ranges = |kernels: &str| {
        let (columns, _) = TABLES.split_once("INSERT INTO NVTX_EVENTS").unwrap();
        let rows = "INSERT INTO NVTX_EVENTS VALUES (100, 900, 59, 'step 7', NULL, 1 << 24 | 5),
            (110, 200, 59, 'ncclSend', NULL, 1 << 24 | 5), (210, 300, 59, 'ncclRecv', NULL, 1 << 24 | 5),
            (310, 320, 59, 'ncclGroupEnd', NULL, 1 << 24 | 5), (330, 400, 59, 'ncclAllReduce', NULL, 1 << 24 | 5);";
        let timeline = read_sql(&format!("{columns}{rows}{kernels}")).unwrap().timeline.unwrap();
        let calls = timeline.ranks[0].collectives.iter();
        (calls.map(|call| timeline.names.get(call.operation).to_owned()).collect::<Vec<_>>(), timeline.notes)
    };
    let (calls, notes) = ranges("");
    assert_eq!(calls, ["send", "recv", "all_reduce"]);
    assert!(notes.iter().any(|note| note.starts_with("3 calls of NCCL are ranges of the host")), "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("1 NVTX range is left out")), "{notes:?}");
    let (calls, notes) = ranges(KERNELS);
    assert_eq!(calls, ["all_reduce"], "the kernel's");
    assert!(!notes.iter().any(|note| note.contains("ranges of the host")), "{notes:?}");
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
