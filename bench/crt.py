"""crt.py get|put HOST:PORT BUCKET KEY FILE [signed]: one object by Amazon's Common Runtime (awscrt), over plain HTTP."""

import os
import sys

from awscrt.auth import AwsCredentialsProvider
from awscrt.http import HttpHeaders, HttpRequest
from awscrt.io import ClientBootstrap, DefaultHostResolver, EventLoopGroup
from awscrt.s3 import S3Client, S3RequestTlsMode, S3RequestType


def main() -> None:
    way, host, bucket, key, path = sys.argv[1:6]
    loop = EventLoopGroup()
    bootstrap = ClientBootstrap(loop, DefaultHostResolver(loop))
    provider = None
    if "signed" in sys.argv[6:]:
        provider = AwsCredentialsProvider.new_static(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
    client = S3Client(
        bootstrap=bootstrap,
        region="us-east-1",
        credential_provider=provider,
        tls_mode=S3RequestTlsMode.DISABLED,
    )
    headers = HttpHeaders([("host", host)])
    if way == "get":
        request = HttpRequest("GET", f"/{bucket}/{key}", headers)
        made = client.make_request(type=S3RequestType.GET_OBJECT, request=request, recv_filepath=path)
    else:
        headers.add("content-length", str(os.path.getsize(path)))
        headers.add("content-type", "application/octet-stream")
        request = HttpRequest("PUT", f"/{bucket}/{key}", headers)
        made = client.make_request(type=S3RequestType.PUT_OBJECT, request=request, send_filepath=path)
    made.finished_future.result(600)


main()
