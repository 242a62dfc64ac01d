//! The text of `all_reduce_bench.py` (stas00/ml-engineering): a table by payload, and its first form with one payload.

use terms::{Collective, Dtype, Error};

use super::nccl::plain;
use crate::collective::{self, Call};
use crate::{Content, Figures, Format, Line, Results, Source};

/// The format.
pub(super) struct AllReduceBench;

impl Format for AllReduceBench {
    fn name(&self) -> &'static str {
        "all_reduce_bench"
    }

    fn doc(&self) -> &'static str {
        "all_reduce_bench.py of ml-engineering: bandwidth by payload"
    }

    fn recognises(&self, source: &Source) -> bool {
        let text = source.text();
        text.contains("The average bandwidth of all_reduce") || source.lines().any(|line| is_header(line.text))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut results =
            Results::new("all_reduce_bench.py", "payload / mean over iterations and ranks of the bandwidth");
        results.note("times are payload / algbw, and as exact as its printed digits");
        let given = collective::given_ranks(source)?;
        let mut reader = Reader { source, results, ranks: None, given, trials: None, payload: None, in_table: false };
        for line in source.lines() {
            reader.line(line)?;
        }
        Ok(Content::Results(vec![reader.results]))
    }
}

fn cells(text: &str) -> Option<Vec<&str>> {
    let inside = text.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(str::trim).collect())
}

fn is_header(text: &str) -> bool {
    cells(text).is_some_and(|cells| cells.first() == Some(&"payload") && cells.contains(&"algbw"))
}

struct Reader<'s> {
    source: &'s Source,
    results: Results,
    ranks: Option<u32>,
    given: Option<u32>,
    trials: Option<u64>,
    /// Of the first form: the payload of the lines that follow.
    payload: Option<u64>,
    in_table: bool,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        if let Some((_, rest)) = text.split_once("The average bandwidth of all_reduce ") {
            self.begin(rest);
        } else if text.contains("|    busbw   |    algbw   |") && !is_header(text) {
            self.results.omit(line.number, "a profile of single iterations: only averages are read");
            self.in_table = false;
        } else if is_header(text) {
            let names = cells(text).unwrap_or_default();
            if let Some(odd) = names.iter().find(|name| !["payload", "busbw", "algbw"].contains(name)) {
                let what = format!("the table has a column `{}` that this reader does not know", plain(odd));
                return Err(self.source.error(line.number, what).hint("known columns: payload, busbw, algbw"));
            }
            self.in_table = true;
        } else if let Some(cells) = cells(text).filter(|cells| self.in_table && !cells[0].starts_with('-')) {
            self.row(line.number, &cells)?;
        } else if let (Some(payload), Some((_, rate))) = (self.payload, text.split_once("algbw:")) {
            let rate = rate.trim().split_once(" GBps").map_or("", |(rate, _)| rate);
            self.add(line.number, Ok(payload), rate)?;
            self.payload = None;
        } else if let Some(software) = text.strip_prefix("- software:") {
            self.software(software);
        } else if let Some(hardware) = text.strip_prefix("- hardware:") {
            self.results.facts.insert("hardware".to_owned(), plain(hardware));
        }
        Ok(())
    }

    /// `over 8 ranks (5 warmups / 20 trials):`, or `with a 4.0GB payload (5 trials, 16 ranks):`.
    fn begin(&mut self, rest: &str) {
        self.results.begin_run();
        self.results.facts.insert(format!("run {}", self.results.runs()), plain(rest));
        let words: Vec<&str> = rest.split([' ', '(', ')', ',', ':']).filter(|word| !word.is_empty()).collect();
        let before = |name: &str| words.windows(2).find(|pair| pair[1] == name).map(|pair| pair[0]);
        self.ranks = before("ranks").and_then(|word| word.parse().ok()).filter(|ranks| *ranks > 0);
        self.trials = before("trials").and_then(|word| word.parse().ok());
        // M * N * 4 / 1e9, as Python prints it.
        let gigabytes = before("payload").and_then(|word| word.strip_suffix("GB")?.parse::<f64>().ok());
        self.payload = gigabytes.map(|gigabytes| (gigabytes * 1e9).round() as u64);
        self.in_table = false;
    }

    fn software(&mut self, text: &str) {
        for (name, rest) in [("torch", "torch="), ("cuda", "cuda="), ("nccl", "nccl=")] {
            let Some((_, value)) = text.split_once(rest) else { continue };
            let value = match value.strip_prefix('(') {
                Some(tuple) => tuple.split(')').next().unwrap_or_default().replace(", ", "."),
                None => value.split([',', ' ']).next().unwrap_or_default().to_owned(),
            };
            self.results.versions.insert(name.to_owned(), plain(&value));
        }
    }

    fn row(&mut self, number: usize, cells: &[&str]) -> Result<(), Error> {
        let &[payload, _, algbw] = cells else {
            self.results.omit(number, format!("expected 3 columns, found {}", cells.len()));
            return Ok(());
        };
        let bytes = size(payload).ok_or_else(|| format!("expected a payload, found `{}`", plain(payload)));
        self.add(number, bytes, algbw.trim_end_matches("GBps"))
    }

    fn add(&mut self, number: usize, bytes: Result<u64, String>, rate: &str) -> Result<(), Error> {
        let ranks = self.ranks.or(self.given).ok_or_else(|| collective::no_ranks(self.source, number))?;
        let value: Option<f64> = rate.trim().parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
        let rate = value.ok_or_else(|| format!("expected a bandwidth above 0, found `{}`", plain(rate)));
        match bytes.and_then(|bytes| Ok((bytes, rate?))) {
            Err(why) => self.results.omit(number, why),
            Ok((bytes, rate)) => {
                let call = Call::new(Collective::AllReduce, ranks, "nccl", "cuda");
                let call = Call { by_pytorch: true, dtype: Dtype::F32, bytes, in_place: Some(true), ..call };
                let place = self.results.place(call.shape());
                let time_s = bytes as f64 / (rate * 1e9);
                self.results.add_at(place, Figures { time_s, iterations: self.trials, ..Figures::default() });
            }
        }
        Ok(())
    }
}

/// A payload: `32KiB`, or `32KB` as older versions write the same.
fn size(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let shift = match text[digits..].trim_end_matches('B').trim_end_matches('i') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}
