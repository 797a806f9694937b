"""Asks the API by gRPC and the admin listener by HTTPS, as a program with another TLS library than Go's does.

tls.py API ADMIN CA [CERT KEY], the addresses as HOST:PORT. Prints a word for each.
"""

import ssl
import sys
import urllib.request

import grpc

api, admin, ca, *pair = sys.argv[1:]


def read(path):
    with open(path, "rb") as f:
        return f.read()


cert, key = (read(path) for path in pair) if pair else (None, None)
with grpc.secure_channel(api, grpc.ssl_channel_credentials(read(ca), key, cert)) as channel:
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    try:
        print("api", "SERVING" if check(b"", timeout=20) == b"\x08\x01" else "?")
    except grpc.RpcError as error:
        print("api", error.code().name, error.details())

context = ssl.create_default_context(cafile=ca)
if pair:
    context.load_cert_chain(*pair)
try:
    print("admin", urllib.request.urlopen(f"https://{admin}/readyz", context=context, timeout=20).status)
except OSError as error:
    print("admin", "refused", error)
