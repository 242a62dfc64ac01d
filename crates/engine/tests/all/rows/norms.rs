//! Norms on a device, whose kernels follow from the size of a row and from where it lies: against f64, in each type.

use std::rc::Rc;

use engine::View;
use engine::cuda::NORM;
use engine::op::{Norm, Rows};
use terms::Dtype;

use super::on_device::{DeviceLab, ORDERS, with};
use super::{Lab, noise, rounded};

const TYPES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16];
const EPSILON: f64 = 1e-2;

/// Rows, columns, and how many numbers lie before each view. In turn: a warp a row, of one load and of all; a block a row, of which few or
/// all threads have something; rows of no whole loads, longer ones, and crooked ones.
const SHAPES: [(usize, usize, usize); 13] = [
    (1, 8, 0),
    (3, 64, 8),
    (17, 768, 0),
    (3, 1024, 16),
    (3, 1032, 0),
    (1, 4096, 8),
    (2, 8192, 0),
    (3, 3, 0),
    (3, 12, 0),
    (1, 1028, 0),
    (1, 8200, 0),
    (3, 768, 1),
    (2, 1032, 4),
];
/// More rows than all blocks take at once.
const MANY_ROWS: [(usize, usize, usize); 2] = [(16_400, 8, 0), (2050, 1032, 0)];

/// One norm, with the numbers that it has.
struct Case {
    lab: Lab,
    norm: Norm,
    x: Vec<f64>,
    gain: Vec<f64>,
    bias: Vec<f64>,
    before: usize,
    what: String,
}

impl Case {
    fn new(dtype: Dtype, (rows, columns, before): (usize, usize, usize), centred: bool) -> Self {
        let mut lab = Lab::new(dtype);
        let what = format!("{dtype}, {rows} rows of {columns}, {before} before, centred {centred}");
        let count = rows * columns;
        // Off zero, so that a mean that is not taken away shows.
        let x = put(&mut lab, dtype, before, noise(1, count).into_iter().map(|x| 2.0 * x + 0.5).collect());
        let gain = put(&mut lab, dtype, before, noise(2, columns).into_iter().map(|x| 1.5 * x).collect());
        let bias = centred.then(|| put(&mut lab, dtype, before, noise(3, columns)));
        let statistics = lab.put(lab.state(), vec![f64::NAN; 2 * rows]);
        let numbers = |view| lab.get(view);
        let (of_x, of_gain) = (numbers(x), numbers(gain));
        let of_bias = bias.map_or_else(|| vec![0.0; columns], numbers);
        let norm = Norm { x, gain, bias, statistics, rows, columns, epsilon: EPSILON };
        Self { lab, norm, x: of_x, gain: of_gain, bias: of_bias, before, what }
    }

    /// A view of its own, with these numbers.
    fn put(&mut self, values: Vec<f64>) -> View {
        let dtype = self.lab.element;
        put(&mut self.lab, dtype, self.before, values)
    }

    /// Mean and one over the deviation of each row of x.
    fn statistics(&self) -> Vec<f64> {
        let of_row = |row: &[f64]| {
            let count = row.len() as f64;
            let mean = if self.norm.bias.is_some() { row.iter().sum::<f64>() / count } else { 0.0 };
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            [mean, 1.0 / (variance + EPSILON).sqrt()]
        };
        self.x.chunks(self.norm.columns).flat_map(of_row).collect()
    }

    fn normalised(&self, statistics: &[f64]) -> Vec<f64> {
        let of_row = |(row, of): (&[f64], &[f64])| -> Vec<f64> { row.iter().map(|x| (x - of[0]) * of[1]).collect() };
        self.x.chunks(self.norm.columns).zip(statistics.chunks(2)).flat_map(of_row).collect()
    }

    fn y(&self) -> Vec<f64> {
        let (statistics, columns) = (self.statistics(), self.norm.columns);
        let of = |(at, hat): (usize, f64)| hat * self.gain[at % columns] + self.bias[at % columns];
        self.normalised(&statistics).into_iter().enumerate().map(of).collect()
    }

    /// What lies before views is as it was.
    fn nothing_else_changed(&self, views: &[View]) {
        for view in views {
            let before = self.lab.get(View { offset: 0, len: self.before, ..*view });
            assert!(before.iter().all(|number| *number == 9.0), "{}", self.what);
        }
    }

    /// As in [`super::properties`]: some tens of roundings of the arithmetic, and one of the type.
    fn assert_near(&self, which: &str, view: View, wanted: &[f64]) {
        let is_state = self.lab.program.dtype(view) == self.lab.state();
        let state = if self.lab.element == Dtype::F64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
        let unit = match self.lab.element {
            Dtype::Bf16 if !is_state => 2f64.powi(-8),
            Dtype::F16 if !is_state => 2f64.powi(-11),
            _ => state,
        };
        let largest = wanted.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        let ours = self.lab.get(view);
        assert_eq!(ours.len(), wanted.len());
        for (at, (a, b)) in ours.iter().zip(wanted).enumerate() {
            let bound = unit * b.abs() * 1.001 + 64.0 * state * largest + 2f64.powi(-25);
            assert!((a - b).abs() <= bound, "{}: {which} [{at}]: {a:e}, {b:e}, bound {bound:e}", self.what);
        }
    }
}

fn put(lab: &mut Lab, dtype: Dtype, before: usize, values: Vec<f64>) -> View {
    let len = values.len();
    lab.put(dtype, [vec![9.0; before], values].concat()).part(before, len)
}

/// Each shape in each type, centred and not.
fn each_case(test: &str, run: impl Fn(&Rc<DeviceLab>, Case)) {
    let Some(device) = DeviceLab::open(test) else { return };
    for shape in SHAPES {
        for (dtype, centred) in TYPES.into_iter().flat_map(|dtype| [(dtype, true), (dtype, false)]) {
            run(&device, Case::new(dtype, shape, centred));
        }
    }
}

fn forward(device: &Rc<DeviceLab>, mut case: Case) {
    let y = case.put(vec![f64::NAN; case.x.len()]);
    let norm = case.norm.clone();
    with(device, || case.lab.run(Rows::NormForward { norm, y }));
    case.assert_near("statistics", case.norm.statistics, &case.statistics());
    case.assert_near("y", y, &case.y());
    case.nothing_else_changed(&[y]);
}

#[test]
fn norms_are_the_formula() {
    each_case("norms_are_the_formula", forward);
}

#[test]
fn norms_of_many_rows_are_the_formula() {
    let Some(device) = DeviceLab::open("norms_of_many_rows_are_the_formula") else { return };
    for shape in MANY_ROWS {
        forward(&device, Case::new(Dtype::Bf16, shape, true));
    }
}

#[test]
fn norms_of_sums_are_the_formula() {
    each_case("norms_of_sums_are_the_formula", |device, mut case| {
        let count = case.x.len();
        let residual = case.put(noise(4, count));
        let [total, y] = [0, 1].map(|_| case.put(vec![f64::NAN; count]));
        let mut first = None;
        for order in 0..ORDERS {
            let loaded = device.load(&case.lab, 0);
            device.train.residual_norm(&case.norm, [residual, total, y], &loaded.context()).unwrap();
            let bytes = device.bytes_in(&loaded, order);
            assert!(*first.get_or_insert_with(|| bytes.clone()) == bytes, "{}: order {order}", case.what);
        }
        DeviceLab::keep(&first.unwrap(), &mut case.lab);
        let dtype = case.lab.element;
        let sum = |(x, residual): (&f64, f64)| match dtype {
            Dtype::F64 => x + residual,
            _ => rounded(dtype, f64::from(*x as f32 + residual as f32)),
        };
        let sums: Vec<f64> = case.x.iter().zip(case.lab.get(residual)).map(sum).collect();
        assert!(case.lab.get(total) == sums, "{}", case.what);
        case.x = sums;
        case.assert_near("statistics", case.norm.statistics, &case.statistics());
        case.assert_near("y", y, &case.y());
        case.nothing_else_changed(&[total, y]);
    });
}

#[test]
fn without_the_barrier_some_order_gives_other_bytes() {
    let Some(device) = DeviceLab::open("without_the_barrier_some_order_gives_other_bytes") else { return };
    let text = include_str!("../../../kernels/norm.cu");
    let barriers: Vec<i32> =
        (1..).zip(text.lines()).filter(|(_, line)| line.contains("__syncthreads()")).map(|(line, _)| line).collect();
    assert_eq!(barriers.len(), 1, "new barriers need operations here that run them");
    for centred in [true, false] {
        let mut case = Case::new(Dtype::F32, (3, 1032, 0), centred);
        let y = case.put(vec![f64::NAN; case.x.len()]);
        let op = Rows::NormForward { norm: case.norm.clone(), y }.into();
        let right = device.bytes_after(&op, &case.lab, 0, 0);
        for barrier in &barriers {
            let is_found = (0..ORDERS).any(|order| device.bytes_after(&op, &case.lab, order, *barrier) != right);
            assert!(is_found, "{op:?} gives the same bytes without the barrier in line {barrier}");
        }
    }
}

#[test]
fn the_text_runs_on_old_drivers_and_loads_sixteen_bytes_at_once() {
    assert!(NORM.contains(".version 7.8\n") && NORM.contains(".target sm_70\n"));
    assert!(!NORM.contains("\tatom.") && !NORM.contains("\tred."), "sums have a fixed order");
    let loads: Vec<&str> = NORM.lines().filter(|line| line.contains("\tld.global")).collect();
    let is_known = |line: &&str| line.contains("ld.global.v4.u32") || line.contains("ld.global.v4.f32");
    assert!(!loads.is_empty() && loads.iter().all(is_known), "{:?}", loads.iter().find(|line| !is_known(line)));
}
