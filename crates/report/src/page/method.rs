//! How the numbers came about: caveats, the method of measuring, the command.

use std::collections::BTreeMap;

use record::found::{BUSBW_GBS, LIMIT_SHARE};
use record::{CaseLine, Caveat};
use terms::Named as _;

use crate::Run;
use crate::document::{Block, Words, prose_list, strong};
use crate::escape::{one_line, shell};
use crate::number::{count, list, seconds};
use crate::study::cache;
use crate::words::explained::explained_job;
use crate::words::imported;
use crate::words::intervals::interval_claim;
use crate::words::names::what;
use crate::words::refused_limits::refused_limits;

/// The long form of each caveat that occurs, and how often.
pub(crate) fn caveats(run: &Run) -> Vec<Block> {
    let mut numbers: BTreeMap<Caveat, usize> = BTreeMap::new();
    for caveat in run.cases.iter().flat_map(|case| &case.caveats) {
        *numbers.entry(*caveat).or_default() += 1;
    }
    let line = |(caveat, number): (&Caveat, &usize)| {
        let (words, explanation) = (run.wording.words(*caveat), run.wording.explanation(*caveat));
        format!("{} ({}): {explanation}.", strong(&words), count(*number, "case", "cases"))
    };
    prose_list(numbers.iter().map(line).chain(refused_limits(run)))
}

/// How the numbers of a profiled job came about.
const JOB: &str = "Rankmark did not time this job: its times come from the tool that recorded the traces. The time of \
                   a step is the median over the steps after warm-up; one run of a job gives it no interval. The \
                   intervals of findings are those of medians over these steps. docs/explanation/diagnosis.md explains \
                   how waits, losses and confidence are computed. Exact values are in `profile.json`.";

/// How the numbers came about; only what applies to this run.
pub(crate) fn method(run: &Run) -> Vec<Block> {
    let measured: Vec<&CaseLine> = run.cases.iter().filter(|case| case.time_s.is_some()).collect();
    if measured.is_empty() {
        return Vec::new();
    }
    if measured.iter().all(|case| case.caveats.contains(&Caveat::Imported)) {
        let rates = match measured.iter().any(|case| BUSBW_GBS.value(case).is_some()) {
            true => {
                " algbw = bytes / time and busbw = algbw x a factor of operation and ranks, both in GB/s (1e9 bytes a second)."
            }
            false => "",
        };
        return vec![Block::Paragraph(Words::prose(&format!("{}{rates}", imported::method(run))))];
    }
    if explained_job(run).is_some() {
        return vec![Block::Paragraph(Words::prose(JOB))];
    }
    let mut text = String::from(
        "A sample's time is the maximum over ranks. A trial is one visit to a case; it gives one median. The time of a \
         case is the median of these. Nothing is dropped as an outlier.",
    );
    if let Some(claim) = interval_claim(run) {
        text += &format!(
            " {claim} The column has half its width, relative to the median. `ci95` in the record is the interval of the \
             median over the run's own span: the sign interval, which assumes no distribution. A ratio of two cases is the \
             median of the ratios of their trials round by round."
        );
    }
    let modes: Vec<String> = terms::Mode::ALL
        .iter()
        .filter(|mode| measured.iter().any(|case| case.mode == **mode))
        .map(|mode| match mode {
            terms::Mode::Streaming => {
                "`streaming`: calls back to back between two synchronisations, their time divided by their number"
                    .to_owned()
            }
            terms::Mode::Isolated => {
                "`isolated`: one call a sample, all ranks starting at one agreed instant".to_owned()
            }
            terms::Mode::Decode => {
                "`decode`: one call a sample in a chain of calls, each rank computing between them; a \
                                    sample begins when the rank enters the call"
                    .to_owned()
            }
        })
        .collect();
    text += &format!(" Mode {}.", list(&modes));
    if measured.iter().any(|case| cache(case) == Some("cache-warm")) {
        text += " `cache-warm`: calls repeat on the same buffers, so what fits into the caches is read from there.";
    }
    if measured.iter().any(|case| cache(case) == Some("cache-cold")) {
        text += " `cache-cold`: each call uses different buffers, which together are larger than the last-level cache.";
    }
    if measured.iter().any(|case| BUSBW_GBS.value(case).is_some()) {
        text += " algbw = bytes / time and busbw = algbw x a factor of operation and ranks, both in GB/s (1e9 bytes a \
                 second), as nccl-tests define them.";
    }
    if measured.iter().any(|case| LIMIT_SHARE.value(case).is_some()) {
        text += " % of limit compares with the time in which the same cores move the operation's memory traffic, \
                 measured next to each case with the same working set and ranks.";
    }
    let is_checked = |simulated: bool| measured.iter().any(|case| case.wrong.is_some() && case.simulated == simulated);
    if is_checked(false) || is_checked(true) {
        text += " `wrong` counts wrong elements over all ranks.";
    }
    if is_checked(false) {
        text += " Every element is compared before the first sample, after the last one, and after some calls in between, \
                 outside the timed part: as many as take 3% of the time. A wrong result that a later call overwrites before \
                 the next comparison is not seen.";
    }
    if is_checked(true) {
        text += " For a simulated case, the data of at least one call are compared, or the part that `checked` in the \
                 record names.";
    }
    if measured.iter().any(|case| what(case) == "barrier") {
        text += " For a barrier, `wrong` counts how often a rank left before the last one entered; each rank is late \
                 on purpose in some calls. `-`: the clocks are not precise enough to tell.";
    }
    if let Some(cost) = run.overhead {
        let (sample, call) = (seconds(cost.sample_ns / 1e9), seconds(cost.call_ns / 1e9));
        text += &format!(" Measuring itself costs {sample} a sample and {call} a call; it is not subtracted.");
    }
    text += " Exact values are in `cases.csv`, samples in the record.";
    vec![Block::Paragraph(Words::prose(&text))]
}

/// The command that made the run, as far as it is known.
pub(crate) fn command_again(run: &Run) -> Vec<Block> {
    if run.command.trim().is_empty() {
        return Vec::new();
    }
    // Variables that a launcher set for its processes hold for that job only.
    let repeated = run.environment.iter().filter(|(name, _)| !record::is_of_its_job(name));
    let variables = repeated.map(|(name, value)| format!("{}={} ", shell(name), shell(value)));
    vec![Block::Command(one_line(&format!("{}{}", variables.collect::<String>(), run.command)))]
}
