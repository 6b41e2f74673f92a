"""A small S3 server for tests: what spilling needs of the protocol, in memory, with faults on demand.

It speaks PUT, GET with ranges, HEAD, DELETE, the listing of keys, the deletion of many and uploads in parts. Signatures are not computed; that each
request carries one by the right key is checked, and so are the digests of bodies.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

KEY_ID = "AKIATESTTESTTEST"
SECRET = "a-secret-that-nobody-shows"
BUCKET = "bucket"


class S3:
    """The server and what lies in its one bucket."""

    def __init__(self, certificate=None, key=None):
        self.scheme, self.host = ("https", "localhost") if certificate else ("http", "127.0.0.1")
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[tuple[str, str]] = []
        self.refused: list[str] = []
        # So many requests from now on are answered with 503.
        self.faults = 0
        # Requests wait here when it is not set; those that do are listed.
        self.held: list[str] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        # If set: after so many reads it is not set any more.
        self.reads_left: int | None = None
        self.is_denied = False
        self.lock = threading.Lock()
        self.server = Server(self)
        self.port = self.server.server_address[1]
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            # The handshake is made by the thread of the connection.
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def environ(self):
        """What tells a client of it."""
        return {
            "AWS_ENDPOINT_URL": f"{self.scheme}://{self.host}:{self.port}",
            "AWS_REGION": "eu-test-1",
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def names(self):
        """Names of all objects."""
        with self.lock:
            return sorted(self.objects)

    def damage(self):
        """A byte in the middle of each 256 KiB of all objects changes."""
        with self.lock:
            for key, content in self.objects.items():
                spoiled = bytearray(content)
                spoiled[128 << 10 :: 256 << 10] = bytes(255 - byte for byte in spoiled[128 << 10 :: 256 << 10])
                self.objects[key] = bytes(spoiled)

    def lose(self):
        """All objects are gone."""
        with self.lock:
            self.objects.clear()

    def stop(self):
        """Nobody listens any more. May be called twice."""
        self.goes_on.set()
        if self.thread.is_alive():
            self.server.shutdown()
            self.server.server_close()
            self.thread.join()
        self.server.hang_up()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, s3):
        self.s3 = s3
        self.connections = set()
        super().__init__(("127.0.0.1", 0), Handler)

    def hang_up(self):
        """Connections that clients keep for later end too."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(2)

    def handle_error(self, request, client_address):
        """A client that went away is no news."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        self.server.connections.add(self.request)
        super().setup()

    def finish(self):
        self.server.connections.discard(self.request)
        super().finish()

    def log_message(self, *_):
        """Nothing is printed."""

    def handle_any(self):
        s3 = self.server.s3
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        if len(body) < size:
            # Whoever sent this died meanwhile, as some tests want it: no request at all.
            self.close_connection = True
            return None
        if self.command == "GET" and s3.reads_left is not None:
            s3.reads_left -= 1
            if s3.reads_left < 0:
                s3.goes_on.clear()
                s3.reads_left = None
        if not s3.goes_on.is_set():
            s3.held.append(self.command)
            s3.goes_on.wait()
        with s3.lock:
            s3.requests.append((self.command, self.path))
            if s3.faults:
                s3.faults -= 1
                return self.answer(503, error("SlowDown"))
            if (why := self.what_is_wrong(body)) is not None:
                s3.refused.append(why)
                return self.answer(400, error("InvalidRequest"))
            if s3.is_denied:
                return self.answer(403, error(f"AccessDenied</Code><AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId><Code>"))
            if bucket != BUCKET:
                return self.answer(404, error("NoSuchBucket"))
            return getattr(self, "on_" + self.command.lower())(s3, key, query, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def what_is_wrong(self, body):
        signed = self.headers.get("Authorization", "")
        if not re.match(rf"AWS4-HMAC-SHA256 Credential={KEY_ID}/\d+/eu-test-1/s3/aws4_request, ", signed):
            return "not signed"
        digest = self.headers.get("x-amz-content-sha256")
        if digest != "UNSIGNED-PAYLOAD" and digest != hashlib.sha256(body).hexdigest():
            return "the digest is of another body"
        if SECRET in str(self.headers) + self.path:
            return "the secret travels"
        return None

    def on_put(self, s3, key, query, body):
        if "uploadId" not in query:
            s3.objects[key] = body
        elif query["uploadId"] in s3.uploads:
            s3.uploads[query["uploadId"]][int(query["partNumber"])] = body
        else:
            return self.answer(404, error("NoSuchUpload"))
        return self.answer(200, etag=body)

    def on_post(self, s3, key, query, body):
        if "delete" in query:
            if "content-md5" not in self.headers and "x-amz-checksum-sha256" not in self.headers:
                return self.answer(400, error("MissingContentMD5"))
            keys = [unescape(name) for name in re.findall(r"<Key>(.*?)</Key>", body.decode())]
            for name in keys:
                s3.objects.pop(name, None)
            deleted = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in keys)
            return self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())
        if "uploads" in query:
            upload = f"upload-{len(s3.requests)}"
            s3.uploads[upload] = {}
            names = f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>"
            return self.answer(200, f"<InitiateMultipartUploadResult>{names}</InitiateMultipartUploadResult>".encode())
        parts = s3.uploads.pop(query.get("uploadId"), None)
        if parts is None:
            return self.answer(404, error("NoSuchUpload"))
        s3.objects[key] = b"".join(parts[number] for number in sorted(parts))
        done = f"<Key>{escape(key)}</Key><ETag>&quot;whole&quot;</ETag>"
        return self.answer(200, f"<CompleteMultipartUploadResult>{done}</CompleteMultipartUploadResult>".encode())

    def on_get(self, s3, key, query, body):
        if "list-type" in query:
            return self.answer(200, listing(s3, query))
        if key not in s3.objects:
            return self.answer(404, error("NoSuchKey"))
        content = s3.objects[key]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted is None:
            return self.answer(200, content, etag=content)
        first, last = int(wanted[1]), min(int(wanted[2]), len(content) - 1)
        if first > last:
            return self.answer(416, error("InvalidRange"))
        spread = f"bytes {first}-{last}/{len(content)}"
        return self.answer(206, content[first : last + 1], etag=content, more={"Content-Range": spread})

    on_head = on_get

    def on_delete(self, s3, key, query, body):
        if "uploadId" in query:
            s3.uploads.pop(query["uploadId"], None)
        else:
            s3.objects.pop(key, None)
        return self.answer(204)

    def answer(self, status, body=b"", etag=None, more=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Sun, 15 Nov 2026 12:00:00 GMT")
        if etag is not None:
            self.send_header("ETag", f'"{hashlib.md5(etag[:4096]).hexdigest()}"')
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def listing(s3, query):
    """Two keys to a page, so that whoever lists must ask again."""
    prefix, start = query.get("prefix", ""), base64.b64decode(query.get("continuation-token", "")).decode()
    keys = [key for key in sorted(s3.objects) if key.startswith(prefix) and key > start]
    page, rest = keys[:2], keys[2:]
    entries = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-15T12:00:00.000Z</LastModified>"
        f"<ETag>&quot;tag&quot;</ETag><Size>{len(s3.objects[key])}</Size></Contents>"
        for key in page
    )
    if rest:
        token = base64.b64encode(page[-1].encode()).decode()
        entries += f"<NextContinuationToken>{token}</NextContinuationToken>"
    entries += f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated>"
    return f"<ListBucketResult><Name>{BUCKET}</Name>{entries}</ListBucketResult>".encode()


def error(code):
    return f"<Error><Code>{code}</Code><Message>as the test wants it</Message></Error>".encode()


def unescape(text):
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")
