//! What kernels fetch into the second cache while they multiply.

use std::collections::BTreeSet;

use engine::internals::Matrix;
use engine::internals::ahead::{Ahead, GROUP, LINE, Stream};

/// Lines that all calls together ask for.
fn fetched(ahead: Ahead, units: usize, calls: usize) -> BTreeSet<usize> {
    let (mut lines, mut ahead) = (BTreeSet::new(), Some(ahead));
    for _ in 0..calls {
        let streams: [Stream; 2] = Ahead::streams(&mut ahead, Stream::none(std::ptr::null()));
        for stream in streams.iter().filter(|stream| stream.step > 0) {
            lines.extend((0..units.div_ceil(GROUP)).map(|group| (stream.at as usize + group * stream.step) / LINE));
        }
    }
    lines
}

/// Every line of a part is asked for, however the matrix is stored, as long as a call takes no more than two streams. (Runs
/// that begin inside a line end in one more, which no stream need reach.)
#[test]
fn no_line_is_left_out() {
    let at: usize = 1 << 20;
    for (rows, columns, row, column) in [
        (256usize, 768usize, 3072usize, 1usize),
        (256, 512, 1, 768),
        (384, 14, 768, 1),
        (384, 48, 768, 1),
        (14, 384, 1, 50),
    ] {
        let matrix = Matrix { at: at as *mut f32, row, column };
        let (runs, stride, length) = if column == 1 { (rows, row, columns) } else { (columns, column, rows) };
        let of_run = length.div_ceil(LINE / 4);
        let lines = |run: usize| (0..of_run).map(move |line| (at + run * stride * 4) / LINE + line);
        let wanted: BTreeSet<usize> = (0..runs).flat_map(lines).collect();
        let streams = runs * of_run.div_ceil(256 / GROUP);
        for calls in [streams.div_ceil(2), streams, 3 * streams + 1] {
            let fetched = fetched(Ahead::new(matrix, rows, columns, 256, calls), 256, calls);
            let missing = wanted.difference(&fetched).count();
            assert_eq!(missing, 0, "{rows} x {columns}, {calls} calls: of {} lines", wanted.len());
        }
    }
}
