cdef inline int require(bint condition, str rule) except -1:
    """Raise ``ValueError`` with the rule unless the condition holds."""
    if not condition:
        raise ValueError(rule)
    return 0
