//! `rankmark-pdf`: sets the document that `rankmark report --format pdf` writes to its standard input, and writes the PDF
//! to its standard output.
//!
//! It opens no file, starts no process and uses no network: typst sees one template, which is part of this program, and
//! the document as data. So no text of a record can become typst code.

mod blocks;
mod document;
mod set;
mod world;

use std::io::{self, Read, Write};
use std::process::ExitCode;

use document::Document;

const USAGE: &str = "\
Sets the report of Rankmark as PDF: reads a document from standard input, writes the PDF to standard output.
`rankmark report DIR --format pdf` runs it.

usage: rankmark-pdf [--version | --help]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = match words.as_slice() {
        [] => run(),
        ["--version" | "-V"] => told(concat!("rankmark-pdf ", env!("CARGO_PKG_VERSION"))),
        ["--help" | "-h"] => told(USAGE),
        _ => Err(format!("wrong usage\n\n{USAGE}")),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

fn told(text: &str) -> Result<(), String> {
    writeln!(io::stdout(), "{text}").map_err(|error| error.to_string())
}

fn run() -> Result<(), String> {
    let mut text = Vec::new();
    io::stdin().lock().read_to_end(&mut text).map_err(|error| format!("the document could not be read: {error}"))?;
    let pdf = set::pdf(&Document::read(&text)?)?;
    pdf.remark.iter().for_each(|remark| eprintln!("note: {remark}"));
    let mut out = io::stdout().lock();
    out.write_all(&pdf.content).and_then(|()| out.flush()).map_err(|error| format!("the PDF was not written: {error}"))
}
