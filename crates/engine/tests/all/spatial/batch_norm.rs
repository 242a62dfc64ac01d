//! Batch norm against naive sums, in parts against whole, and its gradients against finite differences.

use engine::View;
use engine::op::Spatial;
use terms::Dtype;

use super::lab::{Lab, Random, TYPES, assert_within, dot, rounded, unit, wide};

const EPSILON: f64 = 1e-5;

/// Naive: y, mean, 1/sqrt(variance + epsilon).
fn naive(x: &[f64], gain: &[f64], bias: &[f64], residual: Option<&[f64]>, relu: bool) -> [Vec<f64>; 3] {
    let (channels, rows) = (gain.len(), (x.len() / gain.len()) as f64);
    let column = |channel: usize| x.iter().skip(channel).step_by(channels);
    let mean: Vec<f64> = (0..channels).map(|channel| column(channel).sum::<f64>() / rows).collect();
    let variance = |channel: usize| column(channel).map(|x| (x - mean[channel]).powi(2)).sum::<f64>() / rows;
    let deviation: Vec<f64> = (0..channels).map(|channel| 1.0 / (variance(channel) + EPSILON).sqrt()).collect();
    let y = x.iter().enumerate().map(|(index, x)| {
        let channel = index % channels;
        let y = (x - mean[channel]) * deviation[channel] * gain[channel] + bias[channel];
        let y = y + residual.map_or(0.0, |residual| residual[index]);
        if relu { y.max(0.0) } else { y }
    });
    [y.collect(), mean.clone(), deviation]
}

/// Inputs of a batch norm.
#[derive(Clone)]
pub(super) struct Inputs {
    x: Vec<f64>,
    gain: Vec<f64>,
    bias: Vec<f64>,
    residual: Option<Vec<f64>>,
    pub(super) dy: Vec<f64>,
}

impl Inputs {
    pub(super) fn random(rows: usize, channels: usize, residual: bool, dtype: Dtype, random: &mut Random) -> Self {
        let mut numbers = |len| random.numbers(dtype, len);
        let mut x = numbers(rows * channels);
        // Means that are not small against deviations.
        x.iter_mut().enumerate().for_each(|(index, x)| *x = rounded(dtype, *x + (index % channels % 3) as f64));
        let (gain, bias, dy) = (numbers(channels), numbers(channels), numbers(rows * channels));
        Self { x, gain, bias, residual: residual.then(|| numbers(rows * channels)), dy }
    }
}

/// What a forward and a backward pass give.
pub(super) struct Outputs {
    pub(super) y: Vec<f64>,
    pub(super) statistics: Vec<f64>,
    pub(super) dx: Vec<f64>,
    /// dy, masked: the residual's gradient.
    pub(super) masked: Vec<f64>,
    pub(super) d_gain: Vec<f64>,
    pub(super) d_bias: Vec<f64>,
}

/// Runs all operations with rows cut into two parts at `cut`, and adds the partial sums as ranks would.
pub(super) fn run(inputs: &Inputs, dtype: Dtype, cut: usize, relu: bool, in_place: bool, threads: usize) -> Outputs {
    let channels = inputs.gain.len();
    let rows = inputs.x.len() / channels;
    let mut lab = Lab::default();
    let [x, dy] = [&inputs.x, &inputs.dy].map(|values| lab.buffer(dtype, values));
    let [gain, bias] = [&inputs.gain, &inputs.bias].map(|values| lab.buffer(dtype, values));
    let residual = inputs.residual.as_ref().map(|values| lab.buffer(dtype, values));
    let y = match residual {
        Some(residual) if in_place => residual,
        _ => lab.output(dtype, x.len),
    };
    let dx = if in_place { dy } else { lab.output(dtype, x.len) };
    let statistics = lab.output(wide(dtype), 2 * channels);
    let partials = [0; 4].map(|_| lab.output(Dtype::F64, 2 * channels));
    let halves = |view: View| [view.part(0, cut * channels), view.part(cut * channels, (rows - cut) * channels)];
    let (xs, ys, dys, dxs) = (halves(x), halves(y), halves(dy), halves(dx));

    // Forward sums of both parts, added here, into one buffer for all that follows.
    let sum = |part: usize| Spatial::BatchNormSum { x: xs[part], partial: partials[part], channels };
    let done = lab.run(&[sum(0), sum(1)], threads);
    let total: Vec<f64> = done.get(partials[0]).iter().zip(done.get(partials[1])).map(|(a, b)| a + b).collect();
    let total = lab.buffer(Dtype::F64, &total);
    let forward = |part: usize| Spatial::BatchNormForward {
        x: xs[part],
        partial: total,
        count: rows,
        gain,
        bias,
        residual: residual.map(|residual| halves(residual)[part]),
        y: ys[part],
        statistics,
        channels,
        epsilon: EPSILON,
        relu,
    };
    let backward_sum = |part: usize| Spatial::BatchNormBackwardSum {
        x: xs[part],
        y: relu.then_some(ys[part]),
        dy: dys[part],
        statistics,
        partial: partials[2 + part],
        channels,
    };
    let mut operations = vec![forward(0), forward(1), backward_sum(0), backward_sum(1)];
    let done = lab.run(&operations, threads);
    let masked = done.get(dy);
    let sums = [done.get(partials[2]), done.get(partials[3])];
    let total: Vec<f64> = sums[0].iter().zip(&sums[1]).map(|(a, b)| a + b).collect();
    let total = lab.buffer(Dtype::F64, &total);
    let (d_gain, d_bias) = (lab.output(wide(dtype), channels), lab.output(wide(dtype), channels));
    let backward = |part: usize| Spatial::BatchNormBackward {
        x: xs[part],
        dy: dys[part],
        statistics,
        gain,
        partial: total,
        count: rows,
        dx: dxs[part],
        channels,
    };
    let parameters = |part: usize| Spatial::BatchNormParameters {
        partial: partials[2 + part],
        d_gain,
        d_bias,
        accumulate: part > 0,
    };
    operations.extend([backward(0), backward(1), parameters(0), parameters(1)]);
    let done = lab.run(&operations, threads);
    Outputs {
        y: done.get(y),
        statistics: done.get(statistics),
        dx: done.get(dx),
        masked,
        d_gain: done.get(d_gain),
        d_bias: done.get(d_bias),
    }
}

#[test]
pub(super) fn every_type_agrees_with_naive_loops_however_rows_are_cut() {
    let mut random = Random::new(8);
    for round in 0..64 {
        let dtype = TYPES[round % 4];
        let (rows, channels) = (random.one_of(&[4, 33, 100]), random.one_of(&[1, 7, 16, 50]));
        let (relu, in_place, residual) = (random.one_of(&[true, false]), random.one_of(&[true, false]), round % 8 < 5);
        let inputs = Inputs::random(rows, channels, residual, dtype, &mut random);
        let (cut, threads) = (random.one_of(&[0, 1, rows / 3, rows]), random.one_of(&[1, 2, 3]));
        let outputs = run(&inputs, dtype, cut, relu, in_place, threads);
        let [y, mean, deviation] = naive(&inputs.x, &inputs.gain, &inputs.bias, inputs.residual.as_deref(), relu);
        let what =
            format!("{rows} x {channels} cut at {cut} {dtype} relu {relu} in place {in_place} threads {threads}");

        // Numbers are below 4. Sums over blocks of 16 rows are off by at most 17 roundings of 16, and so is their mean;
        // variances are differences of two such; y divides by the deviation.
        let unit_wide = unit(wide(dtype));
        let statistics: Vec<f64> = mean.iter().chain(&deviation).copied().collect();
        let error = 17.0 * 16.0 * 3.0 * unit_wide;
        let bound = |index: usize| match index {
            index if index < channels => error,
            index => deviation[index - channels].powi(3) * error + 4.0 * unit_wide * deviation[index - channels],
        };
        assert_within(&format!("statistics of {what}"), &outputs.statistics, &statistics, bound);
        let largest = deviation.iter().fold(0.0, |a: f64, b| a.max(*b));
        let bound = |index: usize| {
            5.0 * error * largest.powi(3).max(1.0) + 1.01 * unit(dtype) * (y[index].abs() + error) + 2f64.powi(-25)
        };
        assert_within(&format!("y of {what}"), &outputs.y, &y, bound);
        // The mask goes by the y that the pass itself wrote.
        let masked: Vec<f64> =
            inputs.dy.iter().zip(&outputs.y).map(|(dy, y)| if !relu || *y > 0.0 { *dy } else { 0.0 }).collect();
        assert_eq!(outputs.masked, masked, "mask of {what}");
    }
}

#[test]
pub(super) fn gradients_are_those_of_finite_differences() {
    let mut random = Random::new(9);
    for round in 0..24 {
        let (rows, channels) = (random.one_of(&[3, 17, 40]), random.one_of(&[1, 5, 18]));
        let (relu, in_place, residual) = (round % 2 == 0, round % 4 < 2, round % 3 == 0);
        let inputs = Inputs::random(rows, channels, residual, Dtype::F64, &mut random);
        let outputs = run(&inputs, Dtype::F64, rows / 2, relu, in_place, 2);
        let loss = |inputs: &Inputs| {
            let [y, ..] = naive(&inputs.x, &inputs.gain, &inputs.bias, inputs.residual.as_deref(), relu);
            dot(&y, &inputs.dy)
        };
        type Pick = fn(&mut Inputs) -> &mut Vec<f64>;
        let inputs_of: [(&str, Pick, &[f64]); 4] = [
            ("x", |inputs| &mut inputs.x, &outputs.dx),
            ("gain", |inputs| &mut inputs.gain, &outputs.d_gain),
            ("bias", |inputs| &mut inputs.bias, &outputs.d_bias),
            ("residual", |inputs| inputs.residual.as_mut().unwrap(), &outputs.masked),
        ];
        for (name, pick, gradient) in inputs_of.into_iter().take(if residual { 4 } else { 3 }) {
            let along = random.numbers(Dtype::F64, gradient.len());
            let at = |by: f64| {
                let mut moved = inputs.clone();
                pick(&mut moved).iter_mut().zip(&along).for_each(|(value, along)| *value += by * along);
                loss(&moved)
            };
            let h = 1e-5;
            let (slope, expected) = ((at(h) - at(-h)) / (2.0 * h), dot(gradient, &along));
            assert!((slope - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{name} {round}: {slope}, {expected}");
        }
    }
}

/// Narrow gradients against those of f64 on the same numbers.
#[test]
pub(super) fn narrow_gradients_follow_wide_ones() {
    let mut random = Random::new(10);
    for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16] {
        let inputs = Inputs::random(200, 24, false, dtype, &mut random);
        let (narrow, full) = (run(&inputs, dtype, 70, false, true, 2), run(&inputs, Dtype::F64, 70, false, true, 2));
        // dx is a few roundings of terms that are no larger than deviation (dy + its means): all below 8 here; sums over
        // 200 rows of numbers below 8 are off by 17 roundings of the sum of magnitudes.
        let error = 8.0 * 17.0 * 3.0 * unit(Dtype::F32);
        let bound = |value: f64| error + 1.01 * unit(dtype) * value.abs() + 2f64.powi(-25);
        assert_within(&format!("dx {dtype}"), &narrow.dx, &full.dx, |index| bound(full.dx[index]));
        assert_within(&format!("d_gain {dtype}"), &narrow.d_gain, &full.d_gain, |_| 200.0 * error);
        assert_within(&format!("d_bias {dtype}"), &narrow.d_bias, &full.d_bias, |_| 200.0 * error);
    }
}
