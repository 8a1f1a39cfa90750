package toolsearch

// Rank is rank, for tests.
var Rank = rank
