//! Rankmark with one more benchmark: all there is to write for one. It sums whole numbers on every rank, by one of two ways
//! of counting, and checks the sum.
//!
//! ```sh
//! cargo run --example toy -- toy up,down:step=2 --numbers 10000,100000
//! ```

use std::hint::black_box;
use std::process::ExitCode;

use benchmarks::fields::{BACKEND, DEVICE, MODE, RANKS, SEED};
use benchmarks::{Benchmark, Measured, ParsedCase, Prepared, RankContext, Sampling, Work, World};
use comm::Communicator;
use measure::{Failure, WrongReport};
use record::show::{At, Chart, ChartKind, Column, Format, Show, Table};
use record::{About, Better, Case, Command, Metric, Shape, Sweep};
use serde_json::{Map, Value, json};
use terms::{Field, FieldError, Kind, Role, Variant};
use view::study::Operation;
use view::{Axis, ChartSpec, Finding, NamedChart, Quantity, Scale, Stack, View};

/// The line that a benchmark of the program itself has in `benchmarks::BENCHMARKS`.
fn main() -> ExitCode {
    benchmarks::add(&[&Toy]);
    rankmark::main()
}

/// How numbers are counted: a choice; one variant of it has an option.
static WAYS: &[Variant] = &[
    Variant { name: "up", doc: "from 1 on", options: &[] },
    Variant {
        name: "down",
        doc: "from the last on",
        options: &[Field::new(Kind::Whole(1, 4), Some("1"), "numbers in each addition").named("step")],
    },
];

const WAY: Field =
    Field::new(Kind::Choice(WAYS), Some("up"), "how numbers are counted").always().role(Role::Implementation);

record::fields! {
    /// What a case is.
    struct Fields {
        way: String = WAY,
        ranks: u32 = RANKS,
        backend: String = BACKEND,
        device: String = DEVICE,
        numbers: u64 = Field::new(Kind::Whole(1, 1 << 30), Some("10000"), "how many numbers are summed")
            .always()
            .was(&["count"]),
        mode: terms::Mode = MODE,
        seed: u64 = SEED,
    }
}

static ABOUT: About = About {
    name: "toy",
    doc: "sums of whole numbers",
    fields: &[Fields::fields, World::fields, comm::fields, Sampling::fields],
    metrics: &[
        Metric::new("numbers_per_s", "1/s", Better::Higher, "numbers of all ranks / time").shape(Shape::Rate),
        Metric::new("rank_ratios", "", Better::Lower, "time of each rank over that of each other").shape(Shape::Matrix),
    ],
    check,
    command: Some(Command {
        name: "toy",
        doc: "Sums whole numbers",
        argument: "way",
        examples: &[("add --ranks 2", "sums on two ranks")],
        notes: "",
        sweep: Some(Sweep { field: "numbers", values: "1000,10000,100000", unless: ("way", "none") }),
    }),
    show,
};

fn check(case: &mut Case) -> Result<(), FieldError> {
    let fields = Fields::of(case)?;
    if fields.numbers == 13 {
        let message = "13 is not summed".to_owned();
        return Err(FieldError::new("numbers", message).hint("any other number"));
    }
    Ok(())
}

fn show() -> Show {
    let columns = vec![
        Column::new("way", "way", Format::Word),
        Column::new("numbers", "numbers", Format::Count),
        Column::new("ranks", "ranks", Format::Count),
        Column::time("time"),
        Column::precision(),
        Column::new("numbers/s", "numbers_per_s", Format::Number),
        Column::wrong(),
    ];
    let ratios = Chart {
        kind: ChartKind::Matrix,
        x_title: "over the time of rank".to_owned(),
        at: At::Every,
        ..Chart::over_ranks("ratios", "time of ranks over each other", "rank_ratios")
    };
    let rate = Chart {
        x: "numbers".to_owned(),
        x_title: "numbers".to_owned(),
        ..Chart::over_ranks("rate", "numbers/s", "numbers_per_s")
    };
    Show {
        tables: vec![Table { columns, ..Table::default() }],
        charts: vec![rate, ratios],
        headline: vec!["numbers_per_s".to_owned()],
        ..Show::default()
    }
}

/// The benchmark.
struct Toy;

/// The values of a case, read once.
struct ToyCase {
    case: Case,
    fields: Fields,
    /// As [`Sum::step`].
    step: Option<usize>,
}

/// A case on one rank.
struct Sum {
    /// Numbers in each addition, from the last on; None: one after another from 1 on.
    step: Option<usize>,
    numbers: u64,
    found: u64,
}

impl Benchmark for Toy {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn parse(&self, case: &Case) -> Result<Box<dyn ParsedCase>, Failure> {
        let fields = Fields::of(case)?;
        let (_, options) = record::plan::chosen(&WAY.named("way"), &fields.way).map_err(Failure::new)?;
        let step = options.get("step").and_then(Value::as_u64).map(|step| step as usize);
        Ok(Box::new(ToyCase { case: case.clone(), fields, step }))
    }

    fn view(&self) -> Option<&'static dyn View> {
        Some(&ToyView)
    }
}

impl ParsedCase for ToyCase {
    fn case(&self) -> &Case {
        &self.case
    }

    fn memory(&self) -> u64 {
        0
    }

    fn prepare(&self, _rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        Ok(Box::new(Sum { step: self.step, numbers: self.fields.numbers, found: 0 }))
    }

    fn metrics(&self, measured: &Measured<'_>) -> Map<String, Value> {
        let rate = self.fields.numbers as f64 * f64::from(self.fields.ranks) / measured.times.median;
        let ranks = measured.trials.last().map(|trial| trial.samples.clone()).unwrap_or_default();
        let sums: Vec<f64> = ranks.iter().map(|samples| samples.iter().sum::<u64>() as f64).collect();
        let ratios: Vec<Vec<f64>> = sums.iter().map(|own| sums.iter().map(|other| own / other).collect()).collect();
        json!({"numbers_per_s": rate, "rank_ratios": ratios}).as_object().cloned().unwrap_or_default()
    }
}

impl Prepared for Sum {
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        let add = |sum: u64, number: u64| black_box(sum + number);
        self.found = match self.step {
            None => (1..=self.numbers).fold(0, add),
            Some(step) => {
                let number = |last: u64| (0..step as u64).map(|back| last.saturating_sub(back)).sum();
                (1..=self.numbers).rev().step_by(step).map(number).fold(0, add)
            }
        };
        Ok(())
    }

    fn refill(&mut self) {
        self.found = 0;
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        let expected = if calls == 0 { 0 } else { self.numbers * (self.numbers + 1) / 2 };
        Ok(WrongReport { count: u64::from(self.found != expected), compared: 1, first: Vec::new() })
    }

    fn work(&self) -> Work {
        Work { max_calls: u64::MAX, checks: 1, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        "a loop".to_owned()
    }
}

/// What a declaration cannot say: which way is faster over all cases.
struct ToyView;

impl View for ToyView {
    fn charts(&self, section: &Operation) -> Vec<NamedChart> {
        let height = |(index, point): (usize, &view::study::Measured)| [(index + 1) as f64, point.time.mid];
        let bars = section.points().enumerate().map(height).collect();
        let spec = ChartSpec {
            title: "toy: time of each case".to_owned(),
            x: Axis { title: "case".to_owned(), quantity: Quantity::Count, scale: Scale::Steps },
            y: Axis { title: "time".to_owned(), quantity: Quantity::Seconds, scale: Scale::FromZero },
            stacks: vec![Stack { label: "time".to_owned(), style: 0, bars }],
            ..ChartSpec::default()
        };
        vec![NamedChart { stem: section.stem.and("own"), spec }]
    }

    fn findings(&self, section: &Operation) -> Option<Vec<Finding>> {
        let best = section.points().filter_map(|point| point.case.metric("numbers_per_s")).fold(0.0, f64::max);
        Some(vec![Finding::new(format!("The toy sums up to {} numbers a second.", view::number::three_digits(best)))])
    }
}
