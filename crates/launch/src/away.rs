//! Ranks on other hosts, as their coordinator sees them: each host has processes of the launcher (posts) that start ranks,
//! tell what their status pages show and how they ended, and end them when they are asked to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::connection::{Connection, Lost};
use crate::control::{FromRank, Nonce, ToRank};
use crate::member::Member;
use crate::poll::{Interest, PollSet};
use crate::status::StatusPage;

/// A process of the launcher that keeps the place of one rank.
pub(crate) struct Post {
    /// Its process number on its host.
    pub(crate) pid: u32,
    /// Its host's name.
    pub(crate) host: String,
    pub(crate) connection: Connection,
    /// Why it is not there any more.
    pub(crate) lost: Option<Lost>,
}

/// All of them, in rank order. Shared with the worlds that they have ranks of.
pub(crate) type Posts = Arc<Mutex<Vec<Post>>>;

/// The posts; a panic elsewhere leaves them as they are.
pub(crate) fn locked(posts: &Posts) -> MutexGuard<'_, Vec<Post>> {
    posts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Post {
    /// Sends a message; false when the post is gone.
    pub(crate) fn send(&mut self, message: &ToRank) -> bool {
        if self.lost.is_none() {
            self.lost = self.connection.send(message).err();
        }
        self.lost.is_none()
    }
}

/// The ranks of one world that are on other hosts.
pub(crate) struct Away {
    posts: Posts,
    world: Nonce,
    /// They, ascending, each with its place in the current wait.
    ranks: Vec<(u32, Option<usize>)>,
    inbox: Vec<FromRank>,
}

impl Away {
    /// Of this world, on hosts that the posts name.
    pub(crate) fn new(posts: Posts, world: Nonce, ranks: impl Iterator<Item = u32>) -> Self {
        Self { posts, world, ranks: ranks.map(|rank| (rank, None)).collect(), inbox: Vec::new() }
    }

    /// The host of a rank, where it is one of these.
    pub(crate) fn host(&self, rank: u32) -> Option<String> {
        self.ranks.iter().find(|(own, _)| *own == rank)?;
        locked(&self.posts).get(rank as usize).map(|post| post.host.clone())
    }

    /// Adds what to wait for.
    pub(crate) fn register(&mut self, polls: &mut PollSet) {
        let posts = locked(&self.posts);
        for (rank, watched) in &mut self.ranks {
            let post = posts.get(*rank as usize).filter(|post| post.lost.is_none());
            *watched = post.map(|post| {
                let interest = if post.connection.is_sending() { Interest::ReadWrite } else { Interest::Read };
                polls.add(post.connection.descriptor(), interest)
            });
        }
    }

    /// Takes in what posts have told.
    pub(crate) fn serve(&mut self, polls: &PollSet, members: &mut [Member], page: &StatusPage) {
        let mut posts = locked(&self.posts);
        for (rank, watched) in &self.ranks {
            let (Some(post), Some(member)) = (posts.get_mut(*rank as usize), members.get_mut(*rank as usize)) else {
                continue;
            };
            if watched.is_some_and(|index| polls.happened(index)) {
                let heard = post.connection.flush().and_then(|()| post.connection.receive(&mut self.inbox));
                post.lost = heard.err();
            }
            for message in self.inbox.drain(..) {
                take(message, &self.world, member, page, *rank);
            }
            if let Some(lost) = &post.lost {
                member.tell_silence(lost.clone());
            }
        }
    }

    /// Has posts end those of these ranks that still run.
    pub(crate) fn end(&mut self, members: &[Member]) {
        let mut posts = locked(&self.posts);
        for (rank, _) in &self.ranks {
            let runs = members.get(*rank as usize).is_some_and(Member::runs);
            if let Some(post) = posts.get_mut(*rank as usize).filter(|_| runs) {
                post.send(&ToRank::End(self.world));
            }
        }
    }
}

/// One message of a post. What is told of an earlier world is late, and does not count.
fn take(message: FromRank, of: &Nonce, member: &mut Member, page: &StatusPage, rank: u32) {
    match message {
        FromRank::Shows { world, words, stopped } if world == *of => {
            page.slot(rank).mirror(words);
            member.tell_stopped(stopped);
        }
        FromRank::Ended { world, pid, exit } if world == *of => member.tell_end(pid, exit),
        _ => {}
    }
}
