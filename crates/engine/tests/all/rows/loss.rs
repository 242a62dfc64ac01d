//! Cross-entropy: by its definition, in parts of the classes, and what it does with rows that have no target.

use engine::View;
use engine::op::Rows;
use terms::Dtype;

use super::{Lab, noise};

const ROWS: usize = 7;

fn targets(classes: usize) -> Vec<f64> {
    (0..ROWS).map(|row| if row == 2 { -1.0 } else { (row * 31 % classes) as f64 }).collect()
}

/// Loss and gradient of the whole.
fn whole(x: &[f64], classes: usize, loss_scale: f64) -> (f64, Vec<f64>) {
    let mut lab = Lab::new(Dtype::F64);
    let logits = lab.put(Dtype::F64, x.to_vec());
    let targets = lab.put(Dtype::I32, targets(classes));
    let loss = lab.put(Dtype::F64, vec![2.0]);
    let control = lab.put(Dtype::F64, vec![loss_scale, 0.0, 0.0, 0.0]);
    lab.run(Rows::CrossEntropy { logits, targets, loss, control, classes, scale: 0.25 });
    (lab.get(loss)[0], lab.get(logits))
}

#[test]
pub(crate) fn is_what_the_definition_says() {
    let classes = 5;
    let x: Vec<f64> = noise(1, ROWS * classes).iter().map(|x| x * 3.0).collect();
    let (loss, gradient) = whole(&x, classes, 8.0);
    let mut wanted = 2.0;
    for (row, target) in targets(classes).into_iter().enumerate() {
        let logits = &x[row * classes..(row + 1) * classes];
        let sum: f64 = logits.iter().map(|x| x.exp()).sum();
        for (class, logit) in logits.iter().enumerate() {
            let p = logit.exp() / sum;
            let hit = class as f64 == target;
            let slope = if target < 0.0 { 0.0 } else { 0.25 * 8.0 * (p - f64::from(u8::from(hit))) };
            assert!((gradient[row * classes + class] - slope).abs() < 1e-14, "row {row}, class {class}");
            // The loss is not multiplied by the loss scale.
            wanted -= if hit { 0.25 * p.ln() } else { 0.0 };
        }
    }
    assert!((loss - wanted).abs() < 1e-14, "{loss} {wanted}");
}

/// One part of the classes: its logits, and what it shares.
struct Part {
    lab: Lab,
    logits: View,
    targets: View,
    largest: View,
    sums: View,
    loss: View,
    control: View,
    first: usize,
    classes: usize,
}

fn cut(x: &[f64], classes: usize, cuts: &[usize]) -> Vec<Part> {
    let bounds: Vec<usize> = [0].iter().chain(cuts).copied().chain([classes]).collect();
    let part = |bounds: &[usize]| {
        let (first, count) = (bounds[0], bounds[1] - bounds[0]);
        let mut lab = Lab::new(Dtype::F64);
        let rows = x.chunks_exact(classes);
        let logits = lab.put(Dtype::F64, rows.flat_map(|row| row[first..first + count].to_vec()).collect());
        let targets = lab.put(Dtype::I32, targets(classes));
        let largest = lab.put(Dtype::F64, vec![f64::NAN; ROWS]);
        let sums = lab.put(Dtype::F64, vec![f64::NAN; 2 * ROWS]);
        let loss = lab.put(Dtype::F64, vec![2.0]);
        let control = lab.put(Dtype::F64, vec![4.0, 0.0, 0.0, 0.0]);
        Part { lab, logits, targets, largest, sums, loss, control, first, classes: count }
    };
    bounds.windows(2).map(part).collect()
}

/// Combines one view of all parts, as an exchange would.
fn exchange(parts: &mut [Part], view: impl Fn(&Part) -> View, combine: impl Fn(f64, f64) -> f64) {
    let values: Vec<Vec<f64>> = parts.iter().map(|part| part.lab.get(view(part))).collect();
    let all: Vec<f64> =
        (0..values[0].len()).map(|at| values.iter().map(|values| values[at]).reduce(&combine).unwrap()).collect();
    for part in parts {
        let view = view(part);
        part.lab.set(view, all.clone());
    }
}

#[test]
pub(crate) fn parts_give_what_the_whole_gives() {
    for (classes, cuts) in [(100, vec![]), (100, vec![33]), (100, vec![1, 60]), (6000, vec![17, 4100])] {
        let x: Vec<f64> = noise(2, ROWS * classes).iter().map(|x| x * 6.0).collect();
        let (loss, gradient) = whole(&x, classes, 4.0);
        let mut parts = cut(&x, classes, &cuts);
        for part in &mut parts {
            let Part { logits, largest, classes, .. } = *part;
            part.lab.run(Rows::CrossEntropyLargest { logits, largest, classes });
        }
        exchange(&mut parts, |part| part.largest, f64::max);
        for part in &mut parts {
            let Part { logits, targets, largest, sums, classes, first, .. } = *part;
            part.lab.run(Rows::CrossEntropySum { logits, targets, largest, sums, classes, first });
        }
        exchange(&mut parts, |part| part.sums, |a, b| a + b);
        for (index, part) in parts.iter_mut().enumerate() {
            let Part { logits, targets, largest, sums, loss, control, classes, first, .. } = *part;
            part.lab.run(Rows::CrossEntropyFinish {
                logits,
                targets,
                largest,
                sums,
                loss,
                control,
                classes,
                first,
                scale: 0.25,
                counts: index == 0,
            });
        }
        assert!((parts[0].lab.get(parts[0].loss)[0] / loss - 1.0).abs() < 1e-14);
        for part in &parts {
            assert!(part.first == 0 || part.lab.get(part.loss)[0] == 2.0, "one part alone adds to the loss");
            for (at, ours) in part.lab.get(part.logits).into_iter().enumerate() {
                let (row, class) = (at / part.classes, part.first + at % part.classes);
                assert!((ours - gradient[row * classes + class]).abs() < 1e-14, "row {row}, class {class}");
            }
        }
    }
}

/// Logits far apart, masked by minus infinity, or beyond exp's range give neither NaN nor infinity; NaN is not hidden.
#[test]
pub(crate) fn extreme_logits() {
    for dtype in [Dtype::F32, Dtype::F64, Dtype::Bf16] {
        let classes = 5000;
        let run = |change: &dyn Fn(&mut [f64])| {
            let mut lab = Lab::new(dtype);
            let mut x = vec![0.0; classes];
            change(&mut x);
            let logits = lab.put(dtype, x);
            let targets = lab.put(Dtype::I32, vec![4999.0]);
            let loss = lab.put(Dtype::F64, vec![0.0]);
            let control = lab.put(Dtype::F64, vec![1.0, 0.0, 0.0, 0.0]);
            lab.run(Rows::CrossEntropy { logits, targets, loss, control, classes, scale: 1.0 });
            (lab.get(loss)[0], lab.get(logits))
        };
        let (loss, gradient) = run(&|x| x[..4096].fill(f64::NEG_INFINITY));
        assert!((loss - 904f64.ln()).abs() < 1e-4 && gradient[0] == 0.0 && gradient[4999] < 0.0, "{loss}");
        let (loss, gradient) = run(&|x| x[7] = 1000.0);
        assert!((loss - 1000.0).abs() < 1e-4 && gradient[7] == 1.0 && gradient[4999] == -1.0, "{loss}");
        assert!(run(&|x| x[3] = f64::NAN).0.is_nan());
    }
}

/// Loss and gradients of a whole row of classes and of two parts, whose rows have this many more elements: NaN, which must reach nothing.
fn padded(dtype: Dtype, classes: usize, padding: usize) -> Vec<(f64, Vec<f64>)> {
    let x = noise(5, ROWS * classes);
    let of_part = |range: std::ops::Range<usize>| {
        let mut lab = Lab::new(dtype);
        let (count, state) = (range.len(), lab.state());
        let row = |row: &[f64]| [row[range.clone()].to_vec(), vec![f64::NAN; padding]].concat();
        let logits = lab.put(dtype, x.chunks_exact(classes).flat_map(row).collect());
        let targets = lab.put(Dtype::I32, targets(classes));
        let (largest, sums) = (lab.put(state, vec![3.0; ROWS]), lab.put(state, vec![1.0; 2 * ROWS]));
        let loss = lab.put(Dtype::F64, vec![2.0]);
        let control = lab.put(Dtype::F64, vec![4.0, 0.0, 0.0, 0.0]);
        let (scale, first) = (0.25, range.start);
        if count == classes {
            lab.run(Rows::CrossEntropy { logits, targets, loss, control, classes, scale });
        } else {
            lab.run(Rows::CrossEntropyLargest { logits, largest, classes: count });
            lab.run(Rows::CrossEntropySum { logits, targets, largest, sums, classes: count, first });
            let op = Rows::CrossEntropyFinish {
                logits,
                targets,
                largest,
                sums,
                loss,
                control,
                classes: count,
                first,
                scale,
                counts: true,
            };
            lab.run(op);
        }
        let all = lab.get(logits);
        let rows = || all.chunks_exact(count + padding);
        assert!(rows().all(|row| row[count..].iter().all(|x| *x == 0.0)), "{dtype}: what is behind {count} classes");
        let gradients = rows().flat_map(|row| row[..count].to_vec());
        let shared = [largest, sums].into_iter().flat_map(|view| lab.get(view));
        (lab.get(loss)[0], gradients.chain(shared).collect())
    };
    [0..classes, 0..classes / 2, classes / 2..classes].map(of_part).to_vec()
}

/// Rows that are longer than their classes give what rows give that are not. Which thread of a device adds which number depends on where a
/// row begins.
#[test]
pub(crate) fn what_lies_behind_the_classes_is_read_by_nobody() {
    for (dtype, close) in [(Dtype::F64, 1e-13), (Dtype::F32, 1e-5), (Dtype::Bf16, 1e-2)] {
        for (classes, padding) in [(5, 3), (61, 3), (700, 68)] {
            let (wanted, found) = (padded(dtype, classes, 0), padded(dtype, classes, padding));
            for ((loss, numbers), (own_loss, own)) in wanted.into_iter().zip(found) {
                assert!((own_loss / loss - 1.0).abs() < close, "{dtype}, {classes} classes: {own_loss} and {loss}");
                assert_eq!(own.len(), numbers.len());
                for (own, number) in own.into_iter().zip(numbers) {
                    assert!((own - number).abs() <= close * number.abs(), "{dtype}, {classes}: {own} and {number}");
                }
            }
        }
    }
}
