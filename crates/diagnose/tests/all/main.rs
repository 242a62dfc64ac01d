//! Comparisons of records against known truths.

mod matching;
mod rates;
mod verdicts;
