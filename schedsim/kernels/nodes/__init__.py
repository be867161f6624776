"""Compiled engine for machines whose nodes differ: jobs take processors, GPUs and memory of single nodes."""
