//! The address of SES in a region.

use aws_config::SdkConfig;
use aws_types::service_config::ServiceConfigKey;
use recado_core::Fault;
use recado_transport::Url;

/// Domains of the regions whose names begin so: the usual one, and the one that IPv6 reaches too. The last is that
/// of every other region.
const DOMAINS: [(&str, &str, &str); 7] = [
    ("cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    ("eusc-", "amazonaws.eu", "api.amazonwebservices.eu"),
    ("us-iso-", "c2s.ic.gov", "api.aws.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov", "api.aws.scloud"),
    ("eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
    ("us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"),
    ("", "amazonaws.com", "api.aws"),
];

/// Returns the address that AWS's chain names for SES, or else the region's own.
pub(crate) fn of_region(region: &str, found: Option<&SdkConfig>) -> Result<Url, Fault> {
    let address = found.and_then(configured).unwrap_or_else(|| {
        let is_set = |setting: fn(&SdkConfig) -> Option<bool>| found.and_then(setting).unwrap_or_default();
        own(region, is_set(SdkConfig::use_fips), is_set(SdkConfig::use_dual_stack))
    });
    address
        .parse()
        .map_err(|_| Fault::answer("EndpointInvalid", "the endpoint that AWS's chain names is not a URL"))
}

/// Reads AWS_ENDPOINT_URL_SESV2, AWS_ENDPOINT_URL and what the profile says about them.
fn configured(found: &SdkConfig) -> Option<String> {
    let key = ServiceConfigKey::builder().service_id("SESv2").env("AWS_ENDPOINT_URL").profile("endpoint_url");
    let for_ses = found.service_config().zip(key.build().ok()).and_then(|(all, key)| all.load_config(key));
    for_ses.or_else(|| found.endpoint_url().map(str::to_owned))
}

fn own(region: &str, fips: bool, dual_stack: bool) -> String {
    let service = if fips { "email-fips" } else { "email" };
    let of_region = DOMAINS.iter().find(|(prefix, ..)| region.starts_with(prefix));
    let domain = of_region.map_or("", |(_, usual, both)| if dual_stack { both } else { usual });
    format!("https://{service}.{region}.{domain}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regions_address_is_that_of_its_partition() {
        for (region, fips, dual_stack, address) in [
            ("sa-east-1", false, false, "https://email.sa-east-1.amazonaws.com"),
            ("us-east-1", true, false, "https://email-fips.us-east-1.amazonaws.com"),
            ("us-east-1", true, true, "https://email-fips.us-east-1.api.aws"),
            ("us-gov-west-1", false, false, "https://email.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", false, false, "https://email.cn-north-1.amazonaws.com.cn"),
            ("cn-north-1", false, true, "https://email.cn-north-1.api.amazonwebservices.com.cn"),
            ("us-isob-east-1", true, false, "https://email-fips.us-isob-east-1.sc2s.sgov.gov"),
            ("us-iso-east-1", false, false, "https://email.us-iso-east-1.c2s.ic.gov"),
        ] {
            assert_eq!(own(region, fips, dual_stack), address);
        }
    }

    #[test]
    fn an_address_of_the_chain_comes_before_the_regions_own() {
        let found = SdkConfig::builder().endpoint_url("http://ses.example:81/aws").build();
        let url = of_region("sa-east-1", Some(&found)).expect("a URL");
        assert_eq!(url.as_str(), "http://ses.example:81/aws");
    }
}
