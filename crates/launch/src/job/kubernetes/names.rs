//! Names that Kubernetes accepts, and the hint where one is refused.

use terms::Error;

use super::super::description::{Choice, IMAGE, Job, unfit};

/// The longest label of RFC 1123.
const LONGEST_LABEL: usize = 63;
/// The longest name of most objects: a subdomain of RFC 1123.
const LONGEST_SUBDOMAIN: usize = 253;
/// The longest image that a TrainJob accepts. Tags have at most 128 letters, and registries rarely allow more in all.
const LONGEST_IMAGE: usize = 500;

/// The name of a namespace, if one is given.
pub(super) fn label<'j>(job: &'j Job, choice: &Choice) -> Result<Option<&'j str>, Error> {
    let fits = |name: &str| name.len() <= LONGEST_LABEL && is_label(name);
    let hint = "lower-case letters, digits and hyphens, a letter or digit at both ends, at most 63";
    checked(job, choice, fits, hint)
}

/// The name of a Secret or a claim, if one is given.
pub(super) fn subdomain<'j>(job: &'j Job, choice: &Choice) -> Result<Option<&'j str>, Error> {
    let fits = |name: &str| name.len() <= LONGEST_SUBDOMAIN && name.split('.').all(is_label);
    let hint = "lower-case letters, digits, hyphens and dots, a letter or digit next to each dot and at both ends, at most 253";
    checked(job, choice, fits, hint)
}

/// The name of a device's resource, if one is given: `DOMAIN/NAME`.
pub(super) fn resource<'j>(job: &'j Job, choice: &Choice) -> Result<Option<&'j str>, Error> {
    let inner = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let named = |name: &str| {
        let outer = |letter: char| letter.is_ascii_alphanumeric();
        name.len() <= LONGEST_LABEL && name.starts_with(outer) && name.ends_with(outer) && name.chars().all(inner)
    };
    let fits =
        |text: &str| text.split_once('/').is_some_and(|(domain, name)| domain.split('.').all(is_label) && named(name));
    let hint = "as `kubectl describe node` lists it, such as rdma/hca_shared_devices_a";
    checked(job, choice, fits, hint)
}

fn checked<'j>(
    job: &'j Job,
    choice: &Choice,
    fits: impl Fn(&str) -> bool,
    hint: &'static str,
) -> Result<Option<&'j str>, Error> {
    let Some(name) = job.option(choice) else { return Ok(None) };
    if fits(name) { Ok(Some(name)) } else { Err(Error::new(unfit(choice, name)).hint(hint)) }
}

/// Whether it is a label of RFC 1123.
fn is_label(text: &str) -> bool {
    let outer = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    text.starts_with(outer) && text.ends_with(outer) && text.chars().all(|letter| outer(letter) || letter == '-')
}

/// Refuses a text that no container runtime takes as an image. The cluster would accept the object, and its pods would wait
/// with `InvalidImageName`.
pub(super) fn check_image(image: &str) -> Result<(), Error> {
    let (rest, digest) = image.split_once('@').map_or((image, None), |(rest, digest)| (rest, Some(digest)));
    // A colon before a slash is that of a port.
    let tag_at = rest.rfind(':').filter(|at| !rest[*at..].contains('/'));
    let (name, tag) = tag_at.map_or((rest, None), |at| (&rest[..at], Some(&rest[at + 1..])));
    let (host, path) = match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (Some(host), path),
        _ => (None, name),
    };
    let fits = image.len() <= LONGEST_IMAGE
        && host.is_none_or(is_host)
        && path.split('/').all(is_path_part)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    let hint = "[HOST[:PORT]/]PATH[:TAG][@DIGEST] with a path in lower case, such as registry.example/rankmark:0.1";
    if fits { Ok(()) } else { Err(Error::new(unfit(&IMAGE, image)).hint(hint)) }
}

fn is_host(text: &str) -> bool {
    let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
    let part = |part: &str| {
        let outer = |letter: char| letter.is_ascii_alphanumeric();
        part.starts_with(outer) && part.ends_with(outer) && part.chars().all(|letter| outer(letter) || letter == '-')
    };
    name.split('.').all(part) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Lower-case letters and digits, with `.`, `_`, `__` or hyphens between them.
fn is_path_part(text: &str) -> bool {
    let inner = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let separators = text.split(inner).filter(|separator| !separator.is_empty());
    let separates =
        |separator: &str| matches!(separator, "." | "_" | "__") || separator.chars().all(|letter| letter == '-');
    text.starts_with(inner) && text.ends_with(inner) && separators.into_iter().all(separates)
}

fn is_tag(text: &str) -> bool {
    let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.starts_with(word) && text.len() <= 128 && text.chars().all(|letter| word(letter) || ".-".contains(letter))
}

fn is_digest(text: &str) -> bool {
    let hexadecimal = |letter: char| letter.is_ascii_digit() || ('a'..='f').contains(&letter);
    text.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 64 && digits.chars().all(hexadecimal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_checked_as_container_runtimes_do() {
        let digest = format!("a/b@sha256:{}", "0f".repeat(32));
        for image in [
            "rankmark",
            "rankmark:0.1",
            "registry/a:1",
            "localhost/a",
            "Registry.Example:5000/team/rank-mark_x.y__z:v1.2-rc_1",
            "nvcr.io/nvidia/pytorch:25.01-py3",
            &digest,
        ] {
            assert!(check_image(image).is_ok(), "{image}");
        }
        let long = format!("a:{}", "x".repeat(129));
        for image in [
            "",
            " a",
            "a b",
            "a\n",
            "A/b",
            "a//b",
            "/a",
            "a/",
            "a:",
            "a:-x",
            "a_-b",
            "a..b",
            "-a",
            "a.b:port/c",
            "https://a/b",
            "a@sha256:12",
            "a:b:c",
            "a: &x",
            "a\" #",
            &long,
        ] {
            let problem = check_image(image).unwrap_err();
            assert!(problem.what.starts_with("`--image` does not take `") && problem.hint.is_some(), "{image}");
        }
    }
}
