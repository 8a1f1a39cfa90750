package servicetest

import "slices"

// testCase is one test of every service.
type testCase struct {
	name string
	run  func(*bench)
}

var cases = slices.Concat(lifeCases, turnCases, policyCases, environmentCases, graphCases, toolCases, taskCases, outsideCases, watchCases, findCases, searchCases, blobCases)
