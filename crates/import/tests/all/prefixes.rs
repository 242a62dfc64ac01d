//! Files behind prefixes, in other encodings, and with lines that were written as one.

use import::Source;

use crate::{lines, one, read, sample};

#[test]
fn what_stands_before_each_line_changes_nothing() {
    let whole = sample("nccl_tests", "2.19.txt");
    let bare: String = whole.lines().skip(1).map(|line| format!("{line}\n")).collect();
    for prefix in [
        "node-a: ",
        "10.0.0.1: ",
        "[rank0]: ",
        "[default0]:",
        "[node-a:0]:",
        "[prterun-node-a-1@1,0]<stdout>: ",
        "[Thu Jul 16 12:00:00 2026][1,0]<stdout>: ",
        "Thu Jul  6 12:00:00 2026[1,0]<stdout>:",
        "2026-02-16T10:00:00.123456789Z ",
        "2026-02-16T10:00:00.123456789Z stdout F ",
        "2026-02-16 10:00:00 ",
        "[2026-02-16 10:00:00] ",
        "[pod/nccl-test-launcher-abc12/nccl] ",
        "worker-1  | ",
        "(Worker pid=1234, ip=10.0.0.1) ",
        "Feb 16 10:00:00 node-a job[123]: ",
        "Feb 16 10:00:00 ",
        "00:00:01 ",
        "> ",
        "12: ",
    ] {
        let tagged: String = bare.lines().map(|line| format!("{prefix}{line}\n")).collect();
        assert_eq!(one(&tagged), one(&bare), "{prefix}");
    }
    let coloured: String = bare.lines().map(|line| format!("\u{1b}[32m{line}\u{1b}[0m\n")).collect();
    assert_eq!(one(&coloured), one(&bare));
    // Times that go on.
    let timed = bare.lines().enumerate().map(|(at, line)| format!("2026-02-16T10:{:02}:59.{at}Z {line}\n", at % 60));
    assert_eq!(one(&timed.collect::<String>()), one(&bare));
}

#[test]
fn encodings_change_nothing() {
    let whole = sample("nccl_tests", "2.19.txt");
    let read_bytes = |bytes: Vec<u8>| read(&Source::new("x.log", bytes).unwrap()).unwrap().remove(0);
    let plain = read_bytes(whole.clone().into_bytes());
    assert_eq!(read_bytes(whole.replace('\n', "\r\n").into_bytes()), plain);
    assert_eq!(read_bytes(whole.replace('\n', "\r").into_bytes()), plain);
    let wide = |unit: u16| unit.to_le_bytes();
    assert_eq!(read_bytes(b"\xff\xfe".iter().copied().chain(whole.encode_utf16().flat_map(wide)).collect()), plain);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, whole.as_bytes()).unwrap();
    assert_eq!(read_bytes(packed.finish().unwrap()), plain);
    let odd = [b"user Jos\xe9 started this\n".as_slice(), whole.as_bytes()].concat();
    let source = Source::new("x.log", odd).unwrap();
    assert!(source.notes()[0].contains("the first in line 1"), "{:?}", source.notes());
    assert_eq!(lines(&read(&source).unwrap()[0]), lines(&plain));
}

#[test]
fn lines_that_were_written_as_one_are_read() {
    let prefix = "Thu May 31 05:20:00 2018[1,0]<stdout>:";
    let head = [
        "#    Intel (R) MPI Benchmarks 2018, MPI-1 part",
        "# Benchmarking Bcast",
        "# #processes = 118",
        "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]",
    ];
    let mut text: String = head.iter().map(|line| format!("{prefix}{line}\n")).collect();
    text += &format!("{prefix}   1   1000   2.77   2.84   2.80{prefix}   2   1000   3.11   3.28   3.17\n");
    text += &format!("{prefix}   16   1000   2.76   2.90   2.82{prefix}\n{prefix}   32   1000   2.91   3.02   2.96\n");
    text += "Thu May 31 05:20:01 2018[1,64]<stderr>:    0  libucs.so.0(+0x20b1c) [0x7f1a9b56fb1c]\n";
    text += "Thu May 31 05:20:01 2018[1,64]<stderr>:[node-b:1:0:1] Caught signal 11 (Segmentation fault)\n";
    let results = one(&text);
    let times: Vec<f64> = results.shapes().iter().map(|(_, figures)| figures[0].time_s * 1e6).collect();
    assert_eq!(times.iter().map(|us| format!("{us:.2}")).collect::<Vec<_>>(), ["2.80", "3.17", "2.82", "2.96"]);
    assert_eq!(results.all_omitted(), [""; 0]);
    assert!(results.notes.iter().any(|note| note.contains("Caught signal 11")), "{:?}", results.notes);
}
