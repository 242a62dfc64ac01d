//! PyTorch, as the user's own Python has it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use process::{child, first_program, is_program};
use serde_json::Value;

use super::{Finding, Request, probe};

/// Importing torch for the first time reads a gigabyte.
const LIMIT: Duration = Duration::from_secs(60);

/// The Python that is run where nobody names one.
pub(super) const DEFAULT: &str = "python3";

const IMPACT: &str = "no comparison with PyTorch, no `runtime: pytorch`";

pub(super) fn look(request: &Request) -> Vec<Finding> {
    let program = request.python.clone().or_else(|| first_program(&request.path, "python3"));
    let mut rows = match program {
        Some(program) => rows(&program),
        None => vec![Finding::missing("Python", "no python3 on PATH").impact(IMPACT).fix("apt install python3")],
    };
    if request.python.is_some() {
        // The user named it: what is missing in it is an error.
        rows.iter_mut().filter(|row| matches!(row.name.as_str(), "Python" | "torch")).for_each(|row| row.asked = true);
    }
    rows
}

/// A Python that has torch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torch {
    /// Version of torch.
    pub version: String,
    /// The Python's own path.
    pub python: String,
    /// What moves data in it: `gloo`, `nccl`, `mpi`, `ucc`.
    pub backends: Vec<String>,
}

/// The torch of this Python (a path, or a name that is looked for in these folders; None: `python3`). Takes seconds.
///
/// # Errors
/// That there is none, or that it cannot be imported.
pub fn torch(named: Option<&str>, search: &[PathBuf]) -> Result<Torch, String> {
    let program = python(named, search)?;
    let about = ask(&program).map_err(|why| format!("{} {why}", program.display()))?;
    let text = |name: &str| about.get(name).and_then(Value::as_str).map(str::to_owned);
    if let Some(why) = text("missing").or_else(|| text("broken")) {
        return Err(format!("{}: {}", program.display(), child::printable(&why)));
    }
    let backends = about.get("backends").and_then(Value::as_array).into_iter().flatten();
    Ok(Torch {
        version: text("torch").unwrap_or_default(),
        python: text("executable").unwrap_or_default(),
        backends: backends.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

/// The Python of this name or path (None: `python3`), looked for in these folders unless it is a path.
///
/// # Errors
/// That there is none.
pub fn python(named: Option<&str>, search: &[PathBuf]) -> Result<PathBuf, String> {
    let name = named.unwrap_or(DEFAULT);
    if name.contains('/') {
        let path = PathBuf::from(name);
        return if is_program(&path) { Ok(path) } else { Err(format!("{name} is not a program that can be run")) };
    }
    first_program(search, name).ok_or_else(|| format!("there is no `{name}` on the path"))
}

/// What a Python says of its torch.
fn ask(program: &Path) -> Result<Value, String> {
    let arguments = [OsStr::new("-c"), OsStr::new(include_str!("pytorch.py"))];
    let outcome = child::run(program, &arguments, Some(probe::is_answered), LIMIT)
        .map_err(|error| format!("cannot be run: {error}"))?;
    let answer = probe::answer_in(&outcome.out).and_then(|mut answer| answer.get_mut("ok").map(Value::take));
    answer.filter(Value::is_object).ok_or_else(|| {
        let said = outcome.first_line().map_or(String::new(), |line| format!("; it said `{}`", child::printable(line)));
        format!("does not behave like Python: {}{said}", outcome.complaint())
    })
}

fn rows(program: &Path) -> Vec<Finding> {
    let about = match ask(program) {
        Ok(about) => about,
        Err(why) => {
            let row = Finding::misconfigured("Python", format!("{}: {why}", program.display()));
            return vec![row.impact(IMPACT).fix("--python PATH names another")];
        }
    };
    let text = |name: &str| about.get(name).and_then(Value::as_str).map(str::to_owned);
    let executable = text("executable").filter(|path| !path.is_empty()).map_or(program.to_owned(), PathBuf::from);
    let python = format!("{}  {}", text("python").unwrap_or_default(), executable.display());
    let mut rows = vec![Finding::ready("Python", python)];
    let pip = format!("{} -m pip install torch, or --python PATH of one that has it", executable.display());
    if let Some(why) = text("missing") {
        rows.push(Finding::missing("torch", why).impact(IMPACT).fix(pip));
    } else if let Some(why) = text("broken") {
        let row = Finding::misconfigured(
            "torch",
            format!("it is installed, but cannot be imported: {}", child::printable(&why)),
        );
        rows.push(row.impact(IMPACT).fix(pip));
    } else {
        rows.extend(torch_rows(&about, text("torch").unwrap_or_default()));
    }
    rows
}

fn torch_rows(about: &Value, version: String) -> Vec<Finding> {
    let text = |name: &str| about.get(name).and_then(Value::as_str);
    let devices = about.get("devices").and_then(Value::as_u64).unwrap_or(0);
    let built = match (text("cuda"), text("hip")) {
        (Some(cuda), _) => format!("built for CUDA {cuda}"),
        (_, Some(hip)) => format!("built for ROCm {hip}"),
        _ => "built for the CPU only".to_owned(),
    };
    let devices = match devices {
        0 => "sees no GPU".to_owned(),
        1 => "sees 1 GPU".to_owned(),
        devices => format!("sees {devices} GPUs"),
    };
    let torch = Finding::ready("torch", format!("{version}, {built}, {devices}"));
    let has: Vec<&str> =
        about.get("backends").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let backend = |name: &&'static str| match has.contains(name) {
        true => Finding::ready(format!("pytorch/{name}"), "is available in it"),
        false => Finding::missing(format!("pytorch/{name}"), "this torch was built without it"),
    };
    let mut rows = vec![torch];
    if about.get("distributed").and_then(Value::as_bool) == Some(false) {
        let row = Finding::misconfigured("distributed", "this torch was built without torch.distributed");
        rows.push(row.impact("no ranks of PyTorch").fix("pip install torch (PyPI's has it)"));
        return rows;
    }
    rows.extend(["gloo", "nccl", "mpi", "ucc"].iter().map(backend));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_is_a_path_or_a_name_on_the_path() {
        let search = [PathBuf::from("/bin")];
        assert_eq!(python(Some("sh"), &search), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(python(Some("/bin/sh"), &[]), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(
            python(Some("/etc/passwd"), &search),
            Err("/etc/passwd is not a program that can be run".to_owned())
        );
        assert_eq!(python(None, &[]), Err("there is no `python3` on the path".to_owned()));
    }
}
