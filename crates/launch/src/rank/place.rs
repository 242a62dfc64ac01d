//! Where a rank stands among the others.

use comm::RankPlacement;
use control::Invitation;

/// The place of a rank of the world that this is an invitation to; its host has this name.
pub(crate) fn place(invitation: &Invitation, rank: u32, host: String) -> RankPlacement {
    let size = invitation.spec.ranks;
    let Some(own) = invitation.hosts.get(rank as usize) else { return RankPlacement::alone(rank, size, host) };
    let here = invitation.hosts.iter().filter(|other| *other == own).count() as u32;
    let index = invitation.hosts.iter().take(rank as usize).filter(|other| *other == own).count() as u32;
    RankPlacement { rank, size, host, index, here }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::Secret;
    use measure::WorldSpec;
    use std::time::Duration;

    #[test]
    fn ranks_are_numbered_on_their_host() {
        let spec = WorldSpec { ranks: 4, fields: serde_json::Map::new() };
        let address = "127.0.0.1:1".parse().unwrap();
        let secret = Secret::fresh().unwrap();
        let mut invitation = Invitation::new(address, &secret, Duration::ZERO, (vec![0, 1], true), spec);
        let places = |invitation: &Invitation| {
            let place = |rank| place(invitation, rank, "here".to_owned());
            [0, 1, 2, 3].map(place).map(|place| (place.index, place.here))
        };
        assert_eq!(places(&invitation), [(0, 4), (1, 4), (2, 4), (3, 4)]);
        invitation.hosts = vec![0, 1, 0, 0];
        assert_eq!(places(&invitation), [(0, 3), (0, 1), (1, 3), (2, 3)]);
    }
}
