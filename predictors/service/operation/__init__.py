"""What operators see of the service: logs, the audit log, systemd, traces."""
