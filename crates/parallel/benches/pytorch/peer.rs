//! PyTorch's side: peers/pytorch/bench.py, asked for steps line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::ours::Case;

/// A running process of PyTorch.
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it, and waits for its warm-up to end.
    pub(crate) fn new(
        python: &str,
        preload: Option<&str>,
        case: &Case,
        threads: usize,
        mode: &str,
    ) -> Result<Self, String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers/pytorch/bench.py");
        let mut command = Command::new(python);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        let mut child = command.spawn().map_err(|error| format!("{python}: {error}"))?;
        let input = child.stdin.take().ok_or("no pipe to PyTorch")?;
        let output = BufReader::new(child.stdout.take().ok_or("no pipe from PyTorch")?);
        let mut peer = Self { child, input, output };
        let ranks = case.ranks.max(1);
        let threads = threads / ranks;
        let mut request = json!({"setup": case.name, "threads": threads.max(1), "mode": mode, "cores": Value::Null});
        if ranks > 1 {
            request["cores"] = json!((0..ranks).map(|core| vec![core]).collect::<Vec<_>>());
        }
        peer.ask(&request)?;
        Ok(peer)
    }

    fn ask(&mut self, request: &Value) -> Result<Value, String> {
        writeln!(self.input, "{request}").map_err(|error| format!("PyTorch is gone: {error}"))?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| format!("PyTorch is gone: {error}"))?;
        let answer: Value = serde_json::from_str(&line).map_err(|error| format!("PyTorch: {error}: {line}"))?;
        match answer.get("error") {
            Some(error) => Err(format!("PyTorch: {error}")),
            None => Ok(answer),
        }
    }

    /// Seconds and CPU seconds of each step.
    pub(crate) fn steps(&mut self, count: usize) -> Result<(Vec<f64>, Vec<f64>), String> {
        let answer = self.ask(&json!({"steps": count}))?;
        let numbers = |name: &str| -> Vec<f64> {
            answer[name].as_array().map_or(Vec::new(), |list| list.iter().filter_map(Value::as_f64).collect())
        };
        Ok((numbers("seconds"), numbers("cpu_seconds")))
    }

    /// Ends it.
    pub(crate) fn quit(mut self) {
        let _ = writeln!(self.input, "{}", json!({"quit": true}));
        drop(self.input);
        let _ = self.child.wait();
    }
}
