//! The transport against servers that speak real SMTP and misbehave like real ones, and against a real one.

mod smtp {
    mod codes;
    mod given;
    mod limits;
    mod login;
    mod network;
    mod pool;
    mod recipients;
    mod relay;
    mod secrets;
    mod server;
    mod tls;
}
