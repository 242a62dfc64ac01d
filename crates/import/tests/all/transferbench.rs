//! The text of TransferBench.

use crate::{lines, one, read, refusal, sample, source};

fn text() -> String {
    sample("transferbench", "example.md")
}

#[test]
fn copies_by_the_copy_engine_that_run_alone_are_read() {
    let results = one(&text());
    // 268435456 bytes / 60.973e9 bytes a second; the program prints 4.403 ms.
    let expected = "hardware test=peer_copy ranks=2 device=cuda bytes=268435456 on cuda: 4402.530 us gbs 60.973";
    assert_eq!(lines(&results), [expected]);
    assert_eq!(results.shapes()[0].0.implementation.as_deref(), Some("G0 -> D000:001 -> G1"));
    assert_eq!(results.tool, "TransferBench 1.62.00");
    assert_eq!(results.facts["settings of the command line"], "HSA_OVERRIDE_GFX_VERSION=9.4.2");
    assert_eq!(
        results.all_omitted(),
        [
            "line 8: test 1: it copies by kernels, and tests of this kind here copy by the copy engine",
            "line 21: test 3: 2 transfers at once have no counterpart here",
            "line 25: test 4: reads or writes alone have no counterpart here",
            "line 30: test 5: reads or writes alone have no counterpart here",
        ]
    );
}

#[test]
fn only_the_first_gpu_is_that_of_a_native_run() {
    for (path, test, implementation) in [
        ("C0 -> D000:001 -> G0", "host_to_device", None),
        ("C0 -> D00.*:001 -> G0", "host_to_device", None),
        ("C1 -> D000:001 -> G0", "host_to_device", Some("C1 -> D000:001 -> G0")),
        ("G3 -> D003:001 -> C0", "device_to_host", Some("G3 -> D003:001 -> C0")),
        ("G0 -> D000:001 -> G0", "device_copy", None),
    ] {
        let results = one(&text().replace("G0 -> D000:001 -> G1", path));
        let (shape, _) = &results.shapes()[0];
        assert_eq!((shape.fields[0].1.as_ref(), shape.implementation.as_deref()), (test, implementation), "{path}");
    }
    for (path, why) in [
        ("U0 -> D000:001 -> G0", "memory of this kind"),
        ("G0 -> D000:001 -> G", "expected a memory"),
        ("G0 -> D000:001", "expected source, executor and destination"),
        ("C0 -> C000:004 -> G0", "copies by `C000:004`"),
    ] {
        let omitted = read(&source(&text().replace("G0 -> D000:001 -> G1", path))).unwrap().remove(0).all_omitted();
        assert!(omitted[1].contains(why), "{path}: {omitted:?}");
    }
}

#[test]
fn damaged_lines_are_left_out_and_commas_refused() {
    for (from, to, why) in [
        ("   60.973 GB/s |    4.403 ms", "    0.973 GB/s |    4.403 ms", "do not take 4.403 ms"),
        ("   60.973 GB/s |    4.403 ms", "   60.973 GiB/s |    4.403 ms", "expected a value in GB/s"),
        ("   60.973 GB/s |    4.403 ms", "   60.973 GB/s ", "expected 4 values"),
        ("Overhead: 0.061 ms", "Overhead: 0.0", "its last line is cut"),
    ] {
        let results = one(&text().replace(from, to));
        assert!(results.is_empty() && results.all_omitted()[1].contains(why), "{:?}", results.all_omitted());
    }
    let open = one(&text().replace(" Aggregate (CPU)  |   58.541 GB/s", " Aggregate"));
    assert!(open.cut && open.is_empty(), "{:?}", open.all_omitted());
    assert!(
        refusal(&text().replace("   60.973 GB/s |    4.403", "   60,973 GB/s |    4.403")).contains("a comma counts")
    );
    let row = "     Transfer 00  |   60.973 GB/s |    4.403 ms |    268435456 bytes | G0 -> D000:001 -> G1\n";
    for (from, to) in [(row, format!("{row}{row}")), ("Test 2:\n", "Test 2:\nTest 1:\n".to_owned())] {
        assert!(refusal(&text().replace(from, &to)).contains("separate programs wrote here at once"));
    }
}

#[test]
fn runs_under_two_headings_are_two_records() {
    let run = text().replace("```bash\n", "").replace("```\n", "");
    let all = read(&source(&format!("before\n{run}\nafter\n{run}"))).unwrap();
    assert_eq!((all.len(), all[1].facts["heading"].as_str()), (2, "after"));
    assert_eq!(one(&format!("{run}{run}")).shapes()[0].1.len(), 2);
}

#[test]
fn tables_of_presets_are_told() {
    // Of a public blog of AMD on MI300X: `./TransferBench a2a 64M 8`, shorter.
    let a2a = "./TransferBench a2a 64M 8\nTransferBench v1.60.00 (with NIC support)\n\
               NUM_ITERATIONS       =           10 : Running 10  timed iteration(s)\n\n\
               GPU-GFX All-To-All benchmark:\n==========================\nTest 1:\n \
               Executor: GPU 00 |  315.552 GB/s |    1.489 ms |    469762048 bytes | 326.317 GB/s (sum)\n     \
               Transfer 00  |   47.056 GB/s |    1.426 ms |     67108864 bytes | F0 -> G000:008 -> F1\n     \
               Transfer 01  |   46.826 GB/s |    1.433 ms |     67108864 bytes | F0 -> G000:008 -> F2\n \
               Aggregate (CPU)  | 1937.924 GB/s |    1.939 ms |   3758096384 bytes | Overhead: 0.447 ms\n\n\
               Summary: [67108864 bytes per Transfer]\n==========\n\
               SRC\\DST  GPU 00     GPU 01     GPU 02        STotal      Actual\n\
               GPU 00      N/A     47.056     46.826       326.317     316.469\n";
    // Of the guide that `example.md` is of.
    let p2p = "TransferBench v1.62.00\nUnidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)\n \
               SRC+EXE\\DST    CPU 00    CPU 01       GPU 00    GPU 01\n  \
               CPU 00  ->     92.21    102.51        45.11     45.16\n";
    let told = |text: &str| one(text).all_omitted();
    assert_eq!(
        told(a2a),
        [
            "line 11: test 1: 2 transfers at once have no counterpart here",
            "line 15: a table of a preset is not read: its copies run at once, or by kernels unless it says so",
        ]
    );
    assert!(told(p2p)[0].starts_with("line 3: a table of a preset is not read"), "{:?}", told(p2p));
    assert!(one(a2a).is_empty() && one(p2p).is_empty());
}
