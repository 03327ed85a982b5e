"""The run of ``test_spans.py`` with a real OTLP exporter; writes each span as a line of JSON.

A line is [depth, name, id of the trace, names of attributes].

The collector is a stub on loopback. A script, since a process has one provider of tracers.
"""

import gzip
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lab.servers.bad_server import BadServer
from lab.servers.playing_model import TASK, ScriptedReferee
from tests.e2e.conftest import prepared
from tests.e2e.test_tools import Asking

from kernelwright import api
from kernelwright.core.budget import Budget
from kernelwright.core.models import ModelSettings
from kernelwright.core.run import RunSpec
from kernelwright.settings import load_settings
from kernelwright.store.sqlstore import open_store

GOT: list[Any] = []


class Collector(BaseHTTPRequestHandler):
    """A stub of a collector: takes spans in protobuf over HTTP and keeps them."""

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Keep what came."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        raw = self.rfile.read(int(self.headers["Content-Length"]))
        sent = ExportTraceServiceRequest()
        sent.ParseFromString(gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw)
        GOT.extend(s for of in sent.resource_spans for scope in of.scope_spans for s in scope.spans)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def export_to(port: int) -> None:
    """Set up the process as a user would, each span sent as it ends."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider()
    exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def main(store: Path) -> None:
    """Play and print."""
    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    export_to(collector.server_port)
    with BadServer(Asking()) as server:
        models = ModelSettings(model="openai:scripted", base_url=server.url, tool_calls=1, instrument=True)
        spec = RunSpec(
            task=TASK, recipe="refine", team="llm", models=models, budget=Budget(evaluations=2), is_cold=True
        )
        settings = load_settings()
        api.play(
            spec, store=open_store(store), settings=settings, referee=ScriptedReferee(), prepare=prepared
        )
    collector.shutdown()
    spans = {one.span_id: one for one in GOT}
    for one in sorted(GOT, key=lambda span: span.start_time_unix_nano):
        depth, above = 0, one
        while above.parent_span_id in spans:
            depth, above = depth + 1, spans[above.parent_span_id]
        line = json.dumps([depth, one.name, one.trace_id.hex(), [a.key for a in one.attributes]])
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
