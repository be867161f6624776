"""Who may do what: tokens and roles, TLS, addresses; and Schemathesis finds no answer 500."""

import ssl

import pytest

from predictors.core.errors import JobcastError
from predictors.service.api.admission import MOST_CLIENTS, Buckets, matching_token, new_token, read_tokens
from predictors.service.api.lifecycle import Listening
from predictors.service.client import Client, ServiceError
from tests.predictors.service.test_variability import variability_state
from tests.support.certificates import self_signed
from tests.support.commands import invoke
from tests.support.service_in_thread import running

EVENT = {"kind": "submitted", "job_id": 1, "time": 5}


def tokens_in(folder, *roles):
    """Return a token for each role, and the file that knows them."""
    made = [new_token(role, f"{role}er") for role in roles]
    file = folder / "tokens"
    file.write_text("# who may\n\n" + "".join(line + "\n" for _, line in made))
    file.chmod(0o600)
    return [token for token, _ in made], file


def test_roles(tmp_path):
    (reads, writes), file = tokens_in(tmp_path, "read", "write")
    with running(tmp_path, listening=Listening(port=0, tokens=read_tokens(file))) as one:
        nobody, wrong = one.client(retries=0), one.client(token="x" * 43, retries=0)
        reader, writer = one.client(token=reads, retries=0), one.client(token=writes, retries=0)
        for client in (nobody, wrong):
            for ask in (
                client.models,
                lambda c=client: c.send([EVENT]),
                lambda c=client: c.ask("GET", "/openapi.json"),
            ):
                with pytest.raises(ServiceError, match="401"):
                    ask()
        assert nobody.ask("GET", "/healthz") == {"alive": True} and nobody.ask("GET", "/readyz")["ready"]
        assert reader.runtime([{}]) and reader.models()["sequence"] == 0
        for ask in (lambda: reader.send([EVENT]), reader.reload):
            with pytest.raises(ServiceError, match="403"):
                ask()
        assert writer.send([EVENT])[0]["status"] == "applied" and writer.job(1)["state"] == "queued"
        assert writer.reload()["changed"] == []


def test_a_token_file_holds_hashes_only_and_is_checked(tmp_path):
    (token,), file = tokens_in(tmp_path, "write")
    assert token not in file.read_text()
    tokens = read_tokens(file)
    assert matching_token(tokens, token.encode()) == tokens[0]
    assert matching_token(tokens, b"") is None and matching_token(tokens, b"\xff") is None
    file.chmod(0o666)
    with pytest.raises(JobcastError, match="others may write"):
        read_tokens(file)
    file.chmod(0o600)
    file.write_text("write abc me\n")
    with pytest.raises(JobcastError, match="tokens:1: not ROLE SHA256 NAME"):
        read_tokens(file)
    file.write_text("# nothing\n")
    with pytest.raises(JobcastError, match="holds no token"):
        read_tokens(file)


def test_a_bucket_fills_at_its_rate_and_the_clients_that_asked_longest_ago_are_forgotten():
    buckets = Buckets()
    assert [buckets.take("a", 1.0, 4.0, 100.0) for _ in range(6)] == [0, 0, 0, 0, 1.0, 1.0]
    assert buckets.take("b", 1.0, 4.0, 100.0) == 0 == buckets.take("a", 1.0, 4.0, 101.0)
    for n in range(MOST_CLIENTS):
        buckets.take(f"client {n}", 1.0, 1.0, 200.0)
    assert buckets.take(f"client {MOST_CLIENTS - 1}", 1.0, 1.0, 200.0) == 1.0
    assert buckets.take("a", 1.0, 2.0, 101.0) == 0 == buckets.take("a", 1.0, 2.0, 101.0)


def test_the_command_makes_tokens(tmp_path):
    file = tmp_path / "tokens"
    done = invoke("token", "dashboard", "--file", file, "--role", "read")
    assert done.exit_code == 0 and file.stat().st_mode & 0o777 == 0o600
    (token,) = read_tokens(file)
    assert (token.role, token.name) == ("read", "dashboard")
    assert matching_token((token,), done.stdout.strip().encode()) == token
    assert isinstance(invoke("token", "a b", "--file", file).exception, JobcastError)


def test_without_tokens_only_this_machine_may_connect():
    with pytest.raises(JobcastError, match="give --token-file"):
        Listening(host="0.0.0.0")
    with pytest.raises(JobcastError, match="--tls-key"):
        Listening(certificate="x.pem")


def test_tls(tmp_path):
    certificate, key = self_signed(tmp_path)
    with running(tmp_path, listening=Listening(port=0, certificate=certificate, key=key)) as one:
        trusted = ssl.create_default_context(cafile=certificate)
        with Client(one.url.replace("http:", "https:"), tls=trusted) as client:
            assert client.send([EVENT])[0]["sequence"] == 1
        with pytest.raises(ServiceError, match="certificate verify failed"):
            Client(one.url.replace("http:", "https:"), retries=0).models()
        with pytest.raises(ServiceError), Client(one.url, retries=0) as client:
            client.models()


@pytest.mark.slow
def test_schemathesis_finds_no_failure(tmp_path):
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: uv sync --dev")
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error

    with running(tmp_path, variability_state=variability_state()) as one, one.client() as client:
        client.send([EVENT, {"kind": "started", "job_id": 1, "time": 6}, {"kind": "ended", "job_id": 1, "time": 7}])
        schema = schemathesis.openapi.from_url(f"{one.url}/openapi.json")
        counts = {}
        hasty = settings(
            max_examples=15, deadline=None, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip

        def check(case):
            response = case.call(timeout=60)
            case.validate_response(response, checks=[not_a_server_error])
            counts[case.path] = counts.get(case.path, 0) + 1
            assert response.status_code < 500

        for result in schema.get_all_operations():
            operation = result.ok()
            for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
                if mode == GenerationMode.POSITIVE or operation.body or operation.path_parameters:
                    hasty(given(case=operation.as_strategy(generation_mode=mode))(check))()
        assert len(counts) == 12 and sum(counts.values()) > 200
