//! New inputs from kept ones.

use recado_core::Random;
use serde_json::{Value, json};

use crate::INPUT_MAX_BYTES;

/// Words that are rarely handled well.
const WORDS: [&str; 20] = [
    "",
    "\0",
    "\r\n",
    "\u{2028}",
    "é",
    "\u{1f680}",
    "-1",
    "0",
    "1e309",
    "9223372036854775808",
    "18446744073709551616",
    "null",
    "{}",
    "[]",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "9999-12-31T23:59:59Z",
    "%00",
];

/// Changes made to one input at most.
const CHANGES_MAX: usize = 6;

/// Makes an input of the kept ones.
pub fn mutate(kept: &[Vec<u8>], words: &[&str], random: &Random) -> Vec<u8> {
    let any =
        |bytes: &[Vec<u8>]| bytes.get(random.next_index(bytes.len().max(1))).cloned().unwrap_or_default();
    let mut input = any(kept);
    for _ in 0..=random.next_index(CHANGES_MAX) {
        let at = random.next_index(input.len() + 1);
        let to = (at + random.next_index(17)).min(input.len());
        match random.next_index(10) {
            0 if at < input.len() => input[at] ^= 1 << random.next_index(8),
            1 if at < input.len() => input[at] = random.next_u64().to_le_bytes()[0],
            2 => drop(input.splice(at..to, WORDS[random.next_index(WORDS.len())].bytes())),
            3 | 4 if !words.is_empty() => {
                drop(input.splice(at..at, words[random.next_index(words.len())].bytes()));
            }
            5 => drop(input.drain(at..to)),
            6 => {
                let part = input[at..to].repeat(1 + random.next_index(40));
                input.splice(at..at, part);
            }
            7 => {
                let other = any(kept);
                let from = random.next_index(other.len() + 1);
                input.splice(at.., other[from..].iter().copied());
            }
            8 => swap_lines(&mut input, random),
            _ => change_json(&mut input, random),
        }
        input.truncate(INPUT_MAX_BYTES);
    }
    input
}

/// Exchanges two lines, or repeats one.
fn swap_lines(input: &mut Vec<u8>, random: &Random) {
    let mut lines: Vec<Vec<u8>> = input.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    if lines.len() > 1 {
        let (one, other) = (random.next_index(lines.len()), random.next_index(lines.len()));
        match random.next_index(2) {
            0 => lines.swap(one, other),
            _ => lines.insert(one, lines[other].clone()),
        }
        *input = lines.concat();
    }
}

/// Replaces one value of a JSON text, at any depth.
fn change_json(input: &mut Vec<u8>, random: &Random) {
    let Ok(mut whole) = serde_json::from_slice::<Value>(input) else { return };
    replace_somewhere(&mut whole, random);
    *input = whole.to_string().into_bytes();
}

fn replace_somewhere(value: &mut Value, random: &Random) {
    let goes_deeper = random.next_index(3) > 0;
    match value {
        Value::Array(items) if !items.is_empty() && goes_deeper => {
            let at = random.next_index(items.len());
            replace_somewhere(&mut items[at], random);
        }
        Value::Object(members) if !members.is_empty() && goes_deeper => {
            let at = random.next_index(members.len());
            members.values_mut().skip(at).take(1).for_each(|member| replace_somewhere(member, random));
        }
        _ => *value = strange_value(random),
    }
}

fn strange_value(random: &Random) -> Value {
    match random.next_index(10) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(1e300),
        5 => json!([[[[]]]]),
        6 => json!({"": {}}),
        7 => json!("x".repeat(random.next_index(2_000))),
        8 => json!(WORDS[random.next_index(WORDS.len())]),
        _ => json!([null, 0, ""]),
    }
}
