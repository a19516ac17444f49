"""What code generation refuses."""


class CodegenError(ValueError):
    """A function that is not in the lowered form."""
