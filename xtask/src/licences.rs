//! Allowed licences and banned crates.

/// Licences that a dependency may carry, any one of its alternatives being enough.
const ALLOWED: [&str; 14] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "OpenSSL",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that stay out, however deep, and why.
const BANNED: [(&str, &str); 3] = [
    ("rsa", "a timing side channel that no release mends"),
    ("openssl", "TLS is rustls with aws-lc here"),
    ("backoff", "unmaintained; delays are recado-core's"),
];

/// Crates that we do not use ourselves; what others use is theirs to choose (the AWS SDK has `time`).
const NOT_OURS: [(&str, &str); 2] = [("chrono", "time is jiff's here"), ("time", "time is jiff's here")];

pub fn check(metadata: &serde_json::Value, faults: &mut Vec<String>) {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    for package in packages().filter(|package| package["source"].is_null()) {
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let name = dependency["name"].as_str().unwrap_or_default();
            if let Some((_, why)) = NOT_OURS.iter().find(|(unwanted, _)| *unwanted == name) {
                faults.push(format!("{} depends on {name}: {why}", package["name"]));
            }
        }
    }
    for package in packages().filter(|package| !package["source"].is_null()) {
        let name = package["name"].as_str().unwrap_or_default();
        if let Some((_, why)) = BANNED.iter().find(|(banned, _)| *banned == name) {
            faults.push(format!("{name} is banned: {why}"));
        }
        let licence = package["license"].as_str().unwrap_or_default();
        if !acceptable(licence) {
            faults.push(format!("{name} has licence `{licence}`, which tidy does not allow"));
        }
    }
}

/// `A OR B` needs one, `A AND B` both; brackets group.
fn acceptable(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    // The innermost brackets stand for one licence, allowed or not.
    if let Some((before, (within, after))) =
        expression.rsplit_once('(').and_then(|(before, rest)| Some((before, rest.split_once(')')?)))
    {
        let licence = if acceptable(within) { ALLOWED[0] } else { "" };
        return acceptable(&format!("{before}{licence}{after}"));
    }
    let mut alternatives = expression.split(" OR ");
    alternatives.any(|parts| parts.split(" AND ").all(|licence| ALLOWED.contains(&licence.trim())))
}

#[cfg(test)]
mod tests {
    use super::acceptable;

    #[test]
    fn an_alternative_is_enough_and_a_conjunction_needs_all() {
        assert!(acceptable("MIT OR GPL-3.0"));
        assert!(acceptable("MIT/Apache-2.0"));
        assert!(acceptable("(MIT OR GPL-3.0) AND Unicode-3.0"));
        assert!(acceptable("ISC AND (Apache-2.0 OR ISC)"));
        assert!(!acceptable("GPL-3.0"));
        assert!(!acceptable("MIT AND GPL-3.0"));
        assert!(!acceptable(""));
    }
}
