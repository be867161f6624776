"""Run-time predictors, as-of histories and job logs.

`jobcast` exports what scripts need most. What a page imports from a module here is public too, and stands on the page
of references; everything else is private to its folder.
"""
