//! The test kit's SMTP server, plain or with TLS.

use std::io::{self, Read, Write};
use std::ops::Deref;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use recado_testkit::smtp::{Greeting, SmtpServer, Socket, Tls, Wrap};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

pub use recado_testkit::smtp::{Mail, SmtpAct, cut, say};

pub struct Server {
    pub port: u16,
    pub certificate_pem: String,
    smtp: SmtpServer,
}

impl Deref for Server {
    type Target = SmtpServer;

    fn deref(&self) -> &SmtpServer {
        &self.smtp
    }
}

impl Server {
    /// A plain server that offers what real ones do.
    pub fn start() -> Server {
        Server::offering(&["PIPELINING", "SIZE 50000000", "8BITMIME", "ENHANCEDSTATUSCODES"])
    }

    pub fn offering(offers: &[&'static str]) -> Server {
        Server::listen(|_| Tls::No, offers, "localhost")
    }

    pub fn with_start_tls(offers: &[&'static str]) -> Server {
        Server::listen(Tls::Offered, offers, "localhost")
    }

    pub fn with_tls(offers: &[&'static str]) -> Server {
        Server::listen(Tls::Implicit, offers, "localhost")
    }

    /// Its certificate is about another name.
    pub fn with_tls_for(name: &str) -> Server {
        Server::listen(Tls::Implicit, &[], name)
    }

    fn listen(tls: fn(Arc<Wrap>) -> Tls, offers: &[&'static str], name: &str) -> Server {
        let (certificate_pem, config) = certificate(name);
        let tls = tls(Arc::new(move |socket| TlsSocket::accept(socket, config.clone())));
        let smtp = SmtpServer::start(Greeting { name: "localhost", offers: offers.to_vec(), tls });
        Server { port: smtp.address().port(), certificate_pem, smtp }
    }
}

fn certificate(name: &str) -> (String, Arc<ServerConfig>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("a TLS server");
    (cert.pem(), Arc::new(config))
}

struct TlsSocket(StreamOwned<ServerConnection, Box<dyn Socket>>);

impl TlsSocket {
    fn accept(mut socket: Box<dyn Socket>, config: Arc<ServerConfig>) -> io::Result<Box<dyn Socket>> {
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(Box::new(TlsSocket(StreamOwned::new(connection, socket))))
    }
}

impl Read for TlsSocket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for TlsSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Socket for TlsSocket {
    fn will_reset(&self) {
        self.0.sock.will_reset();
    }

    fn close(&mut self) -> io::Result<()> {
        self.0.conn.send_close_notify();
        self.0.flush()
    }
}
