//! By which address other hosts reach this one.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use process::host_name;

/// Names the interface, or its address, by which other hosts are to reach that of rank 0.
pub const INTERFACE: &str = "RANKMARK_INTERFACE";

/// An address of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// "eth0".
    pub name: String,
    /// One of its addresses.
    pub address: IpAddr,
}

/// The address of this host on which others are to reach it: of the interface (or the address itself) that is asked for;
/// else that of the default route; else of the only interface that leads out.
///
/// # Errors
/// When there is none, or several and nothing says which.
pub fn outward(asked: Option<&str>) -> Result<Interface, String> {
    let found = interfaces().map_err(|error| format!("looking for network interfaces: {error}"))?;
    choose(asked, &found, routed())
}

/// Whether this host has the interface, or the address, that is asked for.
///
/// # Errors
/// Why that is not to be used, and what could be.
pub fn check(asked: &str) -> Result<(), (String, String)> {
    let unknown = |error| (format!("looking for network interfaces: {error}"), format!("unset {INTERFACE}"));
    named(asked, &interfaces().map_err(unknown)?, &host_name()).map(drop)
}

fn named(asked: &str, found: &[Interface], host: &str) -> Result<Interface, (String, String)> {
    // However an address is written: that of IPv6 has many spellings.
    let address: Option<IpAddr> = asked.parse().ok();
    let is_it = |one: &&Interface| one.name == asked || Some(one.address) == address;
    let refused = || {
        let asked = asked.escape_debug();
        let why = format!(
            "{INTERFACE} is `{asked}`, and {host} has no such interface, or address, that is up and leads to other hosts"
        );
        let hint = match list(found).as_str() {
            "" => format!("{host} has none with an address; unset {INTERFACE} where all ranks are on one host"),
            list => format!("those with an address on {host}: {list}; an address need be of rank 0's host only"),
        };
        (why, hint)
    };
    found.iter().find(is_it).cloned().ok_or_else(refused)
}

/// "eth0 (10.0.0.1), ib0 (10.1.0.1)".
fn list(found: &[Interface]) -> String {
    let each: Vec<String> = found.iter().map(|one| format!("{} ({})", one.name, one.address)).collect();
    each.join(", ")
}

fn choose(asked: Option<&str>, found: &[Interface], routed: Option<IpAddr>) -> Result<Interface, String> {
    if let Some(asked) = asked {
        return named(asked, found, &host_name()).map_err(|(why, hint)| format!("{why} (hint: {hint})"));
    }
    if let Some(default) = found.iter().find(|one| Some(one.address) == routed) {
        return Ok(default.clone());
    }
    match found {
        [] => Err("no network interface of this host leads to another".to_owned()),
        [first, rest @ ..] if rest.iter().all(|other| other.name == first.name) => Ok(first.clone()),
        _ => Err(format!("{INTERFACE} must say by which interface other hosts reach this one: {}", list(found))),
    }
}

/// Whether this host has this address.
pub fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The name of the interface that packets to this address leave by, or, where it is this host's own, that has it.
pub fn toward(address: SocketAddr) -> Option<String> {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(address).ok()?;
    having(socket.local_addr().ok()?.ip())
}

/// The name of the interface that has this address; None for loopback, and for what no interface that leads out has.
pub fn having(address: IpAddr) -> Option<String> {
    interfaces().ok()?.into_iter().find(|one| one.address == address).map(|one| one.name)
}

/// The address that packets to an address nobody has would leave from; nothing is sent.
fn routed() -> Option<IpAddr> {
    // TEST-NET-2 of RFC 5737: only the default route leads there.
    let nobody = Ipv4Addr::new(198, 51, 100, 1);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((nobody, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Interfaces that are up and lead to other hosts, IPv4 first. By `libc`: rustix has no getifaddrs. Addresses of one link only (fe80) need more than an address
/// to be reached, and are left out.
fn interfaces() -> io::Result<Vec<Interface>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: a valid out-pointer.
    if unsafe { libc::getifaddrs(&mut list) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut found, mut next) = (Vec::new(), list);
    // SAFETY: the list and all that it points to live until `freeifaddrs`.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let (up, loops) =
            (entry.ifa_flags & libc::IFF_UP as u32 != 0, entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0);
        if up
            && !loops
            && let Some(address) = address(entry)
        {
            // SAFETY: every entry has a terminated name.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
            found.push(Interface { name, address });
        }
    }
    // SAFETY: from `getifaddrs`, freed once.
    unsafe { libc::freeifaddrs(list) };
    found.sort_by_key(|one| one.address.is_ipv6());
    Ok(found)
}

fn address(entry: &libc::ifaddrs) -> Option<IpAddr> {
    // SAFETY: where there is an address, its family says what lies there.
    let address = match i32::from(unsafe { entry.ifa_addr.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: as above; an address of IPv4.
            let four = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            IpAddr::V4(Ipv4Addr::from(u32::from_be(four.sin_addr.s_addr)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above; an address of IPv6.
            let six = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            IpAddr::V6(Ipv6Addr::from(six.sin6_addr.s6_addr))
        }
        _ => return None,
    };
    let one_link = match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    (!one_link).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_the_one_that_is_meant_or_none() {
        let one = |name: &str, address: &str| Interface { name: name.to_owned(), address: address.parse().unwrap() };
        let (lan, ib) = (one("eth0", "10.0.0.1"), one("ib0", "10.1.0.1"));
        let both = [lan.clone(), ib.clone()];
        assert_eq!(choose(Some("ib0"), &both, Some(lan.address)), Ok(ib.clone()));
        assert_eq!(choose(Some("10.1.0.1"), &both, None), Ok(ib.clone()));
        assert_eq!(choose(None, &both, Some(ib.address)), Ok(ib));
        assert_eq!(choose(None, &both[..1], None), Ok(lan.clone()));
        assert_eq!(choose(None, &[lan.clone(), one("eth0", "fd00::1")], None), Ok(lan));
        assert!(choose(None, &both, None).unwrap_err().ends_with("eth0 (10.0.0.1), ib0 (10.1.0.1)"));
        assert!(choose(None, &[], None).is_err());
    }

    #[test]
    fn an_interface_that_is_not_there_is_told_with_its_host_and_those_that_are() {
        let one = |name: &str, address: &str| Interface { name: name.to_owned(), address: address.parse().unwrap() };
        let both = [one("eth0", "10.0.0.1"), one("ib0", "fd00::1")];
        let (why, hint) = named("eth7", &both, "node-b").unwrap_err();
        assert!(why.starts_with("RANKMARK_INTERFACE is `eth7`, and node-b has no such interface"), "{why}");
        assert!(hint.starts_with("those with an address on node-b: eth0 (10.0.0.1), ib0 (fd00::1); "), "{hint}");
        assert_eq!(choose(Some("eth7"), &both, Some(both[0].address)), choose(Some("eth7"), &both, None), "no other");
        // Neither half a name nor another address is one.
        for asked in ["eth", "10.0.0.2", ""] {
            assert!(named(asked, &both, "node-b").is_err(), "{asked}");
        }
        assert_eq!(named("fd00:0:0::1", &both, "node-b"), Ok(both[1].clone()), "another spelling");
        let (_, hint) = named("eth0", &[], "node-b").unwrap_err();
        assert!(hint.contains("unset RANKMARK_INTERFACE"), "{hint}");
    }

    #[test]
    fn a_loopback_interface_leads_nowhere() {
        assert!(interfaces().unwrap().iter().all(|one| !one.address.is_loopback()));
        assert_eq!(having(Ipv4Addr::LOCALHOST.into()), None);
    }

    #[test]
    fn an_address_is_that_of_its_own_interface() {
        let found = interfaces().unwrap();
        for one in &found {
            let names: Vec<&str> =
                found.iter().filter(|other| other.address == one.address).map(|other| other.name.as_str()).collect();
            assert!(names.contains(&having(one.address).unwrap().as_str()), "{one:?}");
        }
        // TEST-NET-3 of RFC 5737: nobody's.
        assert_eq!(having(Ipv4Addr::new(203, 0, 113, 1).into()), None);
    }
}
