//! The provider of `recado doctor --chaos`: takes everything, and notes which process brought it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// By the job's id: the life of the server in each delivery, in the order they came.
type Deliveries = BTreeMap<String, Vec<u32>>;

pub struct Sink {
    address: SocketAddr,
    deliveries: Rc<RefCell<Deliveries>>,
}

impl Sink {
    /// Starts it on a loopback port, as a task of the local set.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let deliveries = Rc::new(RefCell::new(Deliveries::new()));
        let noting = deliveries.clone();
        tokio::task::spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let noting = noting.clone();
                // A conversation ends with the process that is killed.
                tokio::task::spawn_local(async move { converse(stream, &noting).await.ok() });
            }
        });
        Ok(Sink { address, deliveries })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn deliveries(&self) -> Deliveries {
        self.deliveries.borrow().clone()
    }
}

async fn converse(stream: TcpStream, deliveries: &RefCell<Deliveries>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut key, mut life, mut length) = (String::new(), 0, 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let Some((name, value)) = line.trim_end().split_once(':') else {
                if line.trim_end().is_empty() { break } else { continue }
            };
            match name.to_ascii_lowercase().as_str() {
                "idempotency-key" => key = value.trim().to_owned(),
                "x-life" => life = value.trim().parse().unwrap_or(0),
                "content-length" => length = value.trim().parse().unwrap_or(0),
                _ => {}
            }
        }
        // Only a whole request is a delivery.
        let read = tokio::io::copy(&mut (&mut stream).take(length), &mut tokio::io::sink()).await?;
        if read < length {
            return Ok(());
        }
        deliveries.borrow_mut().entry(key).or_default().push(life);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await?;
    }
}
