//! What the files of Amazon's tools say: `~/.aws/config` and `~/.aws/credentials`.

use std::path::PathBuf;

use weir_units::plain;

use crate::credentials::files;
use crate::credentials::ini::{Ini, Section};
use crate::environment::{End, Environment};
use crate::error::StoreError;

/// Both files.
#[derive(Clone)]
pub struct Files {
    config: File,
    credentials: File,
    /// Where they and the caches of logins are: `~/.aws`.
    pub folder: Option<PathBuf>,
}

#[derive(Clone, Default)]
struct File {
    ini: Ini,
    path: Option<PathBuf>,
    shown: String,
    /// Why nothing of it is known, though it is there.
    unread: Option<String>,
}

/// The profile that a command is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its name.
    pub name: String,
    /// What named it: `--profile`, `AWS_PROFILE`; `None`: nothing, so that it need not be there.
    pub named_by: Option<String>,
    /// It is a flag's, which stands above the environment.
    pub is_flag: bool,
    /// It was named for one end of a copy alone, and stands above what is said of both.
    pub is_of_one_end: bool,
}

/// A profile that the user names by a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileFlag<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whose it is, where it is not of both ends.
    pub of: Option<End>,
}

impl Chosen {
    /// By `flag`, by the environment (of `end`), or `default`.
    pub fn of(flag: Option<ProfileFlag<'_>>, end: Option<End>, environment: Environment<'_>) -> Chosen {
        if let Some(ProfileFlag { name, of }) = flag {
            let named_by = of.map_or("--profile".to_owned(), |end| format!("--{}-profile", end.name()));
            let name = name.to_owned();
            return Chosen { name, named_by: Some(named_by), is_flag: true, is_of_one_end: of.is_some() };
        }
        for by in ["AWS_PROFILE", "AWS_DEFAULT_PROFILE"] {
            if let Some(name) = environment(by).filter(|name| !name.is_empty()) {
                let called = end.map_or(by.to_owned(), |end| end.named(environment, by));
                let is_of_one_end = called != by;
                return Chosen { name, named_by: Some(called), is_flag: false, is_of_one_end };
            }
        }
        Chosen { name: "default".to_owned(), named_by: None, is_flag: false, is_of_one_end: false }
    }
}

impl File {
    /// What it says now.
    fn again(&self) -> Result<File, StoreError> {
        let (shown, path) = (self.shown.clone(), self.path.clone());
        let text = match path.as_deref().map(files::text_if_any).transpose() {
            Ok(text) => text.flatten().unwrap_or_default(),
            Err(error) => {
                tracing::warn!("cannot read {shown}: {}; going on without it", plain(&error));
                return Ok(File { shown, path, unread: Some(plain(&error)), ini: Ini::default() });
            }
        };
        let bad = |bad| StoreError::Usage(format!("cannot read {shown}: {bad}; mend or remove that line"));
        let ini = Ini::parse(&text).map_err(bad)?;
        Ok(File { ini, shown, path, unread: None })
    }
}

impl Files {
    /// The same files, as they are now.
    pub fn again(&self) -> Result<Files, StoreError> {
        let folder = self.folder.clone();
        Ok(Files { config: self.config.again()?, credentials: self.credentials.again()?, folder })
    }

    /// Reads both, where they are.
    pub fn read(environment: Environment<'_>) -> Result<Files, StoreError> {
        let folder = files::home(environment).map(|home| home.join(".aws"));
        let read = |variable: &str, name: &str| -> Result<File, StoreError> {
            let named = files::named(environment, variable);
            let Some(path) = named.or_else(|| folder.as_ref().map(|folder| folder.join(name))) else {
                return Ok(File { shown: format!("~/.aws/{name} (HOME is not set)"), ..File::default() });
            };
            File { shown: files::shown(&path, environment), path: Some(path), ..File::default() }.again()
        };
        Ok(Files {
            config: read("AWS_CONFIG_FILE", "config")?,
            credentials: read("AWS_SHARED_CREDENTIALS_FILE", "credentials")?,
            folder,
        })
    }

    /// What the config file says of this profile.
    pub fn config(&self, name: &str) -> Option<Section> {
        let of_profile = self.config.ini.section(&format!("profile {name}"));
        of_profile.or_else(|| (name == "default").then(|| self.config.ini.section(name))?)
    }

    /// What the credentials file says of this profile.
    pub fn credentials(&self, name: &str) -> Option<Section> {
        self.credentials.ini.section(name)
    }

    /// What both say; the credentials file has the last word, as with Amazon's tools.
    pub fn profile(&self, name: &str) -> Option<Section> {
        let mut both = self.config(name);
        if let Some(other) = self.credentials(name) {
            both.get_or_insert_default().add(&other);
        }
        both
    }

    /// Another section of the config file: `sso-session NAME`, `services NAME`.
    pub fn section(&self, kind: &str, name: &str) -> Option<Section> {
        self.config.ini.section(&format!("{kind} {name}"))
    }

    /// What a chosen profile says, or that there is none.
    pub fn chosen(&self, chosen: &Chosen) -> Result<Section, StoreError> {
        match (self.profile(&chosen.name), chosen.named_by.as_deref()) {
            (Some(section), _) => Ok(section),
            (None, None) => Ok(Section::default()),
            (None, Some(by)) => Err(self.no_profile(&chosen.name, by)),
        }
    }

    /// The error that what `by` names is not there, with what is.
    pub fn no_profile(&self, name: &str, by: &str) -> StoreError {
        let of_config = self.config.ini.names().filter_map(|section| {
            section.strip_prefix("profile ").or((section == "default").then_some(section))
        });
        let mut names: Vec<&str> = of_config.chain(self.credentials.ini.names()).collect();
        names.sort_unstable();
        names.dedup();
        let there = match names.as_slice() {
            [] => "there are no profiles".to_owned(),
            names => format!("there are {}", names.join(", ")),
        };
        StoreError::Usage(format!(
            "there is no profile '{name}' (named by {by}) in {}; {there}",
            self.shown().join(" and ")
        ))
    }

    /// Both, for a person, with why one could not be read.
    pub fn shown(&self) -> Vec<String> {
        let one = |file: &File| match &file.unread {
            Some(why) => format!("{} ({why})", file.shown),
            None => file.shown.clone(),
        };
        vec![one(&self.credentials), one(&self.config)]
    }

    /// The credentials file, for a person.
    pub(super) fn credentials_shown(&self) -> &str {
        &self.credentials.shown
    }

    /// The config file, for a person.
    pub(super) fn config_shown(&self) -> &str {
        &self.config.shown
    }

    /// The endpoint of `service` (`s3`, `sts`) by a profile.
    pub fn endpoint(&self, profile: &Section, service: &str) -> Option<String> {
        let of_services = profile.get("services").and_then(|name| self.section("services", name));
        let own = of_services.and_then(|section| section.within(service, "endpoint_url").map(str::to_owned));
        own.or_else(|| profile.within(service, "endpoint_url").map(str::to_owned))
            .or_else(|| profile.get("endpoint_url").map(str::to_owned))
    }
}
