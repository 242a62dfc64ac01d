//! Times of single processes and iterations, as few tools tell them: samples of the record, and the rank that is slow.

use record::found::{SLOW_RANK, SLOW_RANK_WAIT_S};
use record::{Case, CaseLine, CaseSamples, Caveat};

use crate::Figures;

/// A process is slow if it takes so many times as long as the median of the others, by the lower end of the interval.
const SLOW: f64 = 1.10;

/// Adds what the times of each process say to a line.
pub(crate) fn add(line: &mut CaseLine, figures: &[Figures]) {
    let rows = rows(figures);
    let ranks = line.ranks as usize;
    // A process with several GPUs tells the time of its slowest one.
    if rows.len() < 2 || rows.len() != ranks {
        return;
    }
    line.per_rank_median_s = Some(rows.iter().map(|row| stats::median(row)).collect());
    if let Some((rank, wait)) = slow(&rows) {
        line.caveats.push(Caveat::SlowRank);
        SLOW_RANK.put(&mut line.metrics, rank as u32);
        SLOW_RANK_WAIT_S.put(&mut line.metrics, wait);
    }
}

/// The samples of a case: a trial for each run that has them.
pub(crate) fn samples(case: &Case, figures: &[Figures]) -> Vec<CaseSamples> {
    let nanoseconds = |row: &Vec<f64>| row.iter().map(|time| (time * 1e9).round() as u64).collect();
    let trial = |(at, figures): (usize, &Figures)| {
        let ns: Vec<Vec<u64>> = figures.details().processes.iter().map(nanoseconds).collect();
        let trial = u32::try_from(at).ok().filter(|_| !ns.is_empty())?;
        Some(CaseSamples { id: case.id.clone(), trial, calls: 1, ns, ..CaseSamples::default() })
    };
    figures.iter().enumerate().filter_map(trial).collect()
}

/// `[process][iteration]` in seconds, over all runs; empty where runs have different numbers of processes.
fn rows(figures: &[Figures]) -> Vec<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for figures in figures {
        let processes = &figures.details().processes;
        if !rows.is_empty() && rows.len() != processes.len() {
            return Vec::new();
        }
        rows.resize(processes.len(), Vec::new());
        rows.iter_mut().zip(processes).for_each(|(row, more)| row.extend(more));
    }
    rows
}

/// The process that takes longer than the others, and the median of what it takes longer.
fn slow(rows: &[Vec<f64>]) -> Option<(usize, f64)> {
    let iterations = rows.iter().map(Vec::len).min()?;
    let medians: Vec<f64> = rows.iter().map(|row| stats::median(row)).collect();
    let (suspect, _) = medians.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
    let others = |iteration: usize| {
        let others = rows.iter().enumerate().filter(|(rank, _)| *rank != suspect);
        stats::median(&others.map(|(_, row)| row[iteration]).collect::<Vec<_>>())
    };
    let pairs: Vec<(f64, f64)> = (0..iterations).map(|at| (rows[suspect][at], others(at))).collect();
    let ratios: Vec<f64> = pairs.iter().filter(|(_, others)| *others > 0.0).map(|(own, others)| own / others).collect();
    let [low, _] = stats::sign_interval(&ratios)?;
    let waits: Vec<f64> = pairs.iter().map(|(own, others)| own - others).collect();
    (low > SLOW).then(|| (suspect, stats::median(&waits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Iterations of 100 us with some noise; process 2 takes so many times as long.
    fn rows(factor: f64) -> Vec<Vec<f64>> {
        let time = |rank: usize, at: usize| {
            let noise = 1.0 + 0.04 * ((rank * 7 + at * 5) % 11) as f64 / 11.0;
            1e-4 * noise * if rank == 2 { factor } else { 1.0 }
        };
        (0..4).map(|rank| (0..20).map(|at| time(rank, at)).collect()).collect()
    }

    #[test]
    fn a_process_that_takes_longer_is_named() {
        let (rank, wait) = slow(&rows(1.5)).unwrap();
        assert_eq!(rank, 2);
        assert!((4e-5..6e-5).contains(&wait), "{wait}");
        assert_eq!(slow(&rows(1.05)), None);
        assert_eq!(slow(&rows(1.0)), None);
        // One long iteration is not a slow process.
        let mut one = rows(1.0);
        one[1][3] = 1.0;
        assert_eq!(slow(&one), None);
        assert_eq!(slow(&[]), None);
    }
}
