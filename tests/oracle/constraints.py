"""Constraints of jobs on one node: slurmctld's C, statement by statement, for a node in place of bitmaps.

`listed` is `_feature_string2list` and the checks of `_foreach_valid_feature_list` in job_scheduler.c, `matches` is
`valid_feature_counts` and `_valid_features` in node_scheduler.c; features that a plugin can change are left out. Blanks
around names are ours: Slurm takes them for parts of names.
"""

from dataclasses import dataclass


@dataclass
class Feature:
    """An entry of a job's list of features."""

    name: str
    op: str  # what follows it: AND, OR, XAND, MOR, END
    paren: int
    bracket: int
    count: int


def listed(text):
    """Return the list of features of a constraint, or None where Slurm refuses it."""
    found, name, count, paren, bracket, brackets, asterisk, at = [], "", 0, 0, 0, 0, False, 0
    text, closed = text.replace(",", "&"), False  # closed: behind `)` or `]`

    def add(op):
        found.append(Feature(name.strip(), op, paren, bracket, count))

    while at < len(text):
        sign = text[at]
        if sign == "*":
            digits = ""
            while at + 1 < len(text) and text[at + 1].isdigit():
                digits, at = digits + text[at + 1], at + 1
            count = int(digits or 0)
            asterisk |= not bracket
            if not name.strip() or count <= 0 or paren:
                return None
        elif sign in "&|":
            if not name.strip():
                return None
            if sign == "&":
                add("AND" if paren or not bracket else "XAND")
            else:
                add("OR" if paren or not bracket else "MOR")
            name, count, closed = "", 0, False
        elif sign == "[":
            if name.strip() or bracket or paren or brackets:
                return None
            bracket = brackets = 1
        elif sign == "]":
            if not name.strip() or not bracket or paren:
                return None
            bracket, closed = 0, True
        elif sign == "(":
            if name.strip() or paren:
                return None
            paren = 1
        elif sign == ")":
            if not name.strip() or not paren:
                return None
            paren, closed = 0, True
        elif sign != " " and (closed or count):
            return None
        else:
            name += sign
        at += 1
    if name.strip():
        add("END")
    if bracket or paren or (asterisk and len(found) > 1):
        return None
    inside = None  # whether an operator of brackets came before
    for one in found:
        if (one.op == "XAND" and not one.count) or (one.op == "MOR" and one.count):
            return None
        if one.op not in ("XAND", "MOR") and not one.paren:
            if (inside == "XAND" and not one.count) or (inside == "MOR" and one.count):
                return None
            inside = None
        elif one.op in ("XAND", "MOR"):
            if inside not in (None, one.op):
                return None
            inside = one.op
    return found


def matches(found, has):
    """Whether a node with some features can be one of the nodes of a job, so far as single nodes tell."""
    counts = any(one.count for one in found)
    left, in_brackets = valid_feature_counts(found, has)
    return (left or counts) and (not in_brackets or any(valid_features(found, has)))


def usable(text, has, known, nodes):
    """Whether a job of so many nodes, 0 if that is unknown, may use a node with some features, out of those known."""
    found = listed(text)
    if not found or not known:
        return True
    if not all(one.name in known for one in found):
        return False
    if len(found) == 1 and found[0].count:
        return found[0].name in has or found[0].count < nodes
    return matches(found, has)


def valid_feature_counts(found, has):
    """Return whether the operators outside of brackets leave the node, and whether there are others."""
    whole = inner = True
    last, paren_op, last_paren, in_brackets = "AND", "AND", 0, False

    for one in found:
        if last_paren < one.paren:
            paren_op = "XAND" if one.bracket and last not in ("XAND", "MOR") else last
            last, inner = "AND", True
        inside, here = max(last_paren, one.paren) > 0, one.name in has
        if one.op in ("MOR", "XAND"):
            in_brackets = True
        elif inside:
            inner = inner and here if last == "AND" else inner or here if last == "OR" else inner
        else:
            whole = whole and here if last == "AND" else whole or here if last == "OR" else whole
        if last_paren > one.paren:
            if paren_op == "AND":
                whole = whole and inner
            elif paren_op == "OR":
                whole = whole or inner
            else:
                in_brackets = True
        last, last_paren = one.op, one.paren
    return whole, in_brackets


def valid_features(found, has):
    """Return which of the entries of brackets the node matches."""
    bits, last, left = [], "AND", list(found)
    while left:
        one = left.pop(0)
        match = one.name in has
        if one.paren:
            if one.bracket and last not in ("XAND", "MOR"):
                last = "XAND"
            op = one.op
            while left:
                one = left.pop(0)
                match = match and one.name in has if op == "AND" else match or one.name in has
                op = one.op
                if not one.paren:
                    break
        if one.op in ("XAND", "MOR") or last in ("XAND", "MOR"):
            bits.append(match)
            last = one.op
    return bits
