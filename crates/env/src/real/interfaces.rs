//! The machine's network interfaces.

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use std::net::IpAddr;

/// The interface that has an address; `None`: none has, or that could not be found out.
pub(super) fn interface_of(ip: IpAddr) -> Option<String> {
    let is_it = |address: &SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(|of| IpAddr::V4(of.ip()));
        let v6 = address.as_sockaddr_in6().map(|of| IpAddr::V6(of.ip()));
        v4.or(v6) == Some(ip)
    };
    let mut all = getifaddrs().ok()?;
    let found = all.find(|one| one.address.as_ref().is_some_and(is_it));
    found.map(|one| one.interface_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_machine_has_an_interface_to_itself() {
        let name = interface_of(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(name.is_some_and(|name| name.starts_with("lo")));
        assert_eq!(interface_of(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))), None);
    }
}
