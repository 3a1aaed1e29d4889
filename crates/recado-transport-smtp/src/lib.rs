//! Delivery by SMTP: our own transaction and pool over lettre's connection.
