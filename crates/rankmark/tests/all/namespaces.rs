//! Hosts in namespaces of this machine: each with its own address, name and link of 1 Gbit/s to a bridge that joins them.
//! What is shared all the same: file systems, process numbers, processors, and the clock, which may be set apart.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::place::{Place, Starting};
use crate::processes::Aim;
use crate::skip;

/// How many sets of hosts this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Hosts `h0`, `h1`, ... Everything is removed when dropped, whatever runs there ended.
pub(crate) struct Hosts {
    /// Begins all names, and is nobody else's.
    prefix: String,
    count: usize,
    /// Seconds by which clocks of all hosts but the first are ahead.
    ahead: u32,
}

impl Hosts {
    /// None where they cannot be made, or nothing starts ranks on them: `test` is then listed as skipped.
    pub(crate) fn new(test: &str, count: usize) -> Option<Self> {
        // SAFETY: a plain call.
        if unsafe { libc::geteuid() } != 0 {
            skip::skip(test, "only root may make network namespaces");
            return None;
        }
        if let Some(lacking) = ["mpirun.openmpi", "ip", "tc", "unshare"].into_iter().find(|program| !is_here(program)) {
            skip::skip(test, &format!("no {lacking} (Debian: openmpi-bin, iproute2, util-linux)"));
            return None;
        }
        let prefix = format!("r{:x}{:x}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        // Whole or not at all: what an early return drops is removed.
        let hosts = Self { prefix, count, ahead: 0 };
        match hosts.make() {
            Ok(()) => Some(hosts),
            Err(why) => {
                skip::skip(test, &format!("hosts cannot be made of namespaces: {why}"));
                None
            }
        }
    }

    fn make(&self) -> Result<(), String> {
        let bridge = self.bridge();
        run(&format!("ip link add {bridge} type bridge"))?;
        run(&format!("ip link set {bridge} up"))?;
        for host in 0..self.count {
            let (space, end) = (self.space(host), self.end(host));
            run(&format!("ip netns add {space}"))?;
            // Made here and moved, it keeps a number that leaves room for others to be listed before it.
            run(&format!("ip link add {end} type veth peer name {end}p"))?;
            run(&format!("ip link set {end}p netns {space} name eth0"))?;
            run(&format!("ip link set {end} master {bridge} up"))?;
            run(&format!("ip -n {space} addr add 10.77.0.{}/24 dev eth0", host + 1))?;
            run(&format!("ip -n {space} link set lo up"))?;
            run(&format!("ip -n {space} link set eth0 up"))?;
            self.limit(host, "1gbit")?;
            self.name_all(host).map_err(|error| format!("names of hosts: {error}"))?;
        }
        Ok(())
    }

    /// Lets the names of all hosts be looked up on this one: `ip netns exec` puts these files over those of /etc.
    fn name_all(&self, host: usize) -> std::io::Result<()> {
        let lines: Vec<String> = (0..self.count).map(|other| format!("10.77.0.{} h{other}\n", other + 1)).collect();
        let folder = self.names(host);
        std::fs::create_dir_all(&folder)?;
        // As Debian has it: a host's own name leads to loopback there.
        let first = if host == 0 { "127.0.1.1" } else { "10.77.0.1" };
        std::fs::write(folder.join("hosts"), format!("127.0.0.1 localhost\n{first} first\n{}", lines.concat()))
    }

    fn names(&self, host: usize) -> PathBuf {
        Path::new("/etc/netns").join(self.space(host))
    }

    /// Sets the clocks of all hosts but the first ahead, in time namespaces: as though they had been up for longer.
    pub(crate) fn set_ahead(&mut self, seconds: u32) -> Result<(), String> {
        run(&format!("unshare --time --monotonic {seconds} true"))?;
        self.ahead = seconds;
        Ok(())
    }

    /// Sets the bandwidth of a host's link, in both directions.
    pub(crate) fn limit(&self, host: usize, rate: &str) -> Result<(), String> {
        let bucket = format!("root tbf rate {rate} burst 128kb latency 50ms");
        run(&format!("tc -n {} qdisc replace dev eth0 {bucket}", self.space(host)))?;
        run(&format!("tc qdisc replace dev {} {bucket}", self.end(host)))
    }

    /// Leads what two hosts send to each other over a link of their own, of this bandwidth.
    pub(crate) fn limit_pair(&self, pair: [usize; 2], rate: &str) -> Result<(), String> {
        let [one, other] = pair.map(|host| self.space(host));
        let ends = pair.map(|host| format!("pair{host}"));
        run(&format!("ip link add {} netns {one} type veth peer name {} netns {other}", ends[0], ends[1]))?;
        for (at, (space, end)) in [one, other].iter().zip(&ends).enumerate() {
            let (own, peer) = (pair[at] + 1, pair[1 - at] + 1);
            run(&format!("ip -n {space} link set {end} up"))?;
            run(&format!("ip -n {space} route add 10.77.0.{peer}/32 dev {end} src 10.77.0.{own}"))?;
            run(&format!("tc -n {space} qdisc replace dev {end} root tbf rate {rate} burst 128kb latency 50ms"))?;
        }
        Ok(())
    }

    /// Gives a host a second interface, `side0`, which the kernel lists before the one that leads to the others.
    pub(crate) fn add_interface(&self, host: usize) {
        let space = self.space(host);
        run(&format!("ip -n {space} link add side0 type veth peer name side1")).unwrap();
        run(&format!("ip -n {space} addr add 10.78.0.1/24 dev side0")).unwrap();
        ["side0", "side1"].iter().for_each(|end| run(&format!("ip -n {space} link set {end} up")).unwrap());
    }

    /// Lets what a host sends to another one be lost: nobody has the hardware address that it goes to.
    pub(crate) fn lose_packets(&self, from: usize, to: usize) {
        let (space, address) = (self.space(from), to + 1);
        let nobody = "lladdr 02:00:00:00:00:99 dev eth0 nud permanent";
        run(&format!("ip -n {space} neigh replace 10.77.0.{address} {nobody}")).unwrap();
    }

    /// Takes a host's link down, or up again.
    pub(crate) fn link(&self, host: usize, state: &str) {
        run(&format!("ip link set {} {state}", self.end(host))).unwrap();
    }

    /// The rank processes on a host.
    pub(crate) fn ranks(&self, host: usize) -> Vec<u32> {
        let is_rank = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).split('\0').any(|argument| argument.starts_with("__rank="))
        };
        self.processes(host).into_iter().filter(is_rank).collect()
    }

    /// The processes of a program on a host.
    pub(crate) fn running(&self, host: usize, program: &str) -> Vec<u32> {
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.processes(host).into_iter().filter(|pid| name(pid).trim_end() == program).collect()
    }

    fn processes(&self, host: usize) -> Vec<u32> {
        let listed = output(&format!("ip netns pids {}", self.space(host)));
        let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// The program as the ranks of Open MPI's mpirun on the first of these hosts, so many on each of them.
    pub(crate) fn command<'a>(&self, place: &'a Place, ranks: &[usize], arguments: &str) -> Starting<'a> {
        let agent = self.write_scripts(place);
        let on: Vec<String> = ranks.iter().enumerate().map(|(host, ranks)| format!("h{host}:{ranks}")).collect();
        let launcher = format!(
            "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca plm_rsh_agent {} \
             --mca oob_tcp_if_include eth0 --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca pml ob1 \
             --mca mpi_yield_when_idle 1 --host {} -n {}",
            agent.display(),
            on.join(","),
            ranks.iter().sum::<usize>()
        );
        self.on_first(place, &launcher, arguments)
    }

    /// The program as the ranks of MPICH's mpiexec on the first of these hosts, one rank on each of so many hosts.
    pub(crate) fn command_of_mpich<'a>(&self, place: &'a Place, ranks: usize, arguments: &str) -> Starting<'a> {
        let agent = self.write_scripts(place);
        let on: Vec<String> = (0..ranks).map(|host| format!("h{host}")).collect();
        let launcher = format!(
            "mpiexec.mpich -iface eth0 -launcher rsh -launcher-exec {} -hosts {} -n {ranks}",
            agent.display(),
            on.join(",")
        );
        self.on_first(place, &launcher, arguments)
    }

    /// The program as the ranks of MPICH's mpiexec on the first of these hosts, with these options of it, on hosts that share no
    /// folder of their user: there is no home directory, and the one of the session is memory of each host.
    pub(crate) fn command_of_mpich_apart<'a>(
        &self,
        place: &'a Place,
        (ranks, options): (usize, &str),
        arguments: &str,
    ) -> Starting<'a> {
        let session = place.path("session");
        std::fs::create_dir_all(&session).unwrap();
        let own = format!("mount -t tmpfs -o mode=700 none {}; ", session.display());
        let agent = self.write_agent(place, " --mount", &own);
        let on: Vec<String> = (0..self.count).map(|host| format!("h{host}")).collect();
        let launcher = format!(
            "mpiexec.mpich {options} -iface eth0 -launcher rsh -launcher-exec {} -hosts {} -n {ranks}",
            agent.display(),
            on.join(",")
        );
        let mut starting = self.on_first(place, &launcher, arguments);
        starting.command.env_remove("RANKMARK_RENDEZVOUS_DIR").env_remove("HOME").env("XDG_RUNTIME_DIR", &session);
        starting
    }

    /// What stands in for ssh, as `agent HOST COMMAND`.
    fn write_scripts(&self, place: &Place) -> PathBuf {
        self.write_agent(place, "", "")
    }

    /// `unshared`: what a host has for itself, besides its network and its name; `first`: commands that each host runs first.
    fn write_agent(&self, place: &Place, unshared: &str, first: &str) -> PathBuf {
        let (enter, agent) = (format!("ip netns exec {}", self.prefix), place.path("agent"));
        let clock = if self.ahead > 0 { format!(" --time --monotonic {}", self.ahead) } else { String::new() };
        let options = "while [ \"${1#-}\" != \"$1\" ]; do shift; done";
        let script = format!(
            "#!/bin/sh\n{options}\nhost=$1\nshift\nexec {enter}$host unshare --uts{clock}{unshared} sh -c \"{first}hostname $host; $*\"\n"
        );
        place.write("agent", script);
        make_executable(&agent);
        agent
    }

    fn on_first<'a>(&self, place: &'a Place, launcher: &str, arguments: &str) -> Starting<'a> {
        let mut starting = place.command_under(&format!("{} {launcher}", self.enter(place, 0)), arguments);
        starting.command.env("RANKMARK_RENDEZVOUS_DIR", place.path(""));
        starting
    }

    /// The program as two pods of a Kubernetes Job, one on each of two hosts, which share no folder: they meet at the
    /// first's name with the secret of this file. In rank order.
    pub(crate) fn pods<'a>(&self, place: &'a Place, secret: &Path, arguments: &str) -> Vec<Starting<'a>> {
        let pod = |rank: usize| {
            let mut starting = place.command_under(&self.enter(place, rank), arguments);
            starting.command.envs([
                ("JOB_COMPLETION_INDEX", rank.to_string().as_str()),
                ("RANKMARK_WORLD_SIZE", "2"),
                ("RANKMARK_LOCAL_WORLD_SIZE", "1"),
                ("RANKMARK_COORDINATOR", "first:29400"),
                ("RANKMARK_SECRET_FILE", secret.to_string_lossy().as_ref()),
            ]);
            starting
        };
        (0..2).map(pod).collect()
    }

    /// What a command line begins with that shall run on this host, under its name.
    pub(crate) fn enter(&self, place: &Place, host: usize) -> String {
        let script = place.path(&format!("enter{host}"));
        std::fs::write(&script, format!("hostname h{host}\nexec \"$@\"\n")).unwrap();
        format!("ip netns exec {} unshare --uts sh {}", self.space(host), script.display())
    }

    fn bridge(&self) -> String {
        format!("{}b", self.prefix)
    }

    fn space(&self, host: usize) -> String {
        format!("{}h{host}", self.prefix)
    }

    /// The end of a host's link that is plugged into the bridge.
    fn end(&self, host: usize) -> String {
        format!("{}v{host}", self.prefix)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in 0..self.count {
            for pid in self.processes(host) {
                // Of a test that failed; all that is in these namespaces was started by it.
                let _ = Aim::at(pid).map(|process| process.send(9));
            }
            // What was not made cannot be removed.
            let _ = std::fs::remove_dir_all(self.names(host));
            let _ = run(&format!("ip netns del {}", self.space(host)));
            let _ = run(&format!("ip link del {}", self.end(host)));
        }
        let _ = run(&format!("ip link del {}", self.bridge()));
    }
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn is_here(program: &str) -> bool {
    let mut folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.iter().any(|folder| folder.join(program).exists())
}

fn output(line: &str) -> std::io::Result<Output> {
    let mut words = line.split_whitespace();
    Command::new(words.next().unwrap_or_default()).args(words).output()
}

fn run(line: &str) -> Result<(), String> {
    match output(line) {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("`{line}`: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("`{line}`: {error}")),
    }
}
