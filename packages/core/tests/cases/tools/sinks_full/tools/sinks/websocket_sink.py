# The module is not read by any check.
