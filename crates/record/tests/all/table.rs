//! A small table of benchmarks that exercises every kind of field.

use record::{About, Better, Case, Metric};
use terms::{Collective, Dtype, Field, FieldError, Kind, Mode, Named, Role, Variant};

/// Where a field's value is kept.
enum Shown {
    Always,
    WhenSet,
    Setting,
}

const fn field(name: &'static str, kind: Kind, default: Option<&'static str>, shown: Shown) -> Field {
    let field = Field::new(kind, default, "A field.").named(name);
    match shown {
        Shown::Always => field.always(),
        Shown::WhenSet => field,
        Shown::Setting => field.role(Role::Sampling),
    }
}

const fn world(field: Field) -> Field {
    field.role(Role::World)
}

const COMMON: &[Field] = &[
    world(field("ranks", Kind::Whole(1, 4096), Some("2"), Shown::Always)),
    world(field("backend", Kind::Word(|| vec!["shm", "reference", "sim"]), Some("shm"), Shown::Always)),
    world(field("bind", Kind::Word(|| vec!["core", "none"]), Some("core"), Shown::WhenSet)),
    field("dtype", Kind::Word(Dtype::names), Some("f32"), Shown::Always),
    field("mode", Kind::Word(Mode::names), Some("streaming"), Shown::Always),
    field("seed", Kind::Whole(0, u64::MAX), Some("1"), Shown::Always),
    field("target_precision", Kind::Ratio, Some("2%"), Shown::Setting),
    field("max_seconds", Kind::Seconds, None, Shown::Setting),
    field("expect", Kind::Texts, None, Shown::Setting),
    field("inject", Kind::Texts, None, Shown::WhenSet),
    field("pace_bandwidth", Kind::Bandwidth, None, Shown::WhenSet),
    field("pace_latency", Kind::Seconds, None, Shown::WhenSet),
];

/// A choice with variants that have options of their own.
const WAYS: &[Variant] = &[
    Variant { name: "plain", doc: "", options: &[] },
    Variant {
        name: "pipelined",
        doc: "",
        options: &[
            Field::new(Kind::Word(|| vec!["ring", "tree"]), Some("ring"), "").named("algorithm"),
            Field::new(Kind::Whole(1, 64), None, "").named("chunks"),
        ],
    },
];

const COLLECTIVE: &[Field] = &[
    field("op", Kind::Word(Collective::names), None, Shown::Always),
    field("bytes", Kind::Bytes, None, Shown::Always),
    field("in_place", Kind::Bool, Some("true"), Shown::Always),
    field("way", Kind::Choice(WAYS), None, Shown::WhenSet),
    field("root", Kind::Whole(0, 4095), Some("0"), Shown::WhenSet),
    field("traffic_file", Kind::Text, None, Shown::WhenSet),
];

const TRAINING: &[Field] = &[
    field("model", Kind::Word(|| vec!["gpt2", "resnet50"]), Some("gpt2"), Shown::Always),
    field("global_batch", Kind::Whole(1, 1 << 20), Some("8"), Shown::Always),
];

fn check_collective(case: &mut Case) -> Result<(), FieldError> {
    let problem = |field, message: &str, hint: Option<&str>| {
        let refused = FieldError::new(field, message);
        match hint {
            Some(hint) => refused.hint(hint),
            None => refused,
        }
    };
    let Some(op) = case.word::<Collective>("op") else {
        return Err(problem("op", "the case names no operation", Some("write op: all_reduce")));
    };
    if op == Collective::Barrier {
        case.parameters.shift_remove("bytes");
        return Ok(());
    }
    let Some(bytes) = case.whole("bytes") else {
        return Err(problem("bytes", "the case names no size", None));
    };
    let root = case.whole("root").unwrap_or(0);
    if op.has_root() && root >= u64::from(case.ranks()) {
        return Err(problem("root", &format!("root {root} of {} ranks", case.ranks()), Some("ranks count from 0")));
    }
    let rounded = bytes / 4 * 4;
    if rounded != bytes {
        case.bytes_requested = Some(bytes);
        case.caveats.push(record::Caveat::SizeRounded);
        case.parameters.insert("bytes", rounded.into());
    }
    Ok(())
}

const METRICS: &[Metric] = &[
    Metric::new("algbw_gbs", "GB/s", Better::Higher, "S/t."),
    Metric::new("busbw_gbs", "GB/s", Better::Higher, "Wire bandwidth."),
    Metric::new("limit_share", "1", Better::Higher, "Of the limit."),
];

pub(crate) static COLLECTIVES: About = About {
    name: "collective",
    doc: "Collective operations.",
    fields: &[|| COMMON, || COLLECTIVE],
    metrics: METRICS,
    check: check_collective,
    command: None,
    show: record::show::Show::default,
};

pub(crate) static TRAININGS: About = About {
    name: "training",
    doc: "Training.",
    fields: &[|| COMMON, || TRAINING],
    metrics: &[],
    check: |_| Ok(()),
    command: None,
    show: record::show::Show::default,
};

pub(crate) static TABLE: [&About; 2] = [&COLLECTIVES, &TRAININGS];

/// Pairs of owned texts.
pub(crate) fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
