//! `cargo xtask browser`: HTML reports in a real browser. Chromium, driven by playwright-core, opens pages of invented runs and
//! of a simulated one, and uses them as a reader does (xtask/browser/report.mjs). axe-core looks for what keeps a reader out.
//! Pages of records whose texts are markup call nobody: a listener hears nothing while they are open (xtask/browser/silent.mjs).
//!
//! Where node, npm or Chromium cannot be had, the step is skipped with the reason.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::install;
use crate::ledger::{Ending, Ledger};
use crate::test::{cargo, target};

/// In the versions that the checks were written with.
const MODULES: [&str; 2] = ["playwright-core@1.65.1", "axe-core@4.14.1"];

/// Pages that are checked in full, by folder. Others are checked only if they have a reason to be large.
const PAGES: [&str; 8] = ["sim", "study", "peers", "scaled", "held", "matrices", "hostile", "explained"];

/// Looks at the pages. True when nothing failed.
pub(crate) fn run(root: &Path, may_install: bool) -> bool {
    let mut ledger = Ledger::shown();
    look(root, may_install, &mut ledger);
    println!("pictures are in {}", pictures(root).display());
    println!("{}", ledger.summary());
    ledger.total().failed == 0
}

/// Looks at HTML reports in a real browser, as a step of the tests.
pub(crate) fn look(root: &Path, may_install: bool, ledger: &mut Ledger) {
    let tools = match tools(&target(root).join("xtask/browser"), may_install) {
        Ok(tools) => tools,
        Err(why) => return ledger.skip("browser", why),
    };
    let pages = target(root).join("xtask/pages");
    // Of an earlier run; a folder that stays makes the commands below fail and say so.
    let _ = std::fs::remove_dir_all(&pages);
    let record = pages.join("records/sim");
    let simulate =
        ["run", "--quiet", "--package", "rankmark", "--", "comm", "all_reduce,all_gather", "--backend", "sim"];
    let sizes =
        ["--ranks", "2,4", "--bytes", "1KiB..16MiB*4", "--iters", "10", "--warmup", "1", "--quiet", "--output-dir"];
    let mut simulate = cargo(root, &[&simulate[..], &sizes].concat());
    ledger.check("browser: a simulated record", simulate.arg(&record).stdout(Stdio::null()));
    let mut write = cargo(root, &["run", "--quiet", "--package", "rankmark-report", "--example", "pages", "--"]);
    ledger.check("browser: pages", write.arg(&pages).arg(&record));
    let mut node = Command::new("node");
    node.current_dir(root).arg("xtask/browser/report.mjs").arg(&tools.modules).arg(&tools.chromium).arg(pictures(root));
    let all = PAGES.into_iter().chain(["together", "large"]);
    node.args(all.map(|name| pages.join(name).join("report.html")));
    ledger.check("browser: readers", &mut node);
    silent(root, &tools, &pages.join("foreign"), ledger);
}

/// Pages and pictures of hostile records call nobody; a page that has no policy does, and is heard.
fn silent(root: &Path, tools: &Tools, pages: &Path, ledger: &mut Ledger) {
    let listener = match Listener::start() {
        Ok(listener) => listener,
        Err(error) => return ledger.step("browser: a listener", || (Ending::Failed(error.to_string()), None)),
    };
    let mut write = cargo(root, &["run", "--quiet", "--package", "rankmark-report", "--example", "hostile", "--"]);
    ledger.check("browser: hostile records", write.arg(pages).arg(listener.port.to_string()));
    let opened = |folder: &Path| {
        let mut node = Command::new("node");
        node.current_dir(root).arg("xtask/browser/silent.mjs").arg(&tools.modules).arg(&tools.chromium).arg(folder);
        node
    };
    // Before the others: a listener that hears nothing proves nothing.
    let control = pages.join("control");
    let _ = opened(&control).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let calls = listener.heard_late();
    let heard = |calls: Vec<String>| match calls.iter().any(|call| call.contains("/control")) {
        true => Ending::Passed,
        false => Ending::Failed("the page that calls the listener was not heard".to_owned()),
    };
    ledger.step("browser: control", || (heard(calls), None));
    // It would be heard again.
    let _ = std::fs::remove_dir_all(&control);
    ledger.check("browser: hostile pages", &mut opened(pages));
    let calls = listener.heard_late();
    let silent = if calls.is_empty() { Ending::Passed } else { Ending::Failed(calls.join(" | ")) };
    ledger.step("browser: nobody is called", || (silent, None));
}

/// Counts who calls a port of this host.
struct Listener {
    port: u16,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    /// Listens until this program ends.
    fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (port, calls) = (listener.local_addr()?.port(), Arc::default());
        let noted: Arc<Mutex<Vec<String>>> = Arc::clone(&calls);
        std::thread::spawn(move || {
            for call in listener.incoming().flatten() {
                noted.lock().unwrap_or_else(PoisonError::into_inner).push(answered(call));
            }
        });
        Ok(Self { port, calls })
    }

    /// As [`Listener::heard`], with what is still under way.
    fn heard_late(&self) -> Vec<String> {
        std::thread::sleep(Duration::from_secs(1));
        self.heard()
    }

    /// Who has called since the last time.
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The first line of a request, which gets an empty answer.
fn answered(mut call: TcpStream) -> String {
    let mut line = String::new();
    let read = call
        .set_read_timeout(Some(Duration::from_secs(2)))
        .and_then(|()| BufReader::new(&call).take(4096).read_line(&mut line));
    let _ = call.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    read.map_or_else(|error| error.to_string(), |_| line.trim().to_owned())
}

fn pictures(root: &Path) -> PathBuf {
    target(root).join("xtask/pictures")
}

struct Tools {
    /// The folder that holds `node_modules`.
    modules: PathBuf,
    chromium: PathBuf,
}

/// Finds or installs the browser and the modules that check pages.
///
/// # Errors
/// What is missing, with a hint.
fn tools(place: &Path, may_install: bool) -> Result<Tools, String> {
    for program in ["node", "npm"] {
        if !install::is_there(program) {
            return Err(format!("no {program} (hint: apt-get install nodejs npm)"));
        }
    }
    let found = || ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(install::place_of);
    let chromium = match found() {
        Some(chromium) => chromium,
        None if may_install => {
            install::install("chromium")?;
            found().ok_or("the package `chromium` has no program of that name")?
        }
        None => return Err("no Chromium (hint: apt-get install chromium)".to_owned()),
    };
    modules(place, may_install)?;
    Ok(Tools { modules: place.to_owned(), chromium })
}

/// The modules, installed once: again where other versions are wanted, or where that did not come to its end.
fn modules(place: &Path, may_install: bool) -> Result<(), String> {
    let (whole, list) = (place.join("whole"), MODULES.join(" "));
    if std::fs::read_to_string(&whole).ok().as_deref() == Some(&list) {
        return Ok(());
    }
    let hint = format!("(hint: npm install {list})");
    if !may_install {
        return Err(format!("not installed (--no-install) {hint}"));
    }
    println!("    installing {list} (once)");
    std::fs::create_dir_all(place).map_err(|error| format!("{}: {error}", place.display()))?;
    // Scripts of packages have no part in this: playwright-core has none, and no browser is to be downloaded.
    let quiet = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--fetch-retries=1"];
    let mut npm = Command::new("npm");
    npm.args(quiet).arg("--prefix").arg(place).args(MODULES).stdin(Stdio::null()).stdout(Stdio::null());
    let ended = npm.status().map_err(|error| format!("npm: {error} {hint}"))?;
    if !ended.success() {
        return Err(format!("npm: {ended} {hint}"));
    }
    std::fs::write(&whole, list).map_err(|error| format!("{}: {error}", whole.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_installed_is_not_used() {
        let place = std::env::temp_dir().join(format!("xtask-browser-{}", std::process::id()));
        assert!(modules(&place, false).unwrap_err().contains("--no-install"));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("whole"), MODULES.join(" ")).unwrap();
        assert_eq!(modules(&place, false), Ok(()));
        std::fs::write(place.join("whole"), "axe-core@1").unwrap();
        assert!(modules(&place, false).is_err(), "other versions");
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_listener_hears_who_calls() {
        let listener = Listener::start().unwrap();
        assert!(listener.heard().is_empty());
        let mut call = TcpStream::connect((Ipv4Addr::LOCALHOST, listener.port)).unwrap();
        call.write_all(b"GET /control HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        call.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
        // It is answered before it is noted.
        while listener.heard() != ["GET /control HTTP/1.1"] {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
