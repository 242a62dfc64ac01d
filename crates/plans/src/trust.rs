//! What a plan names that runs code when it is looked at: a Python and an MPI library. Without `--trust-plan` neither is
//! touched, so that a plan of somebody else can be checked.

use std::path::Path;

use record::Case;

/// The Python that a plan may name without the user's trust: it is examined anyway.
const USUAL_PYTHON: &str = "python3";

/// Why the case is not looked at; None where it names nothing that must not be. `known` holds of an MPI library that the
/// survey of this machine found by itself.
pub fn refusal(case: &Case, python: Option<&Path>, known: impl Fn(&str) -> bool) -> Option<String> {
    if benchmarks::is_pytorch(case) {
        let named = benchmarks::library_of(case)?;
        let own = named == USUAL_PYTHON || python == Some(Path::new(named));
        return (!own).then(|| format!("the plan names the Python `{named}`, {HINT} to run it"));
    }
    let library = benchmarks::library_of(case).filter(|library| !known(library))?;
    Some(format!("the plan names the library `{library}`, {HINT} to load it"))
}

const HINT: &str = "which could be any code; use `--trust-plan`";

/// What the option `--trust-plan` does.
pub const HELP: &str = "run the Python and load the MPI library that the plan names (docs/explanation/security.md)";

#[cfg(test)]
mod tests {
    use terms::Kind;

    /// Fields that take any text and neither name a file nor reach another program as code. A new field belongs here, or
    /// into docs/explanation/security.md.
    const HARMLESS: [&str; 8] =
        ["dims", "inject", "expect", "groups", "nccl_algo", "nccl_cta_policy", "nccl_proto", "mesh"];

    /// What a rank lets other processes of its user do stands on the page, as long as the backend does it.
    #[test]
    fn that_peers_may_read_a_ranks_memory_is_in_the_page_about_security() {
        let page = include_str!("../../../docs/explanation/security.md");
        let call = "PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY";
        assert!(include_str!("../../comm/src/shm/open.rs").contains(call), "the page may leave it out");
        for phrase in ["prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)", "backend `shm`", "Yama"] {
            assert!(page.contains(phrase), "docs/explanation/security.md does not say `{phrase}`");
        }
    }

    #[test]
    fn every_field_that_names_code_or_files_is_in_the_page_about_security() {
        let page = include_str!("../../../docs/explanation/security.md");
        let abouts = benchmarks::abouts();
        let texts = abouts.iter().flat_map(|about| about.all_fields());
        let texts: Vec<&str> = texts
            .filter(|field| matches!(field.kind, Kind::Text | Kind::Texts) && !HARMLESS.contains(&field.name))
            .map(|field| field.name)
            .collect();
        for name in ["python", "mpi_library", "env"] {
            assert!(texts.contains(&name), "{name}");
        }
        // `data_mmap` is written `data: {mmap: FILE}`.
        let group = |name: &str| name.split_once('_').map(|(group, member)| format!("`{group}: {{{member}: "));
        let is_mentioned = |name: &str| {
            page.contains(&format!("`{name}`")) || group(name).is_some_and(|written| page.contains(&written))
        };
        let missing: Vec<&str> = texts.into_iter().filter(|name| !is_mentioned(name)).collect();
        assert!(missing.is_empty(), "docs/explanation/security.md does not say what {missing:?} may do");
    }
}
