"""`match` statements: each case is an `if` in the `else` of the one before.

    match x:                →   subject_1 = x
        case 0:                 if subject_1 == 0:
            y = 1                   y = 1
        case [a, _]:            else:
            y = a                   case_1 = _dy2st.pattern_sequence(_dy2st.pattern_any('a'), _dy2st.pattern_any(None))
        case z:                     if _dy2st.matches(case_1, subject_1):
            y = z                       (a,) = _dy2st.bound_values(case_1, subject_1)
                                        y = a
                                    else:
                                        z = subject_1
                                        y = z

Values are compared as `==` compares; the structure of the subject is looked at by a pattern object (see capture/patterns.py),
once for the test and once, where the test holds, for the names that it binds. A guard is the last operand of the test, after
the names have been bound.
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st import names
from dy2st.capture.calls import patterns
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template

_VALUES = (gast.MatchValue, gast.MatchSingleton)


@rewrites(gast.Match, Phase.DESUGAR)
def rewrite_match(node: gast.Match, context: Context) -> list[gast.stmt]:
    """Return the subject is evaluated once, then come the cases."""
    (subject,) = context.namer.numbered(names.SUBJECT)
    start = context.statements("subject = value", node.subject, subject=subject, value=node.subject)
    return [*start, *_cases(node.cases, subject, context)]


def _cases(cases: list[gast.match_case], subject: str, context: Context) -> list[gast.stmt]:
    if not cases:
        return []
    case, at = cases[0], cases[0].pattern
    rest = _cases(cases[1:], subject, context)
    if isinstance(at, gast.MatchAs) and at.pattern is None:  # it takes anything
        value = template.load(subject, at)
        bind = context.statements("name = value", at, name=at.name, value=value) if at.name else []
        return [*bind, *(case.body if case.guard is None else _if(case.guard, case.body, rest, context))]
    start, test, bind = _tested(case, subject, context)
    return [*start, *_if(test, [*bind, *case.body], rest, context)]


def _tested(case: gast.match_case, subject: str, context: Context) -> tuple[list[gast.stmt], gast.expr, list[gast.stmt]]:
    """Return statements before the `if` of a case, its test, and what binds the names of the pattern when the test holds."""
    at = case.pattern
    bound = tuple(dict.fromkeys(_names(at)))
    start: list[gast.stmt] = []
    if _is_value(at):
        test, result = _value_test(at, subject, context), None
    else:
        (pattern,) = context.namer.numbered(names.CASE)
        start = context.statements("pattern = built", at, pattern=pattern, built=_pattern(at, context))
        test = context.expression("_dy2st.matches(pattern, subject)", at, pattern=pattern, subject=subject)
        result = context.expression("_dy2st.bound_values(pattern, subject)", at, pattern=pattern, subject=subject)
    if case.guard is None:
        targets = [template.store(name, at) for name in bound]
        return start, test, context.statements("(targets,) = result", at, targets=targets, result=result) if bound else []
    if not bound:
        return start, context.expression("test and guard", at, test=test, guard=case.guard), []
    (items,) = context.namer.numbered(names.BOUND)
    setters = [_setter(name, position, items, at, context) for position, name in enumerate(bound)]
    text = "test and (items := result) and (setters,) and guard"
    return start, context.expression(text, at, test=test, items=items, result=result, setters=setters, guard=case.guard), []


def _setter(name: str, position: int, items: str, at: gast.AST, context: Context) -> gast.expr:
    index = template.constant(position, at)
    return context.expression("(name := items[index])", at, name=name, items=items, index=index)


def _if(test: gast.expr, body: list[gast.stmt], rest: list[gast.stmt], context: Context) -> list[gast.stmt]:
    text = "if test:\n    body\nelse:\n    rest" if rest else "if test:\n    body"
    return context.statements(text, test, test=test, body=body, rest=rest)


def _names(node: gast.pattern) -> list[str]:
    """Return what a pattern binds, in the order in which its object gives the values."""
    if isinstance(node, gast.MatchOr):
        return _names(node.patterns[0])
    own = [name for name in (getattr(node, "name", None), getattr(node, "rest", None)) if name is not None]
    inner = [node.pattern] if getattr(node, "pattern", None) else [*getattr(node, "patterns", ())]
    return [name for part in (*inner, *getattr(node, "kwd_patterns", ())) for name in _names(part)] + own


def _is_value(node: gast.pattern) -> bool:
    """Tell whether a pattern compares the subject with values and binds nothing."""
    if isinstance(node, gast.MatchOr):
        return all(_is_value(alternative) for alternative in node.patterns)
    return isinstance(node, _VALUES)


def _value_test(node: gast.pattern, subject: str, context: Context) -> gast.expr:
    if isinstance(node, gast.MatchOr):
        tests = [_value_test(alternative, subject, context) for alternative in node.patterns]
        return template.place(gast.BoolOp(op=gast.Or(), values=tests), node)
    if isinstance(node, gast.MatchSingleton):
        return context.expression("subject is value", node, subject=subject, value=template.constant(node.value, node))
    return context.expression("subject == value", node, subject=subject, value=node.value)


def _pattern(node: gast.pattern, context: Context) -> gast.expr:
    """Return the expression that makes the pattern object."""
    text, parts = _PATTERNS[type(node)](node)
    holes = {
        key: [_pattern(inner, context) for inner in part] if isinstance(part, list) and key == "patterns" else part
        for key, part in parts.items()
    }
    holes = {key: _pattern(part, context) if isinstance(part, gast.pattern) else part for key, part in holes.items()}
    return context.expression(text, node, **holes)


def _text(value: str | None, at: gast.AST) -> gast.expr:
    return template.constant(value, at)


_PATTERNS: dict[type, Any] = {
    gast.MatchValue: lambda node: ("_dy2st.pattern_value(value)", {"value": node.value}),
    gast.MatchSingleton: lambda node: ("_dy2st.pattern_is(value)", {"value": template.constant(node.value, node)}),
    gast.MatchSequence: lambda node: ("_dy2st.pattern_sequence(patterns)", {"patterns": node.patterns}),
    gast.MatchStar: lambda node: ("_dy2st.pattern_star(name)", {"name": _text(node.name, node)}),
    gast.MatchOr: lambda node: ("_dy2st.pattern_or(patterns)", {"patterns": node.patterns}),
    gast.MatchMapping: lambda node: (
        "_dy2st.pattern_mapping((keys,), rest, patterns)" if node.keys else "_dy2st.pattern_mapping((), rest)",
        {"keys": node.keys, "rest": _text(node.rest, node), "patterns": node.patterns},
    ),
    gast.MatchClass: lambda node: (
        "_dy2st.pattern_class(kind, count, keywords, patterns)",
        {
            "kind": node.cls,
            "count": template.constant(len(node.patterns), node),
            "keywords": template.constant(tuple(node.kwd_attrs), node),
            "patterns": [*node.patterns, *node.kwd_patterns],
        },
    ),
    gast.MatchAs: lambda node: (
        ("_dy2st.pattern_any(name)", {"name": _text(node.name, node)})
        if node.pattern is None
        else ("_dy2st.pattern_as(name, inner)", {"name": _text(node.name, node), "inner": node.pattern})
    ),
}

operator("pattern_value")(patterns.Value)
operator("pattern_is")(patterns.Singleton)
operator("pattern_sequence")(patterns.Sequence)
operator("pattern_star")(patterns.Star)
operator("pattern_or")(patterns.Or)
operator("pattern_mapping")(patterns.Mapping)
operator("pattern_class")(patterns.Class)
operator("pattern_any")(patterns.Anything)
operator("pattern_as")(patterns.As)


@operator("matches")
def matches(pattern: patterns.Pattern, subject: Any) -> Any:
    """Tell whether the pattern fits: a Python bool, or a symbolic one."""
    return patterns.matches(pattern, subject)


@operator("bound_values")
def bound_values(pattern: patterns.Pattern, subject: Any) -> tuple[Any, ...]:
    """Return the values of the names that the pattern binds, in the order in which they appear."""
    return patterns.bound_values(pattern, subject)
