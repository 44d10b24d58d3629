//! The environment that a store's words are read from: a parameter, so that tests have one of their own; and
//! what of it is of one end of a copy alone.

/// The environment: a variable's value, if it is set.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// An end of a copy, where the two are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Where it is from.
    Source,
    /// Where it goes.
    Target,
}

/// Variables that say together who asks. Of one end they are taken together or not at all: the token of one
/// key does not go with another.
const ASKERS: [&[&str]; 3] = [
    &[
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_SECURITY_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_PROFILE",
        "AWS_ROLE_ARN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    ],
    &[
        "GOOGLE_OAUTH_ACCESS_TOKEN",
        "CLOUDSDK_AUTH_ACCESS_TOKEN",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS",
    ],
    &[
        "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_STORAGE_ACCOUNT",
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_KEY",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_BLOB_ENDPOINT",
        "AZURE_STORAGE_ENDPOINT",
        "AZURE_STORAGE_SERVICE_ENDPOINT",
        "AZURE_CLIENT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_CLIENT_CERTIFICATE_PATH",
        "AZURE_TENANT_ID",
        "AZURE_FEDERATED_TOKEN_FILE",
    ],
];

/// Variables that say together where a service is.
const PLACES: [&[&str]; 3] = [
    &["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_STS"],
    &["AWS_REGION", "AWS_DEFAULT_REGION"],
    &["STORAGE_EMULATOR_HOST", "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"],
];

impl End {
    /// In a sentence.
    pub fn name(self) -> &'static str {
        match self {
            End::Source => "source",
            End::Target => "target",
        }
    }

    /// The variable that says for this end alone what `name` says for both.
    pub fn variable(self, name: &str) -> String {
        match self {
            End::Source => format!("WEIR_SOURCE_{name}"),
            End::Target => format!("WEIR_TARGET_{name}"),
        }
    }

    /// The value of a variable for this end: its own, or that of both, unless another one of its kind is this
    /// end's own.
    pub fn value(self, environment: Environment<'_>, name: &str) -> Option<String> {
        let own = |name: &str| set(environment, &self.variable(name));
        own(name).or_else(|| {
            let kind = ASKERS.iter().chain(&PLACES).find(|kind| kind.contains(&name));
            let has_other = kind.is_some_and(|kind| kind.iter().any(|other| own(other).is_some()));
            if has_other { None } else { environment(name) }
        })
    }

    /// What a person calls the variable that says `name` for this end.
    pub fn named(self, environment: Environment<'_>, name: &str) -> String {
        match set(environment, &self.variable(name)) {
            Some(_) => self.variable(name),
            None => name.to_owned(),
        }
    }
}

fn set(environment: Environment<'_>, name: &str) -> Option<String> {
    environment(name).filter(|text| !text.is_empty())
}

/// The environment names the same asker for both ends.
pub fn has_one_asker(environment: Environment<'_>) -> bool {
    let is_same = |name: &&str| End::Source.value(environment, name) == End::Target.value(environment, name);
    ASKERS.iter().flat_map(|kind| kind.iter()).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(end: End, name: &str, set: &[(&str, &str)]) -> Option<String> {
        let of = |name: &str| set.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        end.value(&of, name)
    }

    #[test]
    fn an_end_has_its_own_or_that_of_both_and_never_a_mixture() {
        let set = [
            ("AWS_ACCESS_KEY_ID", "both"),
            ("AWS_SESSION_TOKEN", "token"),
            ("AWS_ENDPOINT_URL_S3", "http://both"),
            ("AWS_REGION", "here"),
            ("WEIR_SOURCE_AWS_ACCESS_KEY_ID", "own"),
            ("WEIR_SOURCE_AWS_ENDPOINT_URL", "http://own"),
            ("WEIR_TARGET_AWS_PROFILE", ""),
        ];
        let of = |end, name| value(end, name, &set);
        assert_eq!(of(End::Source, "AWS_ACCESS_KEY_ID").as_deref(), Some("own"));
        assert_eq!(of(End::Source, "AWS_SESSION_TOKEN"), None);
        assert_eq!(of(End::Source, "AWS_ENDPOINT_URL_S3"), None);
        assert_eq!(of(End::Source, "AWS_ENDPOINT_URL").as_deref(), Some("http://own"));
        assert_eq!(of(End::Source, "AWS_REGION").as_deref(), Some("here"));
        assert_eq!(of(End::Target, "AWS_ACCESS_KEY_ID").as_deref(), Some("both"));
        assert_eq!(of(End::Target, "AWS_SESSION_TOKEN").as_deref(), Some("token"));
        assert_eq!(of(End::Target, "AWS_ENDPOINT_URL_S3").as_deref(), Some("http://both"));
    }

    #[test]
    fn one_asker_or_two() {
        let one = |set: &[(&str, &str)]| {
            has_one_asker(&|name| {
                set.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(one(&[]) && one(&[("AWS_PROFILE", "a")]));
        assert!(one(&[("WEIR_SOURCE_AWS_REGION", "a")]));
        assert!(!one(&[("AWS_PROFILE", "a"), ("WEIR_SOURCE_AWS_PROFILE", "b")]));
        assert!(!one(&[("WEIR_TARGET_AZURE_STORAGE_KEY", "a")]));
    }
}
