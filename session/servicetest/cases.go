package servicetest

import "slices"

// testCase is one thing that every service does.
type testCase struct {
	name string
	run  func(*bench)
}

var cases = slices.Concat(lifeCases, turnCases, policyCases, graphCases, toolCases, taskCases, outsideCases, watchCases, findCases, blobCases)
