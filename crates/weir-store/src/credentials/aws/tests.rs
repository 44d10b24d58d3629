//! The chain, against files of a home of the test's own and services on loopback.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;
use crate::mock::{Asked, Mock, said};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// A home, and variables.
struct Host {
    home: TempDir,
    variables: HashMap<String, String>,
}

impl Host {
    fn new(files: &[(&str, &str)]) -> Host {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".aws/sso/cache")).unwrap();
        for (name, text) in files {
            fs::write(home.path().join(name), text).unwrap();
        }
        let variables = [
            ("HOME", home.path().to_str().unwrap()),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("no_proxy", "127.0.0.1"),
        ];
        let variables = variables.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        Host { home, variables }
    }

    fn set(mut self, name: &str, text: impl Into<String>) -> Host {
        self.variables.insert(name.to_owned(), text.into());
        self
    }

    fn provider(&self, flag: Option<&str>) -> Result<AwsProvider, StoreError> {
        let environment = |name: &str| self.variables.get(name).cloned();
        let flag = flag.map(|name| ProfileFlag { name, of: None });
        Aws::read(flag, None, &environment)?.provider(&Network::default())
    }

    fn found(&self, flag: Option<&str>) -> Result<Arc<Found<AwsCredential>>, String> {
        let found = self.provider(flag).and_then(|provider| provider.current());
        found.map_err(|error| {
            let text = format!("{error} {error:?}");
            assert!(!text.contains(SECRET), "{text}");
            error.to_string()
        })
    }
}

fn config(text: &str) -> Host {
    Host::new(&[(".aws/config", text)])
}

fn credentials_xml(action: &str, until: &str) -> String {
    format!(
        "<{action}Response><{action}Result><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>\
         <SecretAccessKey>{SECRET}</SecretAccessKey><SessionToken>t</SessionToken>\
         <Expiration>{until}</Expiration></Credentials></{action}Result></{action}Response>"
    )
}

const FAR: &str = "2099-01-01T00:00:00Z";

#[test]
fn the_environment_comes_first_and_a_flag_before_it() {
    let keys = format!("[default]\naws_access_key_id=AKIADEFAULT\naws_secret_access_key={SECRET}\n");
    let host = Host::new(&[(".aws/credentials", &keys)]);
    let found = host.found(None).unwrap();
    assert_eq!((found.identity.as_str(), found.credential.token.as_deref()), ("AKIADEFAULT", None));
    assert_eq!(found.origin, "the profile 'default' in ~/.aws/credentials");
    assert!(!format!("{found:?}").contains(SECRET));
    let host = host.set("AWS_ACCESS_KEY_ID", "AKIAENV");
    assert!(host.found(None).unwrap_err().contains("AWS_SECRET_ACCESS_KEY is not"));
    let host = host.set("AWS_SECRET_ACCESS_KEY", SECRET).set("AWS_SESSION_TOKEN", "token");
    let found = host.found(None).unwrap();
    assert_eq!((found.identity.as_str(), found.credential.token.as_deref()), ("AKIAENV", Some("token")));
    assert_eq!(host.found(Some("default")).unwrap().identity, "AKIADEFAULT");
}

#[test]
fn a_profile_is_read_from_both_files_and_a_missing_one_says_which_there_are() {
    let keys = format!("[b]\naws_access_key_id=AKIAB\naws_secret_access_key={SECRET}\n");
    let text = "[default]\nregion=r1\n[profile a]\nregion = r2\nservices = s\nendpoint_url=http://h:2\n\
                [services s]\ns3 =\n  endpoint_url = http://h:1\n";
    let host = Host::new(&[(".aws/credentials", &keys), (".aws/config", text)]);
    let host = host.set("AWS_PROFILE", "a");
    let environment = |name: &str| host.variables.get(name).cloned();
    let aws = Aws::read(None, None, &environment).unwrap();
    assert_eq!(aws.region().as_deref(), Some("r2"));
    assert_eq!(aws.endpoint("s3").as_deref(), Some("http://h:1"));
    assert_eq!(aws.endpoint("sts").as_deref(), Some("http://h:2"));
    let why = host.found(Some("c")).unwrap_err();
    assert!(why.contains("there is no profile 'c' (named by --profile)"), "{why}");
    assert!(why.ends_with("there are a, b, default"), "{why}");
    assert_eq!(host.found(Some("b")).unwrap().identity, "AKIAB");
    let elsewhere = host.home.path().join("elsewhere");
    fs::write(&elsewhere, "[c]\naws_access_key_id=AKIAC\naws_secret_access_key=s\n").unwrap();
    let host = host.set("AWS_SHARED_CREDENTIALS_FILE", "~/elsewhere");
    assert_eq!(host.found(Some("c")).unwrap().identity, "AKIAC");
}

#[test]
fn a_profile_of_one_end_stands_above_what_is_said_of_both() {
    let text = "[profile old]\nregion=r2\nendpoint_url=http://old:1\n[profile bare]\nregion=r3\n";
    let host = Host::new(&[(".aws/config", text)]);
    let host = host.set("AWS_ENDPOINT_URL", "http://both:1").set("AWS_REGION", "r1");
    let read = |host: &Host, name: &str, of: Option<End>| {
        let environment = |name: &str| host.variables.get(name).cloned();
        let environment = |name: &str| End::Source.value(&environment, name);
        let aws = Aws::read(Some(ProfileFlag { name, of }), Some(End::Source), &environment)
            .map_err(|e| e.to_string());
        aws.map(|aws| {
            (aws.region().unwrap(), aws.endpoint("s3").unwrap(), aws.agrees_on("http://both:1/").is_ok())
        })
    };
    let is = |region: &str, endpoint: &str, agrees| Ok((region.to_owned(), endpoint.to_owned(), agrees));
    assert_eq!(read(&host, "old", None), is("r1", "http://both:1", true));
    assert_eq!(read(&host, "old", Some(End::Source)), is("r2", "http://old:1", false));
    assert_eq!(read(&host, "bare", Some(End::Source)), is("r3", "http://both:1", true));
    let no = read(&host, "none", Some(End::Source)).unwrap_err();
    assert!(no.contains("'none' (named by --source-profile)"), "{no}");
    // A variable of this end stands above its profile.
    let host = host.set("WEIR_SOURCE_AWS_ENDPOINT_URL", "http://own:1");
    assert_eq!(read(&host, "old", Some(End::Source)), is("r2", "http://own:1", false));
}

#[test]
fn what_cannot_be_read_is_named_by_file_and_line() {
    let bad = format!("[default]\n{SECRET}\n");
    let why = Host::new(&[(".aws/credentials", &bad)]).found(None).unwrap_err();
    assert!(why.contains("cannot read ~/.aws/credentials: line 2 is no 'name = value'"), "{why}");
    let half = "[default]\naws_access_key_id = AKIA\n";
    let why = Host::new(&[(".aws/credentials", half)]).found(None).unwrap_err();
    assert!(why.contains("without an aws_secret_access_key"), "{why}");
    // A folder in its place: others go on without it, and nobody is surprised that its keys are not found.
    let host = Host::new(&[]);
    fs::create_dir(host.home.path().join(".aws/credentials")).unwrap();
    let why = host.found(None).unwrap_err();
    assert!(why.contains("~/.aws/credentials (is a directory) and ~/.aws/config"), "{why}");
}

#[test]
fn where_nobody_is_named_all_places_are() {
    let why = Host::new(&[]).found(None).unwrap_err();
    for part in
        ["AWS_ACCESS_KEY_ID", "~/.aws/credentials", "container", "AWS_EC2_METADATA_DISABLED", "--no-sign"]
    {
        assert!(why.contains(part), "{part} in {why}");
    }
}

#[test]
fn new_keys_of_a_file_are_read_when_the_old_ones_have_run_out() {
    let text = |id: &str| format!("[default]\naws_access_key_id={id}\naws_secret_access_key={SECRET}\n");
    let host = Host::new(&[(".aws/credentials", &text("AKIAOLD"))]);
    let provider = host.provider(None).unwrap();
    let used = provider.current().unwrap();
    assert!(provider.renewed(&used).unwrap().is_none());
    fs::write(host.home.path().join(".aws/credentials"), text("AKIANEW")).unwrap();
    let used = provider.current().unwrap();
    assert_eq!(provider.renewed(&used).unwrap().unwrap().identity, "AKIANEW");
}

#[test]
fn a_role_is_assumed_with_the_keys_of_its_source() {
    let sts = Mock::new(|asked: &Asked| {
        assert!(asked.field("authorization").contains("Credential=AKIASOURCE/"), "{asked:?}");
        assert!(asked.field("authorization").contains("/eu-west-1/sts/aws4_request"), "{asked:?}");
        said(200, credentials_xml("AssumeRole", FAR))
    });
    let text = format!(
        "[profile r]\nrole_arn=arn:aws:iam::1:role/x\nsource_profile=s\nexternal_id=e\nregion=eu-west-1\n\
         role_session_name=me\nduration_seconds=900\n[profile s]\naws_access_key_id=AKIASOURCE\n\
         aws_secret_access_key={SECRET}\n"
    );
    let host = config(&text).set("AWS_ENDPOINT_URL_STS", sts.url.clone());
    let found = host.found(Some("r")).unwrap();
    assert_eq!(found.identity, "ASIAROLE (arn:aws:iam::1:role/x)");
    assert_eq!(found.credential.token.as_deref(), Some("t"));
    let asked = &sts.asked()[0];
    for part in ["Action=AssumeRole&", "RoleSessionName=me", "ExternalId=e", "DurationSeconds=900"] {
        assert!(asked.body.contains(part), "{part} in {}", asked.body);
    }
    assert_eq!(sts.asked().len(), 1);
}

#[test]
fn roles_that_cannot_be_assumed_say_why() {
    let refusal = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\
                   <Message>User x is not authorized</Message></Error></ErrorResponse>";
    let sts = Mock::new(move |_| said(403, refusal));
    let source = format!("[profile s]\naws_access_key_id=AKIASOURCE\naws_secret_access_key={SECRET}\n");
    let role = "[profile r]\nrole_arn=arn:aws:iam::1:role/x\n";
    let why = |text: &str| {
        let host = config(&format!("{source}{role}{text}")).set("AWS_ENDPOINT_URL_STS", sts.url.clone());
        host.found(Some("r")).unwrap_err()
    };
    let told = why("source_profile=s\n");
    for part in ["role arn:aws:iam::1:role/x", "AccessDenied: User x is not", "asked as AKIASOURCE of"] {
        assert!(told.contains(part), "{told}");
    }
    assert!(
        why("source_profile=none\n").contains("there is no profile 'none' (named by source_profile of 'r')")
    );
    assert!(
        why("source_profile=t\n[profile t]\nrole_arn=a\nsource_profile=r\n").contains("lead to each other")
    );
    assert!(why("source_profile=t\n[profile t]\nregion=r\n").contains("'t' has no credentials"));
    assert!(why("credential_source=Moon\n").contains("'Moon'"));
    assert!(why("source_profile=s\nmfa_serial=m\n").contains("mfa_serial"));
    // Keys of its own are those of somebody else than the role.
    for own in ["", "aws_access_key_id=AKIAOWN\naws_secret_access_key=x\n"] {
        assert!(why(own).contains("the profile 'r' names a role and nobody who assumes it"));
    }
    let why_of_source = why("source_profile=t\n[profile t]\nrole_arn=a\n");
    assert!(why_of_source.contains("the profile 't' names a role and nobody who assumes it"));
    let of_source = format!(
        "source_profile=t\n[profile t]\nrole_arn=a\naws_access_key_id=AKIAT\naws_secret_access_key={SECRET}\n"
    );
    assert!(why(&of_source).contains("asked as AKIAT of"), "the keys of its source");
    let own = format!("source_profile=r\naws_access_key_id=AKIAOWN\naws_secret_access_key={SECRET}\n");
    assert!(why(&own).contains("asked as AKIAOWN of"), "its own source");
}

#[test]
fn a_web_identity_is_traded_for_keys_and_its_token_is_not_told() {
    let is_good = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let good = Arc::clone(&is_good);
    let sts = Mock::new(move |asked: &Asked| {
        assert_eq!(asked.field("authorization"), "");
        assert!(asked.body.contains("WebIdentityToken=geheimes-token"), "{}", asked.body);
        match good.load(std::sync::atomic::Ordering::SeqCst) {
            true => said(200, credentials_xml("AssumeRoleWithWebIdentity", FAR)),
            false => said(
                400,
                "<ErrorResponse><Error><Code>InvalidIdentityToken</Code>\
                <Message>geheimes-token is bad</Message></Error></ErrorResponse>",
            ),
        }
    });
    let host = Host::new(&[("token", "geheimes-token\n")]).set("AWS_ENDPOINT_URL_STS", sts.url.clone());
    let host = host.set("AWS_WEB_IDENTITY_TOKEN_FILE", "~/token");
    assert!(host.found(None).unwrap_err().contains("AWS_ROLE_ARN"));
    let host = host.set("AWS_ROLE_ARN", "arn:aws:iam::1:role/w");
    assert_eq!(host.found(None).unwrap().identity, "ASIAROLE (arn:aws:iam::1:role/w)");
    is_good.store(false, std::sync::atomic::Ordering::SeqCst);
    let why = host.found(None).unwrap_err();
    assert!(why.contains("InvalidIdentityToken: REDACTED is bad"), "{why}");
    fs::remove_file(host.home.path().join("token")).unwrap();
    assert!(host.found(None).unwrap_err().contains("token: no such file"));
}

#[test]
fn a_program_gives_keys() {
    let host = |line: &str| config(&format!("[profile p]\ncredential_process = {line}\n"));
    let json =
        format!(r#"{{"Version":1,"AccessKeyId":"AKIAP","SecretAccessKey":"{SECRET}","Expiration":"{FAR}"}}"#);
    assert_eq!(host(&format!("sh -c 'echo '\\''{json}'\\'")).found(Some("p")).unwrap().identity, "AKIAP");
    let why = host(&format!("echo {SECRET}")).found(Some("p")).unwrap_err();
    assert!(why.contains("is no JSON (line 1, column 1)"), "{why}");
    assert!(host("echo '{\"Version\":2}'").found(Some("p")).unwrap_err().contains("lacks a member"));
    assert!(host("sh 'x").found(Some("p")).unwrap_err().contains("a quote in it has no end"));
}

fn login(until: &str, more: &str) -> (Host, std::path::PathBuf) {
    let text = "[profile l]\nsso_session=s\nsso_account_id=1\nsso_role_name=R\n\
                [sso-session s]\nsso_region=eu-west-1\nsso_start_url=https://x\n";
    let name = format!(".aws/sso/cache/{}.json", hex_of("s"));
    let json = format!(r#"{{"accessToken":"geheimes-altes","expiresAt":"{until}"{more}}}"#);
    let host = Host::new(&[(".aws/config", text), (&name, &json)]);
    let path = host.home.path().join(name);
    (host, path)
}

fn hex_of(text: &str) -> String {
    weir_codec::hex::encode(&weir_codec::digest::Algorithm::SHA1.of(text.as_bytes()))
}

fn portal() -> Mock {
    Mock::new(|asked: &Asked| match (asked.target.as_str(), asked.field("x-amz-sso_bearer_token")) {
        ("/federation/credentials?role_name=R&account_id=1", "geheimes-altes" | "geheimes-neues") => {
            let until = SystemTime::now() + Duration::from_secs(3600);
            let until = until.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
            said(
                200,
                format!(
                    r#"{{"roleCredentials":{{"accessKeyId":"ASIASSO","secretAccessKey":"{SECRET}","sessionToken":"t","expiration":{until}}}}}"#
                ),
            )
        }
        ("/token", _) if asked.body.contains(r#""refreshToken":"geheimes-r1""#) => {
            said(200, r#"{"accessToken":"geheimes-neues","expiresIn":28800,"refreshToken":"geheimes-r2"}"#)
        }
        _ => said(401, r#"{"message":"Session token not found or invalid"}"#),
    })
}

#[test]
fn a_login_gives_keys_of_its_role() {
    let portal = portal();
    let (host, _) = login(FAR, "");
    let host = host.set("AWS_ENDPOINT_URL_SSO", portal.url.clone());
    let found = host.found(Some("l")).unwrap();
    assert_eq!(found.identity, "ASIASSO (role R of account 1)");
    assert_eq!(found.origin, "the login 's' of the profile 'l'");
}

#[test]
fn a_login_that_has_run_out_is_renewed_and_kept_or_named() {
    let portal = portal();
    let at = |host: Host| {
        host.set("AWS_ENDPOINT_URL_SSO", portal.url.clone())
            .set("AWS_ENDPOINT_URL_SSO_OIDC", portal.url.clone())
    };
    let (host, _) = login("2020-01-01T00:00:00Z", "");
    let why = at(host).found(Some("l")).unwrap_err();
    assert!(why.ends_with("it has expired; log in with aws sso login --profile l"), "{why}");
    let more = format!(
        r#","clientId":"c","clientSecret":"geheimes-c","refreshToken":"geheimes-r1","registrationExpiresAt":"{FAR}""#
    );
    let (host, cache) = login("2020-01-01T00:00:00Z", &more);
    let host = at(host);
    assert_eq!(host.found(Some("l")).unwrap().identity, "ASIASSO (role R of account 1)");
    let kept = fs::read_to_string(&cache).unwrap();
    assert!(
        kept.contains("geheimes-neues") && kept.contains("geheimes-r2") && kept.contains("\"c\""),
        "{kept}"
    );
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_file(&cache).unwrap();
    assert!(host.found(Some("l")).unwrap_err().contains("nobody has logged in; log in with"));
}

#[test]
fn a_container_gives_keys_for_its_token() {
    let service = Mock::new(|asked: &Asked| match asked.field("authorization") {
        "geheimes-token" => said(
            200,
            format!(
                r#"{{"AccessKeyId":"ASIAC","SecretAccessKey":"{SECRET}","Token":"t","Expiration":"{FAR}","RoleArn":"arn:r"}}"#
            ),
        ),
        _ => said(401, r#"{"message":"geheimes-token wanted"}"#),
    });
    let host = Host::new(&[("token", "geheimes-token\n")]);
    let host = host.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/v2/x", service.url));
    let why = host.found(None).unwrap_err();
    assert!(
        why.contains("the container (AWS_CONTAINER_CREDENTIALS_FULL_URI)") && why.contains("401"),
        "{why}"
    );
    let host = host.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "~/token");
    assert_eq!(host.found(None).unwrap().identity, "ASIAC (arn:r)");
    let host = host
        .set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "")
        .set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "a\r\nb");
    assert!(host.found(None).unwrap_err().contains("letters that no field can hold"));
    let host = host.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/x");
    assert!(host.found(None).unwrap_err().contains("only https goes there"));
}

#[test]
fn a_profile_says_what_hosts_of_s3_are_called() {
    let said = |text: &str, variables: &[(&str, &str)]| {
        let host = config(&format!("[default]\n{text}"));
        let host = variables.iter().fold(host, |host, (name, value)| host.set(name, *value));
        let environment = |name: &str| host.variables.get(name).cloned();
        let aws = Aws::read(None, None, &environment).unwrap();
        (aws.s3_host(), aws.path_style())
    };
    let style = |style: &str, more: &str| format!("s3 =\n  addressing_style = {style}\n{more}");
    assert_eq!(said("", &[]), ("s3", None));
    assert_eq!(said(&style("path", "use_fips_endpoint = true\n"), &[]), ("s3-fips", Some(true)));
    let dual = style("virtual", "use_dualstack_endpoint = true\n");
    assert_eq!(said(&dual, &[]), ("s3.dualstack", Some(false)));
    assert_eq!(said(&dual, &[("AWS_USE_FIPS_ENDPOINT", "true")]), ("s3-fips.dualstack", Some(false)));
    let fips = style("auto", "use_fips_endpoint = true\n");
    assert_eq!(said(&fips, &[("AWS_USE_FIPS_ENDPOINT", "false")]), ("s3", None));
    assert_eq!([domain("cn-north-1"), domain("eu-north-1")], ["amazonaws.com.cn", "amazonaws.com"]);
}

/// The metadata of a host; `version`: 2 wants a token, 1 knows none, 0 is silent when it is asked for one, 3
/// wants one and is silent too.
fn metadata(version: u8, role: &'static str) -> Mock {
    Mock::new(move |asked: &Asked| {
        let has_token = asked.field("x-aws-ec2-metadata-token") == "geheim";
        match (asked.method.as_str(), asked.target.as_str(), version) {
            ("PUT", "/latest/api/token", 2) => said(200, "geheim"),
            ("PUT", _, 0 | 3) => loop {
                std::thread::park();
            },
            ("PUT", ..) => said(404, ""),
            (_, _, 2 | 3) if !has_token => said(401, ""),
            (_, "/latest/meta-data/iam/security-credentials/", _) if role.is_empty() => said(404, ""),
            (_, "/latest/meta-data/iam/security-credentials/", _) => said(200, role),
            (_, "/latest/meta-data/iam/security-credentials/web", _) => said(
                200,
                format!(
                    r#"{{"Code":"Success","AccessKeyId":"ASIAH","SecretAccessKey":"{SECRET}","Token":"t","Expiration":"{FAR}"}}"#
                ),
            ),
            _ => said(500, ""),
        }
    })
}

#[test]
fn the_metadata_of_the_host_is_asked_last() {
    let host = |mock: &Mock| {
        let host = Host::new(&[]).set("AWS_EC2_METADATA_DISABLED", "");
        host.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", mock.url.clone())
    };
    for version in [0, 1, 2] {
        let mock = metadata(version, "web");
        let found = host(&mock).found(None).unwrap();
        assert_eq!(
            (found.identity.as_str(), found.origin.as_str()),
            ("ASIAH (role web)", "the metadata of this host")
        );
    }
    let mock = metadata(0, "web");
    let why = host(&mock).set("AWS_EC2_METADATA_V1_DISABLED", "true").found(None).unwrap_err();
    assert!(why.contains("sent nothing for 1 s") && !why.contains("--timeout"), "{why}");
    let why = host(&metadata(3, "web")).found(None).unwrap_err();
    assert!(why.contains("it wants a token, and gave none when it was asked for one"), "{why}");
    let mock = metadata(1, "web");
    let why = host(&mock).set("AWS_EC2_METADATA_V1_DISABLED", "true").found(None).unwrap_err();
    assert!(why.contains("with 404") && why.contains("--no-sign"), "{why}");
    let why = host(&metadata(2, "")).found(None).unwrap_err();
    assert!(why.contains("it has no role"), "{why}");
    assert!(host(&metadata(2, "../x")).found(None).unwrap_err().contains("it has no role"));
    // Nobody listens there, nor can while the socket is kept: no long wait, and all places are named.
    let held = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let held = held.unwrap();
    rustix::net::bind(&held, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let gone: std::net::SocketAddr = rustix::net::getsockname(&held).unwrap().try_into().unwrap();
    let began = std::time::Instant::now();
    let host = host(&metadata(2, "")).set("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("http://{gone}"));
    let why = host.found(None).unwrap_err();
    assert!(why.contains("cannot connect to") && why.contains("~/.aws/config"), "{why}");
    assert!(began.elapsed() < Duration::from_secs(20));
}
