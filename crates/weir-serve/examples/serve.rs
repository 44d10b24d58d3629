//! How fast is the server alone? `serve DIR [--listen ADDR:PORT] [--tls PEM_OUT] [--limit-rate RATE]
//! [--generate NAME=SIZE]`

use weir_serve::{Config, Content, Server, TlsSource};
use weir_units::{Bytes, Rate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::ERROR).init();
    let mut args = std::env::args().skip(1);
    let mut config = Config::new(Content::Dir(args.next().ok_or("missing DIR")?.into()));
    let mut certificate_file = None;
    while let Some(flag) = args.next() {
        let value = args.next().ok_or("a flag lacks its value")?;
        match flag.as_str() {
            "--listen" => config.listen = vec![value.parse()?],
            "--limit-rate" => config.limit_rate = Some(value.parse::<Rate>()?),
            "--generate" => {
                let (name, size) = value.split_once('=').ok_or("expected NAME=SIZE")?;
                config.content = Content::Generated(vec![(name.to_owned(), size.parse::<Bytes>()?.0)]);
            }
            "--tls" => {
                config.tls = Some(TlsSource::SelfSigned { names: Vec::new() });
                certificate_file = Some(value);
            }
            other => return Err(format!("unknown flag {other}").into()),
        }
    }
    let server = Server::bind(config)?;
    if let (Some(file), Some(pem)) = (certificate_file, server.certificate_pem()) {
        std::fs::write(file, pem)?;
    }
    println!("{}", server.url());
    server.run();
    Ok(())
}
