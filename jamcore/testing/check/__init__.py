"""``jam plugin check``: the published suites, put to what an author has, with one report."""
