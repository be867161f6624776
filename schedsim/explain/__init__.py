"""Why a job started when it did."""
