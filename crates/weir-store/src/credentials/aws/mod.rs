//! Amazon's credentials, from where its own tools take them, in their order:
//!
//! 1. `AWS_ACCESS_KEY_ID` and its companions, unless `--profile` names a profile;
//! 2. the profile: a role to assume, a web identity (also `AWS_WEB_IDENTITY_TOKEN_FILE`), single sign-on, its
//!    keys in `~/.aws/credentials`, a program (`credential_process`), its keys in `~/.aws/config`;
//! 3. the container (ECS, EKS);
//! 4. the metadata of the host (EC2), which is asked only when all others name nobody.

mod container;
mod metadata;
mod profile;
mod sso;
mod sts;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::SystemTime;

use object_store::aws::AwsCredential;
use serde::Deserialize;
use url::Url;

pub use profile::{Chosen, Files, ProfileFlag};

use crate::credentials::files::read_json;
use crate::credentials::ini::Section;
use crate::credentials::{Fixed, Found, Provider, Renewing, Temporary, process};
use crate::environment::{End, Environment};
use crate::error::StoreError;
use crate::network::{Asker, Network, address, endpoint_of, no_credentials};
use weir_units::instant;

/// Where requests go that name no region; every bucket of S3 says from there where it is.
pub const DEFAULT_REGION: &str = "us-east-1";

/// The domain of Amazon's services.
pub const AMAZON: &str = "amazonaws.com";

/// The domain of Amazon's services in `region`: those in China have another one.
pub fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { AMAZON }
}

/// Who signs.
pub type AwsProvider = Arc<dyn Provider<AwsCredential>>;

/// What the user's files and the environment say of Amazon.
pub struct Aws<'a> {
    files: Files,
    chosen: Chosen,
    profile: Section,
    environment: Environment<'a>,
    end: Option<End>,
}

impl<'a> Aws<'a> {
    /// Reads the files; `flag` is the profile that the user names, `environment` that of `end`.
    pub fn read(
        flag: Option<ProfileFlag<'_>>,
        end: Option<End>,
        environment: Environment<'a>,
    ) -> Result<Aws<'a>, StoreError> {
        let (files, chosen) = (Files::read(environment)?, Chosen::of(flag, end, environment));
        let profile = files.chosen(&chosen)?;
        Ok(Aws { files, chosen, profile, environment, end })
    }

    fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|text| !text.is_empty())
    }

    fn is_on(&self, name: &str) -> bool {
        self.variable(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// What a person calls a variable.
    fn called(&self, name: &str) -> String {
        self.end.map_or(name.to_owned(), |end| end.named(self.environment, name))
    }

    /// A profile that was named for one end of a copy stands above these variables, which are of both.
    fn is_above(&self, variables: &[&str]) -> bool {
        self.chosen.is_of_one_end && variables.iter().all(|name| self.called(name) == **name)
    }

    /// The first of these variables that is set, else what the profile says; the other way round where the
    /// profile is above them.
    fn said(&self, variables: &[&str], of_profile: impl FnOnce() -> Option<String>) -> Option<String> {
        let named = || variables.iter().find_map(|name| self.variable(name));
        if self.is_above(variables) { of_profile().or_else(named) } else { named().or_else(of_profile) }
    }

    /// By the environment, else by the profile.
    pub fn region(&self) -> Option<String> {
        self.said(&["AWS_REGION", "AWS_DEFAULT_REGION"], || self.profile.get("region").map(str::to_owned))
    }

    /// The bucket is in the path, not in the host (`addressing_style`); `None`: the profile does not say.
    pub fn path_style(&self) -> Option<bool> {
        match self.profile.within("s3", "addressing_style")? {
            "path" => Some(true),
            "virtual" => Some(false),
            _ => None,
        }
    }

    /// What Amazon's S3 hosts begin with, where no endpoint is named.
    pub fn s3_host(&self) -> &'static str {
        let is_fips = self.wants("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint");
        match (is_fips, self.wants("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint")) {
            (false, false) => "s3",
            (true, false) => "s3-fips",
            (false, true) => "s3.dualstack",
            (true, true) => "s3-fips.dualstack",
        }
    }

    /// By the environment, else by the profile.
    fn wants(&self, variable: &str, name: &str) -> bool {
        let said = self.said(&[variable], || self.profile.get(name).map(str::to_owned));
        said.is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// The address of `service` (`s3`, `sts`), where it is not Amazon's usual one.
    pub fn endpoint(&self, service: &str) -> Option<String> {
        if self.is_on("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") {
            return None;
        }
        let own = format!("AWS_ENDPOINT_URL_{}", service.to_ascii_uppercase());
        self.said(&[own.as_str(), "AWS_ENDPOINT_URL"], || self.endpoint_of_profile(service))
    }

    /// The address of `service` that the profile names.
    fn endpoint_of_profile(&self, service: &str) -> Option<String> {
        self.files.endpoint(&self.profile, service)
    }

    /// The endpoint that the user gave for both ends of a copy, held against the profile of one of them:
    /// which of two is meant nobody knows.
    pub fn agrees_on(&self, endpoint: &str) -> Result<(), StoreError> {
        let Some((end, other)) = self.end.zip(self.endpoint_of_profile("s3")) else { return Ok(()) };
        let is_same = |one: &str, other: &str| {
            endpoint_of(one).is_ok_and(|one| endpoint_of(other).is_ok_and(|other| one == other))
        };
        if !self.chosen.is_of_one_end || is_same(endpoint, &other) {
            return Ok(());
        }
        Err(StoreError::Usage(format!(
            "--endpoint names one service for both ends, and the profile '{}' of the {} names another, {other}; name \
             them by --source-endpoint and --target-endpoint",
            self.chosen.name,
            end.name(),
        )))
    }

    /// Who signs; whether there is anybody is known when it is asked.
    pub fn provider(&self, network: &Network) -> Result<AwsProvider, StoreError> {
        let reads_variables = !self.chosen.is_flag;
        if let Some(found) = self.of_variables()?.filter(|_| reads_variables) {
            return Ok(Arc::new(Fixed::new(found)));
        }
        let network = &Network { trust: network.trust.for_stores(), ..network.clone() };
        let chain = Chain { aws: self, asker: Arc::new(Asker::new(network, self.environment)?) };
        let of_profile = chain.of_profile(&self.chosen.name, &mut Vec::new(), reads_variables)?;
        if let Some(provider) = of_profile.or(chain.of_container()?) {
            return Ok(provider);
        }
        chain.of_metadata(true)
    }

    fn of_variables(&self) -> Result<Option<Found<AwsCredential>>, StoreError> {
        let Some(key_id) = self.variable("AWS_ACCESS_KEY_ID") else { return Ok(None) };
        let Some(secret_key) = self.variable("AWS_SECRET_ACCESS_KEY") else {
            let key_id = self.called("AWS_ACCESS_KEY_ID");
            let missing = key_id.replace("ACCESS_KEY_ID", "SECRET_ACCESS_KEY");
            return Err(StoreError::Usage(format!(
                "{key_id} is set and {missing} is not; set both or neither"
            )));
        };
        let token = self.variable("AWS_SESSION_TOKEN").or_else(|| self.variable("AWS_SECURITY_TOKEN"));
        let credential = AwsCredential { key_id: key_id.clone(), secret_key, token };
        let origin = format!("the environment ({})", self.called("AWS_ACCESS_KEY_ID"));
        Ok(Some(Found { credential, identity: key_id, origin }))
    }
}

/// Makes the providers of the chain.
struct Chain<'a> {
    aws: &'a Aws<'a>,
    asker: Arc<Asker>,
}

impl Chain<'_> {
    /// The first of those that a profile names. `seen`: those that led to it.
    fn of_profile(
        &self,
        name: &str,
        seen: &mut Vec<String>,
        reads_variables: bool,
    ) -> Result<Option<AwsProvider>, StoreError> {
        let files = &self.aws.files;
        let both = files.profile(name).unwrap_or_default();
        let has_source = both.get("source_profile").or(both.get("credential_source")).is_some();
        if let Some(arn) = both.get("role_arn").filter(|_| has_source) {
            // A profile that names itself, with keys of its own, is its own source.
            if !seen.iter().any(|known| known == name) {
                return self.of_role(name, &both, arn, seen).map(Some);
            }
        }
        if let Some(provider) = self.of_web_identity(name, &both, reads_variables)? {
            return Ok(Some(provider));
        }
        // Credentials found further on are not those of the role. A profile that is the source of another
        // one may use its own keys.
        let has_keys = both.get("aws_access_key_id").is_some();
        if both.get("role_arn").is_some() && !has_source && (seen.is_empty() || !has_keys) {
            return Err(StoreError::Usage(format!(
                "the profile '{name}' names a role and nobody who assumes it; add source_profile, \
                 credential_source or web_identity_token_file to it"
            )));
        }
        if let Some(login) = sso::Login::of(name, &both, files)? {
            let endpoints = [self.aws.endpoint("sso"), self.aws.endpoint("sso_oidc")];
            return Ok(Some(login.provider(Arc::clone(&self.asker), endpoints)?));
        }
        let of_credentials = files.credentials(name).unwrap_or_default();
        if let Some(provider) = keys(
            name,
            &of_credentials,
            files.credentials_shown(),
            |files, name| files.credentials(name),
            self.aws,
        )? {
            return Ok(Some(provider));
        }
        if let Some(line) = both.get("credential_process") {
            return of_process(name, line, Arc::clone(&self.asker)).map(Some);
        }
        let of_config = files.config(name).unwrap_or_default();
        keys(name, &of_config, files.config_shown(), |files, name| files.config(name), self.aws)
    }

    fn of_role(
        &self,
        name: &str,
        profile: &Section,
        arn: &str,
        seen: &mut Vec<String>,
    ) -> Result<AwsProvider, StoreError> {
        let whose = format!("the profile '{name}'");
        if profile.get("mfa_serial").is_some() {
            return Err(StoreError::Usage(format!(
                "{whose} wants the code of a device (mfa_serial), which weir does not ask for; put the keys of \
                 aws configure export-credentials --profile {name} into the environment"
            )));
        }
        seen.push(name.to_owned());
        let source = match (profile.get("source_profile"), profile.get("credential_source")) {
            (Some(source), _) => self.of_source(name, source, seen)?,
            (None, Some("Environment")) => {
                let missing = || format!("{whose} takes its keys from the environment, and there are none");
                Arc::new(Fixed::new(self.aws.of_variables()?.ok_or_else(|| StoreError::Usage(missing()))?))
            }
            (None, Some("EcsContainer")) => {
                let missing = || format!("{whose} takes its keys from the container, and this is none");
                self.of_container()?.ok_or_else(|| StoreError::Usage(missing()))?
            }
            (None, Some("Ec2InstanceMetadata")) => self.of_metadata(false)?,
            (None, other) => {
                return Err(StoreError::Usage(format!(
                    "{whose} has the credential_source '{}': expected Environment, EcsContainer or \
                     Ec2InstanceMetadata",
                    other.unwrap_or_default()
                )));
            }
        };
        let role = sts::Role::of(profile, arn, whose);
        let service = self.sts()?;
        Ok(Arc::new(Renewing::new(move || service.assume(&*source, &role))))
    }

    /// Who assumes the role of profile `name`.
    fn of_source(&self, name: &str, source: &str, seen: &mut Vec<String>) -> Result<AwsProvider, StoreError> {
        let by = format!("source_profile of '{name}'");
        if seen.iter().any(|known| known == source) && source != name {
            return Err(StoreError::Usage(format!(
                "the profiles {} lead to each other by source_profile; one of them needs keys",
                seen.join(", ")
            )));
        }
        if self.aws.files.profile(source).is_none() {
            return Err(self.aws.files.no_profile(source, &by));
        }
        let provider = self.of_profile(source, seen, false)?;
        provider.ok_or_else(|| {
            StoreError::Usage(format!("the profile '{source}' has no credentials, and is the {by}"))
        })
    }

    fn of_web_identity(
        &self,
        name: &str,
        profile: &Section,
        reads_variables: bool,
    ) -> Result<Option<AwsProvider>, StoreError> {
        let variable = |name| self.aws.variable(name).filter(|_| reads_variables);
        let of_variables = variable("AWS_WEB_IDENTITY_TOKEN_FILE");
        let origin = match &of_variables {
            Some(_) => "AWS_WEB_IDENTITY_TOKEN_FILE".to_owned(),
            None => format!("the profile '{name}'"),
        };
        let token_file = of_variables.or(profile.get("web_identity_token_file").map(str::to_owned));
        let arn = variable("AWS_ROLE_ARN").or_else(|| profile.get("role_arn").map(str::to_owned));
        let (token_file, arn) = match (token_file, arn) {
            (Some(file), Some(arn)) => (file, arn),
            (Some(_), None) => {
                return Err(StoreError::Usage(format!(
                    "{origin} names a token and no role; set AWS_ROLE_ARN, or role_arn in the profile"
                )));
            }
            _ => return Ok(None),
        };
        let mut role = sts::Role::of(profile, &arn, origin);
        if let Some(session) = variable("AWS_ROLE_SESSION_NAME") {
            role.session = session;
        }
        let path = crate::credentials::files::path(&token_file, self.aws.environment);
        let service = self.sts()?;
        Ok(Some(Arc::new(Renewing::new(move || service.with_web_identity(&path, &role)))))
    }

    fn sts(&self) -> Result<sts::Service, StoreError> {
        let region = self.aws.region();
        let host = |region: &str| format!("https://sts.{region}.{}/", domain(region));
        let usual = region.as_deref().map_or("https://sts.amazonaws.com/".to_owned(), host);
        let url = address(&self.aws.endpoint("sts").unwrap_or(usual), "the address of STS")?;
        let region = region.unwrap_or_else(|| DEFAULT_REGION.to_owned());
        Ok(sts::Service { asker: Arc::clone(&self.asker), url, region })
    }

    fn of_container(&self) -> Result<Option<AwsProvider>, StoreError> {
        container::provider(self.aws.environment, Arc::clone(&self.asker))
    }

    /// `is_last`: all others have been looked at.
    fn of_metadata(&self, is_last: bool) -> Result<AwsProvider, StoreError> {
        let looked = match is_last {
            true => self.looked_at(),
            false => Vec::new(),
        };
        let named = self.aws.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let named =
            named.or_else(|| self.aws.profile.get("ec2_metadata_service_endpoint").map(str::to_owned));
        let mode = self.aws.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").unwrap_or_default();
        let usual = if mode.eq_ignore_ascii_case("ipv6") { metadata::IPV6 } else { metadata::IPV4 };
        let url: Url = address(named.as_deref().unwrap_or(usual), "AWS_EC2_METADATA_SERVICE_ENDPOINT")?;
        let metadata = metadata::Metadata {
            asker: Arc::clone(&self.asker),
            url,
            is_off: self.aws.is_on("AWS_EC2_METADATA_DISABLED"),
            only_with_token: self.aws.is_on("AWS_EC2_METADATA_V1_DISABLED"),
            looked,
        };
        Ok(Arc::new(Renewing::new(move || metadata.fetch())))
    }

    /// All places but the host's metadata.
    fn looked_at(&self) -> Vec<String> {
        let mut looked = Vec::new();
        if !self.aws.chosen.is_flag {
            looked.push("the environment (AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE)".to_owned());
        }
        let files = self.aws.files.shown().join(" and ");
        looked.push(format!("the profile '{}' of {files}", self.aws.chosen.name));
        looked.push("the container (AWS_CONTAINER_CREDENTIALS_FULL_URI)".to_owned());
        looked
    }
}

/// The keys of a section, read anew when the store says that they have run out: some tools write new ones
/// there.
fn keys(
    name: &str,
    section: &Section,
    file: &str,
    again: fn(&Files, &str) -> Option<Section>,
    aws: &Aws<'_>,
) -> Result<Option<AwsProvider>, StoreError> {
    let origin = format!("the profile '{name}' in {file}");
    let Some(first) = keys_of(section, &origin)? else { return Ok(None) };
    let paths = aws.files.clone();
    let name = name.to_owned();
    let first = parking_lot::Mutex::new(Some(first));
    Ok(Some(Arc::new(Renewing::new(move || {
        if let Some(found) = first.lock().take() {
            return Ok(Temporary { found, expires: None });
        }
        let section = again(&paths.again()?, &name).unwrap_or_default();
        let gone = || StoreError::Credentials(no_credentials(&origin, "they are gone from there", ""));
        Ok(Temporary { found: keys_of(&section, &origin)?.ok_or_else(gone)?, expires: None })
    }))))
}

fn keys_of(section: &Section, origin: &str) -> Result<Option<Found<AwsCredential>>, StoreError> {
    let Some(key_id) = section.get("aws_access_key_id") else { return Ok(None) };
    let Some(secret_key) = section.get("aws_secret_access_key") else {
        let way_out = "add that line";
        let cause = "there is an aws_access_key_id without an aws_secret_access_key";
        return Err(StoreError::Credentials(no_credentials(origin, cause, way_out)));
    };
    let token = section.get("aws_session_token").or_else(|| section.get("aws_security_token"));
    let credential = AwsCredential {
        key_id: key_id.to_owned(),
        secret_key: secret_key.to_owned(),
        token: token.map(str::to_owned),
    };
    Ok(Some(Found { credential, identity: key_id.to_owned(), origin: origin.to_owned() }))
}

/// What a program prints (`credential_process`).
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    version: u32,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<String>,
}

fn of_process(name: &str, line: &str, asker: Arc<Asker>) -> Result<AwsProvider, StoreError> {
    let origin = format!("the credential_process of the profile '{name}'");
    let words = process::words(line)
        .filter(|words| !words.is_empty())
        .ok_or_else(|| StoreError::Usage(format!("cannot run {origin}: a quote in it has no end")))?;
    Ok(Arc::new(Renewing::new(move || {
        let bytes = process::output(&words, &origin, process::LIMIT, asker.stop())?;
        let cannot = |cause: String| StoreError::Credentials(no_credentials(&origin, cause, ""));
        let printed: Printed =
            read_json(&bytes).map_err(|why| cannot(format!("what it printed is of no use: {why}")))?;
        if printed.version != 1 {
            return Err(cannot(format!("it printed version {}, weir reads 1", printed.version)));
        }
        let keys = Keys {
            key_id: printed.access_key_id,
            secret_key: printed.secret_access_key,
            token: printed.session_token,
            expires: printed.expiration.as_deref().map(expiry).transpose().map_err(cannot)?,
        };
        Ok(keys.found("", &origin))
    })))
}

/// Keys as services give them.
struct Keys {
    key_id: String,
    secret_key: String,
    token: Option<String>,
    expires: Option<SystemTime>,
}

impl Keys {
    /// `who`: whom they are of, where more is known than the id of the key.
    fn found(self, who: &str, origin: &str) -> Temporary<AwsCredential> {
        let identity = match who {
            "" => self.key_id.clone(),
            who => format!("{} ({who})", self.key_id),
        };
        let credential =
            AwsCredential { key_id: self.key_id, secret_key: self.secret_key, token: self.token };
        Temporary { found: Found { credential, identity, origin: origin.to_owned() }, expires: self.expires }
    }
}

fn expiry(text: &str) -> Result<SystemTime, String> {
    instant::parse(text).ok_or_else(|| "its time of expiry is no time".to_owned())
}
