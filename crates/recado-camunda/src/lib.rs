//! Seed 003's rule as a job worker for Camunda 8 and an external-task worker for Camunda 7.
