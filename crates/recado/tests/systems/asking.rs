//! Requests with headers of the test's choice.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Status and body as they came. An old version of HTTP knows no pieces.
pub fn ask_with(
    address: SocketAddr,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let mut head =
        format!("{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, body.to_owned())
}

pub const JSON: (&str, &str) = ("content-type", "application/json");
