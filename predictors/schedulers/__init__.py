"""Adapters for production schedulers: they read the queue, decide on soft limits, and keep a journal.

The decision is a pure function of the standard library alone (`soft_limit`), as is the table that plug-ins of
schedulers read at submission (`table`): both can be copied to a machine that has nothing else of jobcast.
"""
