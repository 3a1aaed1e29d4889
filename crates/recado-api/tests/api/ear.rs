//! A listener on the stream of events that reads it to the letter.

use std::collections::VecDeque;

use serde_json::Value;

use crate::given::{PATIENCE, Server};

#[derive(Debug)]
pub struct Ear {
    response: reqwest::Response,
    text: String,
}

/// One block of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub id: Option<String>,
    pub event: String,
    pub data: Value,
}

impl Ear {
    /// Listens; what happens from now on is heard.
    pub async fn open(server: &Server, query: &str) -> Ear {
        Ear::after(server, query, None).await
    }

    pub async fn after(server: &Server, query: &str, last_event_id: Option<&str>) -> Ear {
        let mut request = server.http.get(server.url(&format!("/v1/events{query}")));
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Ear { response, text: String::new() }
    }

    pub fn header(&self, name: &str) -> &str {
        self.response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The next block as it stands, signs of life included; `None` at the end.
    pub async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let more = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("nothing is said");
            self.text.push_str(std::str::from_utf8(&more.unwrap()?).unwrap());
        }
    }

    /// The next thing said that is not just a sign of life.
    pub async fn next(&mut self) -> Said {
        loop {
            let block = self.block().await.expect("the stream has ended");
            if !block.starts_with(':') {
                return read(&block);
            }
        }
    }

    /// Skips to the next event of a kind.
    pub async fn until(&mut self, event: &str) -> Said {
        loop {
            let said = self.next().await;
            if said.event == event {
                return said;
            }
        }
    }
}

fn read(block: &str) -> Said {
    let mut lines: VecDeque<&str> = block.lines().collect();
    let mut field = |name: &str| {
        let value = lines.front()?.strip_prefix(name)?.strip_prefix(": ")?;
        lines.pop_front();
        Some(value)
    };
    let id = field("id").map(str::to_owned);
    let event = field("event").expect(block).to_owned();
    let data = serde_json::from_str(field("data").expect(block)).unwrap();
    assert!(lines.is_empty(), "data is one line: {block}");
    Said { id, event, data }
}
