//! The words of an error that may be shown: those that are about the error, not about a person.
//!
//! No list of names is complete, so a word has to earn its place. It is shown only where the answers about at least
//! [`SUBJECTS_MIN`] jobs of different recipients or companies all say it, where it has letters alone, and where it
//! resembles nothing in the payloads, the companies, the users and the correlation ids of these jobs. A word that is
//! short, or has a capital, must also be one of [`ERROR_WORDS`]. `…` replaces everything else.

use std::collections::HashSet;
use std::sync::LazyLock;

use recado_core::Payload;
use recado_core::redact::Speaker;
use serde_json::Value;

/// Jobs of different recipients or companies at least, before words of their answers are shown.
const SUBJECTS_MIN: usize = 3;

/// Letters at least of a word that is not one of [`ERROR_WORDS`]: shorter ones are often names or initials.
const WORD_LEN_MIN: usize = 4;

/// Letters at least of the words that a rule looks for.
const TEXT_LETTERS_MIN: usize = 4;

/// Bytes at most of the words that a rule looks for.
const TEXT_LEN_MAX: usize = 80;

/// Characters at most of an example.
const EXAMPLE_LEN_MAX: usize = 200;

/// Digits at most of a code: numbers of people and accounts are longer.
const CODE_DIGITS_MAX: usize = 5;

/// Characters at most of a code.
const CODE_LEN_MAX: usize = 64;

/// Words of a payload's value at most that are compared as one word as well.
const JOINED_WORDS_MAX: usize = 5;

/// The member of a sandbox job's data that the sandbox repeats.
const SCRIPT: &str = "script";

/// The payload of a job that no longer has one.
const GONE: &str = "null";

/// Replaces what is not shown.
const LEFT_OUT: &str = "…";

/// Members of a payload that say to whom it goes.
const RECIPIENT_KEYS: [&str; 9] =
    ["to", "cc", "bcc", "number", "phone", "email", "recipient", "recipients", "address"];

/// Words that are about errors whatever the payload says, folded.
static ERROR_WORDS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| include_str!("error_words.txt").split_whitespace().collect());

/// A provider's answer about one job.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub company: &'a str,
    pub user_id: Option<&'a str>,
    pub correlation_id: Option<&'a str>,
    pub data: &'a Payload,
    pub speaker: Speaker,
    /// Empty where the provider said nothing but the code.
    pub text: &'a str,
}

/// The parts of an error that hold nothing personal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skeleton {
    pub code: Option<Box<str>>,
    /// Words that stand in a row in every answer.
    pub text: Option<Box<str>>,
    /// One answer, with `…` where something is left out.
    pub example: Option<String>,
    /// The answers are about jobs of several recipients, or companies where the payloads name no recipient.
    pub is_of_several: bool,
}

impl Skeleton {
    /// Compares the answers about several jobs, all of the same error.
    pub fn of(code: Option<&str>, answers: &[Answer<'_>]) -> Self {
        let jobs: Vec<_> = answers.iter().map(JobWords::of).collect();
        let mut known: Vec<&str> = jobs.iter().flat_map(|job| &job.words).map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        let code = code.filter(|code| !answers.is_empty() && is_plain_code(code, &known)).map(Into::into);
        if !are_different(answers, &jobs) {
            return Skeleton { code, ..Skeleton::default() };
        }
        let Some((first, others)) = answers.split_first() else { return Skeleton::default() };
        let others: Vec<_> = others.iter().map(|answer| answer.text.to_ascii_lowercase()).collect();
        let said: Vec<HashSet<String>> =
            others.iter().map(|text| words(text).map(|word| fold(word.text)).collect()).collect();
        let is_shown = |word: &Word<'_>| {
            let folded = fold(word.text);
            is_plain_word(word.text, &folded)
                && said.iter().all(|words| words.contains(&folded))
                && !resembles_any(&folded, &known)
        };
        let shown: Vec<_> = words(first.text).map(|word| (is_shown(&word), word)).collect();
        let runs = runs(first.text, &shown);
        let text = runs.iter().filter_map(|run| common_part(first.text, run, &others));
        let text = text.max_by_key(|text| text.len()).map(Into::into);
        Skeleton { code, text, example: example(first.text, &runs), is_of_several: true }
    }
}

/// Returns true if enough of the jobs are of recipients or companies that differ from each other's.
fn are_different(answers: &[Answer<'_>], jobs: &[JobWords]) -> bool {
    let mut subjects: Vec<(&str, &HashSet<String>)> = Vec::new();
    // The payload of a job that was delivered is gone: nothing tells what is personal in its answers.
    let has_payload = |(answer, _): &(&Answer<'_>, &JobWords)| answer.data.as_str() != GONE;
    for (answer, job) in answers.iter().zip(jobs).filter(has_payload) {
        let is_new = subjects.iter().all(|(company, recipients)| {
            match recipients.is_empty() || job.recipients.is_empty() {
                true => *company != answer.company,
                false => recipients.is_disjoint(&job.recipients),
            }
        });
        if is_new {
            subjects.push((answer.company, &job.recipients));
        }
    }
    subjects.len() >= SUBJECTS_MIN
}

/// The words of a job, folded: of its payload, its company, its user and its correlation id.
#[derive(Debug, Default)]
struct JobWords {
    words: HashSet<String>,
    recipients: HashSet<String>,
}

impl JobWords {
    fn of(answer: &Answer<'_>) -> Self {
        let mut known = JobWords::default();
        for name in [Some(answer.company), answer.user_id, answer.correlation_id].into_iter().flatten() {
            known.learn_text(name);
        }
        match answer.data.parse::<Value>() {
            Ok(Value::Object(mut members)) => {
                if answer.speaker == Speaker::Script {
                    members.remove(SCRIPT);
                }
                known.learn(&Value::Object(members), false);
            }
            Ok(value) => known.learn(&value, false),
            Err(_) => {}
        }
        known
    }

    fn learn(&mut self, value: &Value, is_recipient: bool) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item, is_recipient)),
            Value::Object(members) => {
                for (name, member) in members {
                    self.learn_text(name);
                    let names_one = RECIPIENT_KEYS.contains(&name.to_lowercase().as_str());
                    self.learn(member, is_recipient || names_one);
                }
            }
            Value::String(text) => {
                self.learn_text(text);
                self.recipients.extend(is_recipient.then(|| letters_and_digits(text)));
            }
            Value::Number(number) => {
                self.words.insert(number.to_string());
                self.recipients.extend(is_recipient.then(|| number.to_string()));
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn learn_text(&mut self, text: &str) {
        let words: Vec<_> = text.split(|letter: char| !is_word_letter(letter)).map(fold).collect();
        if words.iter().filter(|word| !word.is_empty()).count() <= JOINED_WORDS_MAX {
            self.words.insert(words.concat());
        }
        self.words.extend(words);
        self.words.remove("");
    }
}

/// A combining accent belongs to the letter before it.
fn is_word_letter(letter: char) -> bool {
    letter.is_alphanumeric() || is_combining(letter)
}

fn is_combining(letter: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&letter)
}

fn letters_and_digits(text: &str) -> String {
    fold(text).chars().filter(|letter| letter.is_alphanumeric()).collect()
}

/// Writes a word in small letters without accents.
fn fold(word: &str) -> String {
    let plain = |letter: char| match letter {
        'á' | 'à' | 'â' | 'ã' | 'ä' | 'å' => 'a',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'í' | 'ì' | 'î' | 'ï' => 'i',
        'ó' | 'ò' | 'ô' | 'õ' | 'ö' | 'ø' => 'o',
        'ú' | 'ù' | 'û' | 'ü' => 'u',
        'ç' => 'c',
        'ñ' => 'n',
        other => other,
    };
    word.chars().flat_map(char::to_lowercase).map(plain).filter(|letter| !is_combining(*letter)).collect()
}

/// A word of an answer, and its place.
#[derive(Clone, Copy, Debug)]
struct Word<'t> {
    text: &'t str,
    start: usize,
}

/// The words of a text, in their order. What holds an address, the name of a host or a link is one word.
fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    let is_data = |part: &str| part.contains(['@', '%', '=', '&', '\\', '/']);
    text.split_whitespace()
        .flat_map(move |part| {
            let of_part = |letter: char| !is_data(part) && "{}[]()<>\"'`,:;!?".contains(letter);
            part.split(of_part).map(|word| word.trim_matches('.')).collect::<Vec<_>>()
        })
        .filter(|word| !word.is_empty())
        .map(|word| Word { text: word, start: word.as_ptr().addr() - text.as_ptr().addr() })
}

/// Returns true for a word that looks like no data.
fn is_plain_word(word: &str, folded: &str) -> bool {
    if ERROR_WORDS.contains(&folded) {
        return true;
    }
    word.chars().all(|letter| letter.is_lowercase()) && folded.chars().count() >= WORD_LEN_MIN
}

/// Returns true for a code that looks like no data.
fn is_plain_code(code: &str, known: &[&str]) -> bool {
    if code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    let is_of_code = |letter: char| letter.is_ascii_alphanumeric() || "_.:-".contains(letter);
    code.len() <= CODE_LEN_MAX
        && code.chars().all(is_of_code)
        && code.chars().filter(char::is_ascii_digit).count() <= CODE_DIGITS_MAX
        && code_parts(code).all(|part| !resembles_any(&fold(part), known))
        && !known.contains(&letters_and_digits(code).as_str())
}

/// The words that a code is made of: `USER_UNKNOWN` and `UserUnknown` have two.
fn code_parts(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !letter.is_alphanumeric()).flat_map(|part| {
        let mut before = 'A';
        let mut ends = Vec::new();
        for (at, letter) in part.char_indices() {
            if before.is_lowercase() && letter.is_uppercase() {
                ends.push(at);
            }
            before = letter;
        }
        let starts = [0].into_iter().chain(ends.clone());
        let ends = ends.clone().into_iter().chain([part.len()]);
        starts.zip(ends).map(|(from, to)| &part[from..to]).collect::<Vec<_>>()
    })
}

/// Returns true if a job has the word, in this spelling or one near it.
fn resembles_any(word: &str, known: &[&str]) -> bool {
    !ERROR_WORDS.contains(&word) && known.iter().any(|known| resembles(word, known))
}

fn resembles(word: &str, known: &str) -> bool {
    if word == known {
        return true;
    }
    let shorter = word.chars().count().min(known.chars().count());
    let typos = match shorter {
        0..WORD_LEN_MIN => return false,
        WORD_LEN_MIN..7 => 1,
        _ => 2,
    };
    word.contains(known) || known.contains(word) || strsim::osa_distance(word, known) <= typos
}

/// The stretches of words that are shown, with only spaces and punctuation between them.
fn runs<'t>(text: &str, words: &[(bool, Word<'t>)]) -> Vec<Vec<Word<'t>>> {
    let mut runs: Vec<Vec<Word<'_>>> = vec![Vec::new()];
    for (is_shown, word) in words {
        let Some(run) = runs.last_mut() else { continue };
        let is_next = run.last().is_none_or(|last| {
            text[last.start + last.text.len()..word.start].chars().all(|letter| " ,:;.'".contains(letter))
        });
        match (is_shown, is_next) {
            (true, true) => run.push(*word),
            (true, false) => runs.push(vec![*word]),
            (false, _) => runs.push(Vec::new()),
        }
    }
    runs
}

fn slice<'t>(text: &'t str, run: &[Word<'_>]) -> &'t str {
    match (run.first(), run.last()) {
        (Some(first), Some(last)) => &text[first.start..last.start + last.text.len()],
        _ => "",
    }
}

/// The longest part of a run that stands in all the other answers, in small letters, just so.
fn common_part<'t>(text: &'t str, run: &[Word<'_>], others: &[String]) -> Option<&'t str> {
    let parts =
        (0..run.len()).flat_map(|from| (from + 1..=run.len()).map(move |to| slice(text, &run[from..to])));
    let is_common = |part: &&str| {
        let small = part.to_ascii_lowercase();
        part.len() <= TEXT_LEN_MAX
            && part.chars().filter(|letter| letter.is_alphabetic()).count() >= TEXT_LETTERS_MIN
            && others.iter().all(|text| text.contains(&small))
    };
    parts.filter(is_common).max_by_key(|part| part.len())
}

fn example(text: &str, runs: &[Vec<Word<'_>>]) -> Option<String> {
    let mut shown = String::new();
    let mut end = 0;
    for run in runs.iter().filter(|run| !run.is_empty()) {
        let part = slice(text, run);
        if shown.chars().count() + part.chars().count() > EXAMPLE_LEN_MAX {
            break;
        }
        let start = run[0].start;
        if !text[end..start].trim().is_empty() {
            shown.push_str(if shown.is_empty() { LEFT_OUT } else { " …" });
        }
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str(part);
        end = start + part.len();
    }
    if shown.is_empty() {
        return None;
    }
    if !text[end..].trim_matches([' ', '.', ',', ':', ';', '!']).is_empty() {
        shown.push_str(" …");
    }
    Some(shown)
}
