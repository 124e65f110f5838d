"""Long checks that exit with 1 where a promise does not hold; the tests repeat a part of each."""
