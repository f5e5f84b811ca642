//! Which addresses may be called. Names are nothing: what counts is the address that is really connected to.
//!
//! A name that an attacker owns can point anywhere, and elsewhere a moment later. So the check is on the addresses that the
//! connection is then made to, and nothing resolves a second time. Everything that is not a public unicast address is refused
//! unless `allow_private` lists it: loopback and private networks, where services trust anyone who reaches them, and link-local
//! addresses, where clouds hand out credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    first: IpAddr,
    prefix: u8,
}

/// Text that is no range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a range of addresses")]
pub struct NotACidr(String);

impl NotACidr {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some("write one address with the length of its prefix, such as 10.0.0.0/8".to_owned())
    }
}

impl Cidr {
    /// Whether an address is in it. IPv4 and IPv6 have nothing in common here: addresses come in already unwrapped.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.prefix);
                (u32::from(first) ^ u32::from(address)).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(self.prefix);
                (u128::from(first) ^ u128::from(address)).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = NotACidr;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || NotACidr(text.chars().take(80).collect());
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let first: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if first.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= longest).ok_or_else(wrong)?;
        Ok(Self { first, prefix })
    }
}

/// An address that is not public, and not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAllowed(pub IpAddr);

/// Whether an address may be called; `Ok(true)` where it is one that was listed, `Ok(false)` where it is public.
pub fn check(address: IpAddr, listed: &[Cidr]) -> Result<bool, NotAllowed> {
    let address = address.to_canonical();
    if listed.iter().any(|range| range.contains(address)) {
        return Ok(true);
    }
    let is_public = match address {
        IpAddr::V4(v4) => is_public(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    };
    if is_public { Ok(false) } else { Err(NotAllowed(address)) }
}

fn is_public(address: Ipv4Addr) -> bool {
    let [a, b, c, d] = address.octets();
    match (a, b, c, d) {
        // This host, and loopback.
        (0 | 127, ..) => false,
        // Private.
        (10, ..) | (172, 16..=31, ..) | (192, 168, ..) => false,
        // Link-local, where clouds keep credentials; Azure's own service answers at one that looks public.
        (169, 254, ..) | (168, 63, 129, 16) => false,
        // Behind a carrier's translation.
        (100, 64..=127, ..) => false,
        // For documents and protocols, relays and measurements.
        (192, 0, 0 | 2, _) | (198, 51, 100, _) | (203, 0, 113, _) | (192, 88, 99, _) | (198, 18..=19, ..) => false,
        // Multicast, and reserved.
        (224.., ..) => false,
        _ => true,
    }
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    match (a, b) {
        // Loopback, the unspecified one, and addresses of IPv4 in old spellings; mapped ones were unwrapped before.
        (0, 0) => false,
        // Translated to the IPv4 address at its end: that is where it arrives.
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => is_public(Ipv4Addr::from((u32::from(g) << 16) | u32::from(h))),
        (0x64, 0xff9b) => false,
        // Nowhere, tunnels, and documents.
        (0x100 | 0x2001, 0) | (0x2001, 0xdb8) | (0x2002, _) => false,
        // Private; link-local, where clouds keep credentials; multicast.
        (0xfc00..=0xfdff | 0xfe80..=0xfeff | 0xff00.., _) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_public_addresses_are_called() {
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.8.8.8",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2001::1",
            "2001:db8::1",
            "2002:a9fe:a9fe::1",
            "2002:808:808::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(check(ip(text), &[]).is_err(), "{text}");
        }
        for text in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"] {
            assert_eq!(check(ip(text), &[]), Ok(false), "{text}");
        }
    }

    #[test]
    fn what_is_listed_is_called_in_whatever_spelling() {
        let listed = ["10.0.0.0/8", "fd00::/8", "127.0.0.1/32"].map(|text| text.parse().unwrap());
        for text in ["10.255.0.1", "::ffff:10.0.0.1", "fd12::1", "127.0.0.1"] {
            assert_eq!(check(ip(text), &listed), Ok(true), "{text}");
        }
        for text in ["11.0.0.1", "127.0.0.2", "fc12::1"] {
            assert_ne!(check(ip(text), &listed), Ok(true), "{text}");
        }
    }

    #[test]
    fn a_range_is_an_address_and_a_prefix() {
        let everything: Cidr = "0.0.0.0/0".parse().unwrap();
        assert!(everything.contains(ip("8.8.8.8")) && !everything.contains(ip("::1")));
        assert!("::/0".parse::<Cidr>().unwrap().contains(ip("fe80::1")));
        for wrong in ["10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0/8", "localhost/8", "10.0.0.0/-1", ""] {
            assert!(wrong.parse::<Cidr>().is_err(), "{wrong}");
        }
    }
}
