//! Pictures: well formed, labels apart and inside, the same in both files, never a number that is none.

use report::chart::Draw as _;
use report::chart::{Axis, ChartSpec, Point, Quantity, Reference, Scale, Series};
use report::{Run, format};

use crate::data::{self, runs};
use crate::golden::text;

fn files(format_name: &str, run: &Run) -> Vec<(String, Vec<u8>)> {
    let files = format(format_name).unwrap().render(run).unwrap();
    files.into_iter().map(|file| (file.path.to_string(), file.content)).collect()
}

fn spec(series: Vec<Series>, references: Vec<Reference>) -> ChartSpec {
    ChartSpec {
        title: "all_reduce: busbw against bytes".into(),
        subtitle: "shm".into(),
        banner: Some("SIMULATED".into()),
        note: "note".into(),
        x: Axis { title: "bytes".into(), quantity: Quantity::Bytes, scale: Scale::Log },
        y: Axis { title: "busbw, GB/s".into(), quantity: Quantity::Bandwidth, scale: Scale::Log },
        series,
        references,
        ..ChartSpec::default()
    }
}

fn series(number: usize, value: f64) -> Series {
    let point = |x: f64| Point { x, y: value * x.log2(), low: value, high: value * 40.0, oversubscribed: false };
    Series { label: format!("series {number}"), style: number, points: vec![point(1024.0), point(1048576.0)] }
}

/// Every label inside the picture, and no two over each other.
pub(crate) fn assert_readable(name: &str, spec: &ChartSpec) {
    let scene = spec.scene();
    let texts = scene.texts();
    for (index, (text, extent)) in texts.iter().enumerate() {
        assert!(scene.frame().holds(extent), "{name}: `{text}` leaves the picture: {extent:?}");
        for (other, its) in &texts[index + 1..] {
            assert!(!extent.overlaps(its), "{name}: `{text}` covers `{other}`: {extent:?}, {its:?}");
        }
    }
}

#[test]
fn labels_keep_apart_however_many_there_are() {
    for number in [0, 1, 2, 3, 12, 22, 23, 60] {
        // All end at the same place: the worst case.
        let close: Vec<Series> = (0..number).map(|index| series(index, 1.0)).collect();
        let limits = close.iter().take(4).map(|one| Reference {
            label: format!("limit, {}", one.label),
            style: Some(one.style),
            points: vec![[1024.0, 30.0], [1048576.0, 30.0]],
        });
        let limits = limits.collect();
        assert_readable(&format!("{number} series"), &spec(close, limits));
    }
}

/// What tells many peers apart stands at the end of long labels: none is cut.
#[test]
fn labels_of_many_peers_are_whole() {
    let charts = files("svg", &data::peers());
    for (path, content) in &charts {
        let text = std::str::from_utf8(content).unwrap();
        assert!(!text.contains('…'), "{path}");
    }
    let (_, busbw) = charts.iter().find(|(path, _)| path.ends_with("busbw.svg")).unwrap();
    let busbw = std::str::from_utf8(busbw).unwrap();
    for label in [
        "shm, 2 ranks, private buffers",
        "mpi, 6 ranks, registered buffers, libmpi.so.40, untuned",
        "mpi, 6 ranks, registered buffers, libmpich.so.12, tuned",
        "pytorch/gloo, 4 ranks, private buffers, bind none",
    ] {
        assert_eq!(busbw.matches(&format!(">{label}<")).count(), 1, "{label}");
    }
    let document = roxmltree::Document::parse(busbw).unwrap();
    let across = |tick: &str| {
        let text = document.descendants().find(|node| node.has_tag_name("text") && node.text() == Some(tick));
        text.unwrap().attribute("x").unwrap().parse::<f64>().unwrap()
    };
    assert!(across("256 MiB") - across("1 KiB") > 600.0, "they leave the plot its room");
}

#[test]
fn ticks_keep_apart_on_every_scale() {
    for (quantity, scale) in [
        (Quantity::Bytes, Scale::Log),
        (Quantity::Seconds, Scale::Log),
        (Quantity::Seconds, Scale::FromZero),
        (Quantity::Seconds, Scale::Linear),
        (Quantity::Count, Scale::Steps),
        (Quantity::Bandwidth, Scale::Log),
    ] {
        for span in [1.0f64, 1.0001, 1.5, 3.0, 10.0, 1e3, 1e6, 1e9, 1e12] {
            let points =
                [1.0, span.sqrt(), span].map(|x| Point { x, y: x, low: x, high: x, oversubscribed: false }).to_vec();
            let mut chart = spec(vec![Series { label: "a".into(), style: 0, points }], Vec::new());
            (chart.x.quantity, chart.x.scale) = (quantity, scale);
            (chart.y.quantity, chart.y.scale) = (quantity, if scale == Scale::Steps { Scale::FromZero } else { scale });
            assert_readable(&format!("{quantity:?} {scale:?} x{span}"), &chart);
        }
    }
}

#[test]
fn many_rank_counts_keep_apart() {
    let points =
        (1..=200).map(|x| Point { x: f64::from(x), y: 1.0, low: 1.0, high: 1.0, oversubscribed: false }).collect();
    let mut chart = spec(vec![Series { label: "a".into(), style: 0, points }], Vec::new());
    chart.x = Axis { title: "ranks".into(), quantity: Quantity::Count, scale: Scale::Steps };
    assert_readable("200 rank counts", &chart);
}

#[test]
fn the_charts_of_every_run_are_readable_xml() {
    for (name, run) in runs() {
        for (path, content) in files("svg", &run) {
            let text = String::from_utf8(content).unwrap();
            let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{name} {path}: {error}"));
            let known = ["svg", "title", "style", "rect", "polygon", "polyline", "circle", "path", "text"];
            for node in document.descendants().filter(roxmltree::Node::is_element) {
                assert!(known.contains(&node.tag_name().name()), "{name} {path}: {}", node.tag_name().name());
                for attribute in node.attributes() {
                    let value = attribute.value();
                    assert!(!value.contains("NaN") && !value.contains("inf"), "{name} {path}: {attribute:?}");
                }
            }
            assert_apart(&format!("{name} {path}"), &document);
        }
    }
}

/// Makes the check of [`assert_readable`] on the file: each text says how long it is.
fn assert_apart(name: &str, document: &roxmltree::Document) {
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    let boxes: Vec<(String, [f64; 4])> = texts
        .map(|text| {
            let number = |name: &str| text.attribute(name).unwrap().parse::<f64>().unwrap();
            let (x, y, size, length) = (number("x"), number("y"), number("font-size"), number("textLength"));
            let left = match text.attribute("text-anchor") {
                Some("middle") => x - length / 2.0,
                Some("end") => x - length,
                _ => x,
            };
            (text.text().unwrap_or_default().to_owned(), [left, y - 0.74 * size, left + length, y + 0.21 * size])
        })
        .collect();
    for (index, (text, a)) in boxes.iter().enumerate() {
        for (other, b) in &boxes[index + 1..] {
            let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
            assert!(apart, "{name}: `{text}` covers `{other}`");
        }
    }
}

#[test]
fn png_and_svg_are_the_same_size() {
    for (name, run) in runs().into_iter().take(4) {
        let (svgs, pngs) = (files("svg", &run), files("png", &run));
        assert_eq!(svgs.len(), pngs.len());
        for ((svg_path, svg), (png_path, png)) in svgs.iter().zip(&pngs) {
            assert_eq!(svg_path.replace(".svg", ".png"), *png_path);
            let document = std::str::from_utf8(svg).unwrap();
            let document = roxmltree::Document::parse(document).unwrap();
            let side = |name: &str| document.root_element().attribute(name).unwrap().parse::<f64>().unwrap();
            let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
            let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut pixels).unwrap();
            let expected = [side("width"), side("height")].map(|side| (side * 2.0).round() as u32);
            assert_eq!([info.width, info.height], expected, "{name} {png_path}");
            let dark = pixels.chunks(3).filter(|rgb| rgb.iter().all(|part| *part < 64)).count();
            assert!(dark > 500, "{name} {png_path}: no text was drawn");
        }
    }
}

#[test]
fn equal_input_gives_equal_bytes() {
    for name in ["markdown", "csv", "svg", "png"] {
        assert_eq!(files(name, &data::three_by_twenty()), files(name, &data::three_by_twenty()));
    }
}

#[test]
fn a_configuration_has_one_colour_in_all_charts() {
    let charts = files("svg", &data::study());
    let colour = |path: &str| {
        let (_, svg) = charts.iter().find(|(name, _)| name.ends_with(path)).unwrap();
        let text = String::from_utf8(svg.clone()).unwrap();
        let document = roxmltree::Document::parse(&text).unwrap();
        let label = document.descendants().find(|node| node.has_tag_name("text") && node.text() == Some("4 ranks"));
        label.unwrap().attribute("fill").unwrap().to_owned()
    };
    assert_eq!(colour("all_reduce-time.svg"), colour("all_reduce-busbw.svg"));
}

#[test]
fn the_limit_is_drawn_where_it_was_measured() {
    let labels = |run: &Run| {
        let charts = files("svg", run);
        let (_, svg) = charts.iter().find(|(name, _)| name.ends_with("busbw.svg")).unwrap();
        String::from_utf8(svg.clone()).unwrap()
    };
    assert!(labels(&data::one_series()).contains(">limit<"));
    assert!(labels(&data::three_by_twenty()).contains(">limit, 4 ranks<"));
    // Nine limits would be a thicket: their span remains.
    assert!(labels(&data::twelve_series()).contains(">highest limit<"));
    let mut without = data::one_series();
    without.cases.iter_mut().for_each(|case| drop(case.metrics.shift_remove("limit_busbw_gbs")));
    assert!(!labels(&without).contains("limit"));
}

/// A mesh that follows from the ranks tells no cases apart; one that was chosen does.
#[test]
fn a_mesh_is_in_labels_only_where_it_was_chosen() {
    let line = |ranks: u32, strategy: &str, mesh: &str| {
        let mut line = data::Invented::new(ranks, 0, 0.1).line();
        line.benchmark = "training".into();
        line.id = format!("{ranks:06x}{}", mesh.replace('x', ""));
        let parameters = serde_json::json!({"ranks": ranks, "model": "mlp", "strategy": strategy, "mesh": mesh});
        line.parameters = parameters.as_object().cloned().unwrap().into();
        line
    };
    let labels = |lines: Vec<record::CaseLine>| {
        let run = data::run(lines);
        let sections = view::study::operations(&run.cases, &run.benchmarks);
        assert_eq!(view::study::timed(&sections[0]), "time of one step");
        sections[0].configurations.iter().map(|c| c.label.clone()).collect::<Vec<_>>().join("; ")
    };
    let follows = labels(vec![line(1, "data", "1x1x1"), line(2, "data", "2x1x1"), line(4, "data", "4x1x1")]);
    assert!(!follows.contains("x1x1"), "{follows}");
    let chosen = labels(vec![line(4, "hybrid", "2x2x1"), line(4, "hybrid", "1x2x2")]);
    assert!(chosen.contains("1x2x2") && chosen.contains("2x2x1"), "{chosen}");
}

fn svg(run: &Run, name: &str) -> String {
    let found = files("svg", run).into_iter().find(|(path, _)| path.ends_with(name));
    String::from_utf8(found.unwrap_or_else(|| panic!("no {name}")).1).unwrap()
}

#[test]
fn every_chart_says_where_its_numbers_come_from() {
    for (name, mut run) in runs().into_iter().filter(|(name, _)| *name != "hostile") {
        run.cases.iter_mut().for_each(|case| case.trials = Some(6));
        for (path, content) in files("svg", &run) {
            let text = String::from_utf8(content).unwrap();
            for wanted in ["2 cores, invented", "2026-11-20T10:15:00Z", "backend: ", "launcher: ", "6 trials a case"] {
                assert!(text.contains(wanted), "{name}, {path}: no `{wanted}`");
            }
        }
    }
}

#[test]
fn a_long_origin_is_wrapped_and_not_cut() {
    let mut run = data::one_series();
    run.machine = "128 cores of a processor with a long name, ".repeat(8);
    let chart = svg(&run, "all_reduce-time.svg");
    assert!(!chart.contains('\u{2026}') && chart.matches("128 cores").count() >= 7, "{chart}");
    assert!(chart.contains("6 trials a case"));
}

#[test]
fn libraries_are_named_with_version_and_launcher() {
    let peers = svg(&data::peers(), "all_reduce-time.svg");
    assert!(peers.contains("mpi (Open MPI v4.1.6, libmpi.so.40)"), "{peers}");
    assert!(peers.contains("launcher: /usr/bin/mpirun; rankmark"), "{peers}");
    // The other MPI library was not examined, so nothing that holds for the first is said of it.
    assert!(peers.contains("mpi (version not recorded)") && peers.contains("pytorch/gloo (torch 2.9.1)"), "{peers}");
    // The launcher of the whole run started all ranks.
    let mut run = data::one_series();
    run.started_by = Some("srun".into());
    let one = svg(&run, "all_reduce-time.svg");
    assert!(one.contains("launcher: srun") && one.contains("shm (0.1.0)"), "{one}");
}

#[test]
fn a_slow_pair_of_ranks_is_worse_in_the_key_whatever_the_unit() {
    // Microseconds have no format of their own: which way is better stands in the metric's declaration.
    let page = text("html", &data::matrices());
    assert!(page.contains("orange: worse, to 11.6"), "{}", page.split("Grey").nth(1).unwrap_or("no key"));
}

#[test]
fn weak_and_strong_scaling_have_a_chart_each() {
    for what in ["throughput", "efficiency"] {
        let of = |kind: &str| svg(&data::scaled(), &format!("training-{what}-{kind}.svg"));
        let (weak, strong) = (of("weak"), of("strong"));
        assert!(weak.contains("weak scaling") && !weak.contains("strong"), "{what}");
        assert!(strong.contains("strong scaling") && !strong.contains("weak"), "{what}");
        let mixed = files("svg", &data::scaled()).into_iter().find(|(path, _)| path.ends_with("training-ranks.svg"));
        assert!(mixed.is_none(), "times of both on one axis");
        for chart in [weak, strong] {
            // One line a strategy, each beginning at one rank.
            assert_eq!(chart.matches(">gpt2_small, data<").count(), 1, "{what}");
            assert_eq!(chart.matches(">gpt2_small, tensor<").count(), 1, "{what}");
        }
    }
}

#[test]
fn memory_is_drawn_in_bytes_with_what_was_measured_and_the_limit() {
    let run = data::held();
    let chart = svg(&run, "memory-bytes.svg");
    for label in ["parameters", "gradients", "optimizer", "activations", "communication", "rest", "process (measured)"]
    {
        assert!(chart.contains(&format!(">{label}<")), "{label}");
    }
    assert!(chart.contains(">measured<") && chart.contains(">limit, all ranks<"));
    assert!(chart.contains(">4 GiB<") || chart.contains(">8 GiB<"), "bytes stand on the axis");
    // What cannot be drawn is said.
    let mut many = run.clone();
    many.cases = (0..30)
        .map(|number| {
            let mut case = run.cases[0].clone();
            case.id = format!("case-{number}");
            case.parameters.insert("batch", serde_json::json!(number + 1));
            case
        })
        .collect();
    assert!(svg(&many, "memory-bytes.svg").contains("6 more cases are in the table and not drawn."));
}

#[test]
fn headings_say_whether_caches_are_warm() {
    let mut run = data::study();
    let page = |run: &Run| text("markdown", run);
    assert!(page(&run).contains("streaming, cache-warm"), "{}", page(&run));
    assert!(svg(&run, "all_reduce-busbw.svg").contains("cache-warm"));
    for case in &mut run.cases {
        case.parameters.insert("cache", serde_json::json!("cold"));
    }
    assert!(page(&run).contains("streaming, cache-cold") && !page(&run).contains("cache-warm"));
    run.cases.iter_mut().for_each(|case| case.mode = terms::Mode::Isolated);
    assert!(!page(&run).contains("cache-"), "one call at a time repeats on nothing");
}

/// On a dark page shapes and words change, and cells of a matrix with their words do not.
#[test]
fn a_chart_has_a_background_and_a_dark_form() {
    let chart = svg(&data::study(), "all_reduce-busbw.svg");
    let document = roxmltree::Document::parse(&chart).unwrap();
    let style = document.descendants().find(|node| node.has_tag_name("style")).unwrap().text().unwrap();
    assert!(style.starts_with("@media (prefers-color-scheme:dark)"), "{style}");
    let background = document.descendants().find(|node| node.has_tag_name("rect")).unwrap();
    assert_eq!(background.attribute("fill"), Some("#ffffff"));
    for node in document.descendants().filter(|node| node.has_tag_name("text")) {
        let fill = node.attribute("fill").unwrap();
        assert!(style.contains(&format!("text[fill=\"{fill}\"]")), "{fill} of `{}`", node.text().unwrap());
    }
    assert!(!style.contains("text[fill=\"#ffffff\"]"), "white words stand on dark cells");
}

/// No column of a matrix is without its name.
#[test]
fn wide_heads_of_a_matrix_stand_on_two_lines() {
    let heights = |columns: usize| {
        let names: Vec<String> = (0..columns).map(|at| format!("read_{at:02}")).collect();
        let values = vec![vec![1.0; columns]; 2];
        let matrix =
            view::Matrix { rows: vec!["a".into(), "b".into()], columns: names.clone(), values, ..Default::default() };
        let chart = ChartSpec { matrix: Some(matrix), ..spec(Vec::new(), Vec::new()) }.svg();
        let document = roxmltree::Document::parse(&chart).unwrap();
        let head = |name: &String| {
            let text = document.descendants().find(|node| node.text() == Some(name) && node.has_tag_name("text"));
            text.unwrap_or_else(|| panic!("no {name} in {chart}")).attribute("y").unwrap().to_owned()
        };
        names.iter().map(head).collect::<Vec<String>>()
    };
    let few = heights(3);
    assert!(few.iter().all(|height| *height == few[0]), "{few:?}");
    let many = heights(30);
    assert!(many[0] != many[1] && many[0] == many[2] && many[1] == many[3], "{many:?}");
}

/// Names of pods are longer than a picture is wide: its cells keep most of it.
#[test]
fn long_heads_of_a_matrix_leave_room_for_its_cells() {
    let names = (0..8).map(|at| format!("{at} {}", "worker-0.training.svc.cluster.local".repeat(6))).collect();
    let columns = (0..8).map(|at: usize| at.to_string()).collect();
    let matrix = view::Matrix { rows: names, columns, values: vec![vec![1.5; 8]; 8], ..Default::default() };
    let chart = ChartSpec { matrix: Some(matrix), ..spec(Vec::new(), Vec::new()) };
    assert_readable("long heads", &chart);
    let svg = chart.svg();
    assert!(svg.contains(">7 worker-0") && svg.contains('…') && svg.contains(">2</text>"), "{svg}");
}

/// A point beyond which the interval goes on has an arrow there, and no cap that would claim an end.
#[test]
fn an_interval_that_is_cut_ends_in_an_arrow() {
    let point = |high: f64| Point { x: 1024.0, y: 10.0, low: 9.0, high, oversubscribed: false };
    let one = |high| Series { label: "shm".into(), style: 0, points: vec![point(high)] };
    let arrows = |high| spec(vec![one(high)], Vec::new()).svg().matches("<polygon").count();
    assert_eq!(arrows(1e9), arrows(11.0) + 1);
}

/// Points with more ranks than cores are hollow, and the legend says so.
#[test]
fn oversubscribed_points_are_marked() {
    let of = |oversubscribed| {
        let point = |x: f64| Point { x, y: x, low: x, high: x, oversubscribed: oversubscribed && x > 2000.0 };
        let one = Series { label: "shm".into(), style: 0, points: vec![point(1024.0), point(4096.0)] };
        let chart = spec(vec![one], Vec::new());
        assert_readable("oversubscribed", &chart);
        chart.svg()
    };
    let (plain, marked) = (of(false), of(true));
    assert!(!plain.contains("ranks &gt; cores") && marked.contains("ranks &gt; cores"), "{marked}");
    // The point, and the sample of the legend.
    assert_eq!(marked.matches("<circle").count(), plain.matches("<circle").count() + 1);
    assert_eq!(marked.matches(r##"fill="#ffffff" stroke="#0072b2""##).count(), 1, "{marked}");
}

/// A thread from a label to its line stays outside the plot, where it cannot be read as data.
#[test]
fn no_thread_crosses_the_plot() {
    let short = Series { points: series(0, 1.0).points[..1].to_vec(), ..series(0, 1.0) };
    let svg = spec(vec![short, series(1, 1.0)], Vec::new()).svg();
    assert!(!svg.contains("stroke-dasharray=\"1 3.5\""), "{svg}");
}
