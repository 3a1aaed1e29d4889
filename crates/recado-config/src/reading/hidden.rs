//! Parts of a file that must not be shown, although a fault shows its line: secrets, and all comments.
//!
//! In a file that is TOML the [tree](super::tree) knows its values. In one that is not, the ends of values
//! are unknown, so that whole lines are taken for secrets when a word on them, or over them, sounds like one.

use std::ops::Range;

use super::fault::closest;

/// Key names that mark a secret.
const SECRET_WORDS: [&str; 7] = ["token", "key", "api_key", "secret", "password", "auth", "webhook"];

/// Tables whose values are all taken for secrets.
const SECRET_TABLES: [&str; 1] = ["headers"];

/// Returns true for a key name that marks a secret, also a misspelled one: that is when a fault shows its line.
pub fn sounds_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word)) || closest(&name, SECRET_WORDS).is_some()
}

pub fn is_secret_table(name: &str) -> bool {
    closest(name, SECRET_TABLES).is_some()
}

/// An address with an `@` may hold a password, one with a query a key.
pub fn may_hold_a_secret(text: &str) -> bool {
    text.contains('@') || (text.contains("://") && text.contains('?'))
}

/// Comments beside settings.
pub fn comments(text: &str) -> Vec<Range<usize>> {
    lines(text).filter_map(|(start, line)| Some(start + comment(line)?..start + line.len())).collect()
}

/// Possible secrets in a file that is not TOML.
pub fn in_broken(text: &str) -> Vec<Range<usize>> {
    let mut found = comments(text);
    let mut within = false;
    for (start, line) in lines(text) {
        if line.trim_start().starts_with('[') {
            within = words(line).any(is_secret);
        }
        let value = match line.find('=') {
            Some(at) => at + 1,
            None if line.trim_start().starts_with('[') => continue,
            // It goes on from a line before.
            None => 0,
        };
        let is_plain = value > 0 && !within && !line.contains("://") && !may_hold_a_secret(line);
        if !is_plain || words(line).any(is_secret) {
            found.push(start + value..start + line.len());
        }
    }
    found
}

fn is_secret(word: &str) -> bool {
    sounds_secret(word) || is_secret_table(word)
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).filter(|word| word.len() > 2)
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line.trim_end_matches(['\n', '\r'])))
    })
}

/// Position of a line's comment, behind its `#`.
fn comment(line: &str) -> Option<usize> {
    let (mut within, mut escaped) = (None, false);
    for (at, c) in line.char_indices() {
        match (within, c) {
            (Some('"'), '\\') if !escaped => {
                escaped = true;
                continue;
            }
            (Some(quote), c) if c == quote && !escaped => within = None,
            (None, '"' | '\'') => within = Some(c),
            (None, '#') => return Some(at + 1),
            _ => {}
        }
        escaped = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows hidden characters, as many as stand together, as one star.
    fn shown(text: &str, hidden: &[Range<usize>]) -> String {
        let hide = |(at, c)| if hidden.iter().any(|range| range.contains(&at)) { '*' } else { c };
        let mut seen: Vec<char> = text.char_indices().map(hide).collect();
        seen.dedup_by(|a, b| *a == '*' && *b == '*');
        seen.into_iter().collect()
    }

    #[test]
    fn comments_are_hidden_and_what_only_looks_like_one_is_not() {
        let text = "a = 1 # was x\nb = \"#1 \\\" # 2\" # y\nc = '#'\r\n#z";
        assert_eq!(shown(text, &comments(text)), "a = 1 #*\nb = \"#1 \\\" # 2\" #*\nc = '#'\r\n#*");
    }

    #[test]
    fn in_a_broken_file_what_may_be_a_secret_is_hidden_and_the_rest_is_shown() {
        for (line, seen) in [
            ("timeout = 30s", "timeout = 30s"),
            ("[routes.email", "[routes.email"),
            ("passwrod = \"swordfish", "passwrod =*"),
            ("url = \"smtps://me:hunter2", "url =*"),
            ("from = me@example.com", "from =*"),
            ("policy = { api_key = x, base = 5", "policy =*"),
            ("hunter2", "*"),
            ("lease = 5 # hunter2", "lease = 5 #*"),
        ] {
            assert_eq!(shown(line, &in_broken(line)), seen, "{line}");
        }
        let table = "[providers.x.headers]\nX-Pass = hunter2\n[engine]\nlease = 5s";
        let seen = "[providers.x.headers]\nX-Pass =*\n[engine]\nlease = 5s";
        assert_eq!(shown(table, &in_broken(table)), seen);
    }
}
