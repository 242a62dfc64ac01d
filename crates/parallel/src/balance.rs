//! Shares by measured speed: blocks among stages, micro-batches among replicas.

/// Cuts blocks that take these times into `places` consecutive runs, so that the longest run takes as little as possible.
/// Gives the number of blocks in each; every run holds at least one.
///
/// By dynamic programming over (blocks so far, runs so far), as the linear partition problem (Skiena, The Algorithm Design
/// Manual, 8.5).
///
/// # Panics
/// When there are fewer blocks than places.
pub fn stages(times: &[f64], places: usize) -> Vec<usize> {
    let count = times.len();
    assert!((1..=count).contains(&places), "{count} blocks in {places} places");
    let mut sums = vec![0.0; count + 1];
    for (index, time) in times.iter().enumerate() {
        sums[index + 1] = sums[index] + time;
    }
    // longest[runs][blocks] and where its last run begins.
    let mut longest = vec![vec![f64::INFINITY; count + 1]; places + 1];
    let mut begins = vec![vec![0; count + 1]; places + 1];
    longest[0][0] = 0.0;
    for runs in 1..=places {
        for blocks in runs..=count {
            for begin in runs - 1..blocks {
                let time = longest[runs - 1][begin].max(sums[blocks] - sums[begin]);
                if time < longest[runs][blocks] {
                    longest[runs][blocks] = time;
                    begins[runs][blocks] = begin;
                }
            }
        }
    }
    let mut sizes = vec![0; places];
    let mut blocks = count;
    for runs in (1..=places).rev() {
        let begin = begins[runs][blocks];
        sizes[runs - 1] = blocks - begin;
        blocks = begin;
    }
    sizes
}

/// Shares `total` micro-batches out among replicas that take these seconds for one, at least one each, so that the last is
/// done as early as possible: each micro-batch goes to the replica that would be done with it first.
///
/// # Panics
/// When there are fewer micro-batches than replicas.
pub fn micro_batches(total: usize, seconds: &[f64]) -> Vec<usize> {
    assert!(total >= seconds.len(), "{total} micro-batches for {} replicas", seconds.len());
    let mut shares = vec![1; seconds.len()];
    for _ in seconds.len()..total {
        let done = |replica: &usize| (shares[*replica] + 1) as f64 * seconds[*replica];
        let next = (0..seconds.len()).min_by(|a, b| done(a).total_cmp(&done(b))).unwrap_or(0);
        shares[next] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_stage_is_as_short_as_can_be() {
        assert_eq!(stages(&[1.0; 8], 4), [2, 2, 2, 2]);
        assert_eq!(stages(&[5.0, 1.0, 1.0, 1.0, 1.0, 5.0], 3), [1, 4, 1]);
        assert_eq!(stages(&[1.0, 1.0, 1.0, 9.0], 2), [3, 1]);
        assert_eq!(stages(&[0.0, 0.0, 0.0], 3), [1, 1, 1]);
        // Against every way of cutting seven blocks in three.
        let times = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0];
        let longest = |sizes: &[usize]| {
            let mut at = 0;
            sizes
                .iter()
                .map(|size| {
                    at += size;
                    times[at - size..at].iter().sum::<f64>()
                })
                .fold(0.0, f64::max)
        };
        let mut best = f64::INFINITY;
        for a in 1..6 {
            for b in 1..7 - a {
                best = best.min(longest(&[a, b, 7 - a - b]));
            }
        }
        assert_eq!(longest(&stages(&times, 3)), best);
    }

    #[test]
    fn a_slow_replica_gets_fewer_micro_batches() {
        assert_eq!(micro_batches(8, &[1.0, 1.0]), [4, 4]);
        assert_eq!(micro_batches(8, &[1.0, 3.0]), [6, 2]);
        assert_eq!(micro_batches(3, &[1.0, 100.0, 1.0]), [1, 1, 1]);
    }
}
