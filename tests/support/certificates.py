"""Certificates of this machine that tests sign."""

import shutil
import subprocess

import pytest


def self_signed(folder, name="localhost"):
    """Return certificate and key of this machine, under a name; without openssl the test skips."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: apt-get install openssl")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 2 -subj /CN={name}"
    subprocess.run([*command.split(), "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return certificate, key
