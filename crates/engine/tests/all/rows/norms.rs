//! Norms on a device, whose kernels follow from the size of a row and from where it lies: against f64, in each type.

use std::rc::Rc;

use engine::View;
use engine::cuda::NORM;
use engine::op::{Norm, Op, Rows};
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

    /// Gives the statistics of x, and returns them as the type of state has them.
    fn set_statistics(&mut self) -> Vec<f64> {
        self.lab.set(self.norm.statistics, self.statistics());
        self.lab.get(self.norm.statistics)
    }

    /// Gradients of x, of the gain and of the bias.
    fn gradients(&self, statistics: &[f64], dy: &[f64]) -> [Vec<f64>; 3] {
        let columns = self.norm.columns;
        let hats = self.normalised(statistics);
        let (mut d_x, mut d_gain, mut d_bias) = (Vec::new(), vec![0.0; columns], vec![0.0; columns]);
        for ((hats, dy), of) in hats.chunks(columns).zip(dy.chunks(columns)).zip(statistics.chunks(2)) {
            let weighted: Vec<f64> = dy.iter().zip(&self.gain).map(|(d, gain)| d * gain).collect();
            let mean_of = |terms: &mut dyn Iterator<Item = f64>| terms.sum::<f64>() / columns as f64;
            let one = if self.norm.bias.is_some() { mean_of(&mut weighted.iter().copied()) } else { 0.0 };
            let along = mean_of(&mut weighted.iter().zip(hats).map(|(weighted, hat)| weighted * hat));
            for (column, hat) in hats.iter().enumerate() {
                d_x.push(of[1] * (weighted[column] - one - hat * along));
                d_gain[column] += dy[column] * hat;
                d_bias[column] += dy[column];
            }
        }
        [d_x, d_gain, d_bias]
    }

    /// What lies before views is as it was.
    fn nothing_else_changed(&self, views: &[View]) {
        for view in views {
            let before = self.lab.get(View { offset: 0, len: self.before, ..*view });
            assert!(before.iter().all(|number| *number == 9.0), "{}", self.what);
        }
    }

    /// Asserts what a view holds to some tens of roundings of the arithmetic, and one of the type, as in [`super::properties`].
    fn assert_near(&self, which: &str, view: View, wanted: &[f64]) {
        let is_state = self.lab.program.dtype(view) == self.lab.state();
        let state = if self.lab.element == Dtype::F64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
        let unit = match self.lab.element {
            Dtype::Bf16 if !is_state => 2f64.powi(-8),
            Dtype::F16 if !is_state => 2f64.powi(-11),
            _ => state,
        };
        let largest = wanted.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        let smallest = if self.lab.element == Dtype::F64 { 0.0 } else { 2f64.powi(-25) };
        let ours = self.lab.get(view);
        assert_eq!(ours.len(), wanted.len());
        for (at, (a, b)) in ours.iter().zip(wanted).enumerate() {
            let bound = unit * b.abs() * 1.001 + 64.0 * state * largest + smallest;
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

/// How a backward pass leaves its gradients.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    Alone,
    InPlaceOfDy,
    AddedUp,
}

/// The operation, and the views of its gradients.
fn backward_of(case: &mut Case, dy: Vec<f64>, leaves: Leaves) -> (Op, View, [Option<View>; 2]) {
    let (count, columns, state) = (case.x.len(), case.norm.columns, case.lab.state());
    let accumulate = leaves == Leaves::AddedUp;
    let dy = case.put(dy);
    let dx = if leaves == Leaves::InPlaceOfDy { dy } else { case.put(noise(6, count)) };
    let d_gain = case.lab.put(state, noise(7, columns));
    // Also a bias that needs no gradient.
    let has_bias = case.norm.bias.is_some() && !accumulate;
    let d_bias = has_bias.then(|| case.lab.put(state, noise(8, columns)));
    let norm = case.norm.clone();
    let op = Rows::NormBackward { norm, dy, dx, accumulate, d_gain, d_bias, accumulate_parameters: accumulate };
    (op.into(), dx, [Some(d_gain), d_bias])
}

fn backward(device: &Rc<DeviceLab>, mut case: Case, leaves: Leaves) {
    let statistics = case.set_statistics();
    let dy = noise(5, case.x.len()).into_iter().map(|x| rounded(case.lab.element, x)).collect::<Vec<_>>();
    let (op, dx, [d_gain, d_bias]) = backward_of(&mut case, dy.clone(), leaves);
    let [of_x, of_gain, of_bias] = case.gradients(&statistics, &dy);
    let all = [("dx", Some(dx), of_x), ("d_gain", d_gain, of_gain), ("d_bias", d_bias, of_bias)];
    let wanted: Vec<_> = all
        .into_iter()
        .filter_map(|(which, view, gradient)| {
            let before = case.lab.get(view?);
            let of = |(at, gradient): (usize, f64)| gradient + if leaves == Leaves::AddedUp { before[at] } else { 0.0 };
            Some((which, view?, gradient.into_iter().enumerate().map(of).collect::<Vec<_>>()))
        })
        .collect();
    with(device, || case.lab.run(op));
    for (which, view, wanted) in wanted {
        case.assert_near(which, view, &wanted);
    }
    case.nothing_else_changed(&[dx]);
}

#[test]
fn gradients_are_the_formula() {
    let all = [Leaves::Alone, Leaves::InPlaceOfDy, Leaves::AddedUp];
    for leaves in all {
        each_case("gradients_are_the_formula", |device, case| backward(device, case, leaves));
    }
}

/// More rows than the chunks of a backward pass have at least.
#[test]
fn gradients_of_many_rows_are_the_formula() {
    let Some(device) = DeviceLab::open("gradients_of_many_rows_are_the_formula") else { return };
    for (shape, dtype) in [((3000, 8, 0), Dtype::Bf16), ((900, 1032, 0), Dtype::F16), ((3000, 8, 1), Dtype::F32)] {
        backward(&device, Case::new(dtype, shape, true), Leaves::InPlaceOfDy);
    }
}

/// Kernels that load 16 bytes at once fault where a view does not begin at a multiple of them.
#[test]
fn one_crooked_view_is_enough() {
    let Some(device) = DeviceLab::open("one_crooked_view_is_enough") else { return };
    for crooked in 0..8 {
        let mut case = Case::new(Dtype::F32, (3, 64, 0), true);
        let statistics = case.set_statistics();
        let (x, gain, bias) = (case.x.clone(), case.gain.clone(), case.bias.clone());
        let zeros = vec![0.0; x.len()];
        let dy = case.lab.get(case.norm.gain).repeat(3);
        let all = [x, gain, bias, zeros.clone(), zeros.clone(), zeros.clone(), dy.clone(), zeros];
        let views: Vec<View> = (0..)
            .zip(all)
            .map(|(at, values)| put(&mut case.lab, Dtype::F32, usize::from(at == crooked), values))
            .collect();
        let [x, gain, bias, residual, total, y, dy_at, dx] = views[..] else { unreachable!() };
        (case.norm.x, case.norm.gain, case.norm.bias) = (x, gain, Some(bias));
        let loaded = device.load(&case.lab, 0);
        device.train.residual_norm(&case.norm, [residual, total, y], &loaded.context()).unwrap();
        DeviceLab::keep(&device.bytes_in(&loaded, 0), &mut case.lab);
        case.assert_near("y", y, &case.y());
        let d_gain = case.lab.put(Dtype::F32, vec![0.0; 64]);
        let (norm, accumulate, accumulate_parameters) = (case.norm.clone(), false, false);
        let op = Rows::NormBackward { norm, dy: dy_at, dx, accumulate, d_gain, d_bias: None, accumulate_parameters };
        with(&device, || case.lab.run(op));
        case.assert_near("dx", dx, &case.gradients(&statistics, &dy)[0]);
    }
}

/// Operations that have the barrier of a block that shares a row, and the one of warps that join their sums.
fn with_barriers(centred: bool) -> [(Lab, Op, usize); 3] {
    let mut forward = Case::new(Dtype::F32, (3, 1032, 0), centred);
    let y = forward.put(vec![f64::NAN; forward.x.len()]);
    let op = Rows::NormForward { norm: forward.norm.clone(), y }.into();
    let backward = |shape: (usize, usize, usize)| {
        let mut case = Case::new(Dtype::F32, shape, centred);
        case.set_statistics();
        let (op, ..) = backward_of(&mut case, noise(5, shape.0 * shape.1), Leaves::Alone);
        (case.lab, op)
    };
    let ((by_block, op_of_block), (by_warp, op_of_warp)) = (backward((3, 1032, 0)), backward((17, 64, 0)));
    [(forward.lab, op, 0), (by_block, op_of_block, 0), (by_warp, op_of_warp, 1)]
}

#[test]
fn without_any_barrier_some_order_gives_other_bytes() {
    let Some(device) = DeviceLab::open("without_any_barrier_some_order_gives_other_bytes") else { return };
    let text = include_str!("../../../kernels/norm.cu");
    let barriers: Vec<i32> =
        (1..).zip(text.lines()).filter(|(_, line)| line.contains("__syncthreads()")).map(|(line, _)| line).collect();
    assert_eq!(barriers.len(), 2, "new barriers need operations here that run them");
    for (lab, op, which) in [true, false].into_iter().flat_map(with_barriers) {
        let right = device.bytes_after(&op, &lab, 0, 0);
        let is_found = (0..ORDERS).any(|order| device.bytes_after(&op, &lab, order, barriers[which]) != right);
        assert!(is_found, "{op:?} gives the same bytes without the barrier in line {}", barriers[which]);
    }
}

#[test]
fn the_text_runs_on_old_drivers_and_loads_sixteen_bytes_at_once() {
    assert!(NORM.contains(".version 7.8\n") && NORM.contains(".target sm_70\n"));
    assert!(!NORM.contains("\tatom.") && !NORM.contains("\tred."), "sums have a fixed order");
    let loads: Vec<&str> = NORM.lines().filter(|line| line.contains("\tld.global")).collect();
    let is_whole = |line: &&&str| line.contains("ld.global.v4.u32") || line.contains("ld.global.v4.f32");
    let others: Vec<_> = loads.iter().filter(|line| !is_whole(line)).collect();
    // The mean and the scale of a row in each backward pass.
    assert!(others.len() == 2 * 6 && others.iter().all(|line| line.contains("ld.global.f32")), "{others:?}");
    assert!(loads.len() > 100, "{} loads", loads.len());
}
