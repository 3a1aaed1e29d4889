//! The dashboard: the files of `dashboard/`, and the runbooks that its alerts point at, in the binary, at `/`.
//!
//! They speak only the API, so nothing is rendered here and nothing is secret: a reader without access to the API
//! sees an empty frame. What the browser may do with them is bounded by a policy: their own scripts and
//! styles, this server, and no markup made from text, whatever a payload says.
//!
//! Deliberately absent: a build step, compression, files read at run time.

use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::IntoResponse;
use recado_core::payload::digest_of;

use crate::answer::{ApiError, ApiResult, shown_name};
use crate::extract::TwoPathSegments;
use crate::handlers::probes;
use crate::openapi::{GateProblems, NoSuchFile};

/// The last two make the browser itself refuse what would turn text into markup or script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../dashboard/", $name))),)*]
    };
}

/// Every file by its name; a test holds the list and the folder together.
const FILES: &[(&str, &str)] = files! {
    "index.html"
    "frame/api.js" "frame/dom.js" "frame/format.js" "frame/json_text.js" "frame/keys.js" "frame/live.js"
    "frame/main.js" "frame/page.js" "frame/words.js"
    "pages/alert.js" "pages/alerts.js" "pages/audit.js" "pages/dead_letter.js" "pages/dlq.js"
    "pages/endpoints.js" "pages/find.js" "pages/job.js" "pages/jobs.js" "pages/kpis.js" "pages/overview.js"
    "pages/policies.js" "pages/providers.js" "pages/tenants.js"
    "parts/alert.js" "parts/breaker.js" "parts/bulk.js" "parts/chart.js" "parts/chips.js" "parts/course.js"
    "parts/dialog.js" "parts/disclosure.js" "parts/editor.js" "parts/lifeline.js" "parts/list.js"
    "parts/markdown.js" "parts/pause.js" "parts/retry_curve.js" "parts/simulation.js" "parts/table.js"
    "parts/timeline.js" "parts/waiting.js"
    "style/base.css" "style/charts.css" "style/frame.css" "style/icon.svg" "style/pages.css"
    "style/parts.css"
    "words/en.js" "words/pt.js"
};

/// The page for each alert, as the documents have it: one text for readers here and there.
const RUNBOOKS: &[(&str, &str)] = &[
    ("runbooks/en.md", include_str!("../../../docs/operating/alerts.md")),
    ("runbooks/pt.md", include_str!("../../../docs/operating/alerts.pt-BR.md")),
];

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// The dashboard for browsers, a few lines of text for clients that do not ask for HTML.
#[utoipa::path(
    get, path = "/", tag = "probes", operation_id = "getDashboard",
    responses(
        (status = 200, content((String = "text/html"), (String = "text/plain"))),
        (status = 304, description = "Unchanged since it was sent with this ETag."),
        GateProblems,
    )
)]
pub async fn index(headers: HeaderMap) -> ApiResult {
    let wanted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if wanted.into_iter().any(|types| types.contains("text/html")) {
        return file("index.html", &headers);
    }
    let mut response = probes::root().await;
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// A file of the dashboard.
#[utoipa::path(
    get, path = "/dashboard/{folder}/{file}", tag = "probes", operation_id = "getDashboardFile",
    params(("folder" = String, Path), ("file" = String, Path)),
    responses(
        (status = 200, description = "As it is.", content((String = "text/javascript"), (String = "text/css"), (String = "image/svg+xml"), (String = "text/plain"))),
        (status = 304, description = "Unchanged since it was sent with this ETag."),
        NoSuchFile,
        GateProblems,
    )
)]
pub async fn asset(TwoPathSegments(folder, name): TwoPathSegments, headers: HeaderMap) -> ApiResult {
    file(&format!("{folder}/{name}"), &headers)
}

/// Requested anew each time and sent only when it has changed: after an update no page mixes old and new
/// files.
fn file(name: &str, asked: &HeaderMap) -> ApiResult {
    let Some((_, text)) = FILES.iter().chain(RUNBOOKS).find(|(known, _)| *known == name) else {
        let name = shown_name(name);
        return Err(ApiError::not_found(format!("the dashboard has no file `{name}`")));
    };
    let tag = format!("\"{:032x}\"", digest_of(&[text]));
    let known = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|tags| tags.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    });
    let mut response = if is_known { StatusCode::NOT_MODIFIED.into_response() } else { text.into_response() };
    let headers = response.headers_mut();
    let fixed = [
        (CONTENT_TYPE, content_type(name)),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
        (VARY, "accept"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.extend(HeaderValue::try_from(tag).ok().map(|tag| (ETAG, tag)));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use recado_core::AuditKind;

    use super::*;

    fn folder() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboard")
    }

    #[test]
    fn every_file_of_the_folder_is_in_the_binary() {
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(folder()).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if entry.path().is_file() {
                found.insert(name);
                continue;
            }
            for file in std::fs::read_dir(entry.path()).unwrap().map(Result::unwrap) {
                found.insert(format!("{name}/{}", file.file_name().into_string().unwrap()));
            }
        }
        let listed: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(found, listed);
    }

    #[test]
    fn nothing_refers_to_a_file_that_is_not_there_nor_to_another_host() {
        for (name, text) in FILES {
            for quoted in text.split(['"', '\'', '(', ')']).filter(|part| part.starts_with("/dashboard/")) {
                let wanted = &quoted["/dashboard/".len()..];
                let mut all = FILES.iter().chain(RUNBOOKS);
                assert!(all.any(|(known, _)| *known == wanted), "{name} refers to {quoted}");
            }
            let hosts = text.matches("://").count();
            let namespaces = text.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(hosts, namespaces + text.matches("\"https://\"").count(), "{name} names another host");
        }
    }

    #[test]
    fn the_policy_has_nothing_to_refuse_in_our_own_files() {
        for (name, text) in FILES {
            for refused in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!text.contains(refused), "{name} uses {refused}");
            }
            if name.ends_with(".html") {
                let inline = text.contains("<style") || text.contains(" style=") || text.contains("<script>");
                assert!(!inline, "{name} has a style or a script inside");
            }
        }
    }

    /// Keys of a file of words, in its order.
    fn keys(name: &str) -> Vec<String> {
        let (_, text) = FILES.iter().find(|(known, _)| *known == name).unwrap();
        let key = |line: &str| Some(line.trim_start().strip_prefix('"')?.split_once("\": ")?.0.to_owned());
        text.lines().filter_map(key).collect()
    }

    #[test]
    fn both_languages_say_the_same_things() {
        let (english, portuguese) = (keys("words/en.js"), keys("words/pt.js"));
        assert!(english.len() > 300, "{} keys: the reading of the files is broken", english.len());
        assert_eq!(english, portuguese);
    }

    #[test]
    fn every_kind_of_audit_record_has_words_and_can_be_searched_for() {
        let words: BTreeSet<String> = keys("words/en.js").into_iter().collect();
        let (_, page) = FILES.iter().find(|(name, _)| *name == "pages/audit.js").unwrap();
        let (_, kinds) = page.split_once("const KINDS = [").unwrap();
        let (kinds, _) = kinds.split_once("];").unwrap();
        for kind in AuditKind::ALL {
            let name = kind.as_str();
            assert!(words.contains(&format!("audit.{name}")), "words/en.js lacks `audit.{name}`");
            assert!(kinds.contains(&format!("\"{name}\"")), "`KINDS` of pages/audit.js lacks {name}");
        }
    }

    #[test]
    fn every_word_that_a_page_asks_for_exists() {
        let known: BTreeSet<String> = keys("words/en.js").into_iter().collect();
        let mut asked = 0;
        for (name, text) in FILES.iter().filter(|(name, _)| name.ends_with(".js")) {
            for (at, call) in text.match_indices("t(\"") {
                let key = text[at + call.len()..].split('"').next().unwrap_or_default();
                if text[..at].ends_with(|before: char| before.is_alphanumeric()) {
                    continue;
                }
                asked += 1;
                assert!(known.contains(key), "{name} asks for `{key}`");
            }
        }
        assert!(asked > 200, "{asked} words asked for: the reading of the files is broken");
    }

    #[tokio::test]
    async fn a_browser_gets_the_dashboard_and_a_terminal_gets_text() {
        let asks_for = async |accept: &'static str| {
            let mut asked = HeaderMap::new();
            asked.insert(ACCEPT, HeaderValue::from_static(accept));
            let answer = index(asked).await.unwrap();
            (answer.headers()[CONTENT_TYPE].clone(), answer.headers().contains_key(CONTENT_SECURITY_POLICY))
        };
        let browser = asks_for("text/html,application/xhtml+xml,*/*;q=0.8").await;
        assert_eq!(browser, (HeaderValue::from_static("text/html; charset=utf-8"), true));
        assert_eq!(asks_for("*/*").await.0, "text/plain; charset=utf-8");
    }

    #[test]
    fn a_file_that_the_browser_has_is_not_sent_again() {
        let first = file("index.html", &HeaderMap::new()).unwrap();
        assert_eq!(first.status(), StatusCode::OK);
        let mut asked = HeaderMap::new();
        asked.insert(IF_NONE_MATCH, first.headers()[ETAG].clone());
        let again = file("index.html", &asked).unwrap();
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(again.headers()[ETAG], first.headers()[ETAG]);
        asked.insert(IF_NONE_MATCH, HeaderValue::from_static("\"another\""));
        assert_eq!(file("index.html", &asked).unwrap().status(), StatusCode::OK);
    }
}
