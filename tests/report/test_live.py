"""The live page: on this machine alone, made anew at each visit, and ended by one sentence."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from cairn.core.errors import CairnError
from cairn.report.live import Server, serve
from tests.report.folders import write_run


@pytest.fixture
def server(tmp_path):
    write_run(tmp_path / "run", [1, 2])
    with Server([tmp_path / "run"], 0, 5) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path="/", method="GET", **headers):
    link = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    link.request(method, path, headers=headers)
    answer = link.getresponse()
    body = answer.read().decode()
    link.close()
    return answer, body


def test_it_is_bound_to_loopback_alone(server):
    assert server.socket.getsockname()[0] == "127.0.0.1" and server.address.startswith("http://127.0.0.1:")
    with socket.socket() as elsewhere:  # all of 127/8 is this machine, and the server hears one address of it
        elsewhere.settimeout(5)
        assert elsewhere.connect_ex(("127.0.0.2", server.server_port)) != 0


def test_the_page_follows_the_run(server, tmp_path):
    answer, body = ask(server)
    assert answer.status == 200 and answer.getheader("Cache-Control") == "no-store"
    assert '<meta http-equiv="refresh" content="5"/>' in body and "Best evaluations: 2." in body
    write_run(tmp_path / "run", [1, 2, 77])
    assert "Best evaluations: 77." in ask(server)[1]
    (tmp_path / "run" / "config.json").write_text("{")
    assert "cut short" in ask(server)[1]
    for name in ("config.json", "metrics.csv"):
        (tmp_path / "run" / name).unlink()
    answer, body = ask(server)
    assert answer.status == 200 and "holds no run" in body and "refresh" in body  # it may come yet


def test_one_page_for_one_host(server):
    assert ask(server, "/../../etc/passwd")[0].status == 404 and ask(server, "/config.json")[0].status == 404
    assert ask(server, Host="evil.example")[0].status == 403
    assert ask(server, Host=f"localhost:{server.server_port}")[0].status == 200
    answer, body = ask(server, method="HEAD")
    assert answer.status == 200 and body == ""
    assert ask(server, method="POST")[0].status == 501


def test_a_port_that_cannot_be_had_is_one_sentence(server):
    with pytest.raises(CairnError, match=f"port {server.server_port} is taken; name another"):
        Server(server.paths, server.server_port, 5)
    with pytest.raises(CairnError, match="port is 99999; it must be at most 65535"):
        Server(server.paths, 99_999, 5)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(CairnError, match="there is no run folder"):
        serve([tmp_path / "none"], port=0, refresh=5)


def test_ctrl_c_ends_it_with_one_sentence(tmp_path):
    write_run(tmp_path / "run", [1, 2])
    command = [sys.executable, "-m", "cairn", "report", str(tmp_path / "run"), "--live", "--port", "0"]
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 - a shell's background jobs ignore it
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, preexec_fn=heard, **pipes)
    first = process.stdout.readline()
    assert first.startswith("http://127.0.0.1:") and "stop it with Ctrl-C" in first
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err == ""
    assert out.strip() == "the report server has stopped; trainings continue."
