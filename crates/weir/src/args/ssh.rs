//! ssh's flags, as scp has them: handed on to the ssh that starts the far end.

use std::time::Duration;

use clap::Args;
use weir_peer::patience::SILENCE;
use weir_peer::ssh::Host;

/// How ssh is called.
#[derive(Debug, Args)]
pub struct Ssh {
    /// ssh: the port.
    #[arg(short = 'P', long = "port", value_name = "PORT")]
    pub port: Option<u16>,
    /// ssh: the key.
    #[arg(short = 'i', long = "identity", value_name = "KEY")]
    pub identity: Vec<String>,
    /// ssh: an option of ssh_config.
    #[arg(short = 'o', value_name = "OPTION=VALUE")]
    pub ssh_option: Vec<String>,
    /// ssh: through this host.
    #[arg(short = 'J', value_name = "HOST")]
    pub jump: Option<String>,
    /// ssh: its configuration.
    #[arg(short = 'F', value_name = "FILE")]
    pub ssh_config: Option<String>,
    /// ssh: this program in its place.
    #[arg(short = 'S', value_name = "PROGRAM")]
    pub ssh_program: Option<String>,
    /// ssh: IPv4 only.
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// ssh: IPv6 only.
    #[arg(short = '6')]
    pub ipv6: bool,
    /// Start this weir on the far host, in its shell's words ('sudo weir', /opt/weir), rather than copying one there.
    #[arg(long, value_name = "PROGRAM")]
    pub far_program: Option<String>,
    /// Give up on a far end that says nothing for SECONDS [default: 60].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub timeout: Option<u32>,
}

impl Ssh {
    /// How to reach a host by it; none is this machine.
    pub fn host(&self, name: Option<String>) -> Host {
        let silence = self.timeout.map_or(SILENCE, |seconds| Duration::from_secs(seconds.into()));
        Host { name, ssh: self.words(), program: self.far_program.clone(), silence }
    }

    /// The ssh program and its flags.
    pub fn words(&self) -> Vec<String> {
        let mut ssh = vec![self.ssh_program.clone().unwrap_or_else(|| "ssh".to_owned())];
        ssh.extend(self.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]));
        ssh.extend(self.identity.iter().flat_map(|key| ["-i".to_owned(), key.clone()]));
        ssh.extend(self.ssh_option.iter().flat_map(|option| ["-o".to_owned(), option.clone()]));
        ssh.extend(self.jump.iter().flat_map(|host| ["-J".to_owned(), host.clone()]));
        ssh.extend(self.ssh_config.iter().flat_map(|file| ["-F".to_owned(), file.clone()]));
        ssh.extend(self.ipv4.then(|| "-4".to_owned()));
        ssh.extend(self.ipv6.then(|| "-6".to_owned()));
        ssh
    }
}
