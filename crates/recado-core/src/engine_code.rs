//! Error codes that Recado itself gives to a failure. Every other code is a provider's or a worker's word.

use crate::values::named_enum::named_enum;

named_enum! {
    /// A failure that Recado names itself.
    pub enum EngineCode {
        Timeout = "TIMEOUT",
        DnsError = "DNS_ERROR",
        TlsError = "TLS_ERROR",
        ConnectionError = "CONNECTION_ERROR",
        ConnectionLost = "CONNECTION_LOST",
        ProtocolError = "PROTOCOL_ERROR",
        /// The transport panicked.
        Panic = "PANIC",
        /// This process lacked descriptors, memory or another resource.
        LocalShortage = "LOCAL_SHORTAGE",
        InvalidPayload = "INVALID_PAYLOAD",
        PayloadCorrupt = "PAYLOAD_CORRUPT",
        /// The job's time to live ended while it waited.
        Expired = "EXPIRED",
        /// The provider that may have taken the job is no longer on its route.
        ProviderGone = "PROVIDER_GONE",
        CircuitOpen = "CIRCUIT_OPEN",
        RateLimited = "RATE_LIMITED",
        Paused = "PAUSED",
        /// All slots of a provider or a company are taken.
        Busy = "BUSY",
        StoreUnavailable = "STORE_UNAVAILABLE",
        LeaseLost = "LEASE_LOST",
        /// The processes that delivered the job kept vanishing.
        Poison = "POISON",
        EndpointUnknown = "ENDPOINT_UNKNOWN",
        EndpointDisabled = "ENDPOINT_DISABLED",
        /// The guard for webhook addresses refused the address.
        AddressRefused = "ADDRESS_REFUSED",
    }
}
