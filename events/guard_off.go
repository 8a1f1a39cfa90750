//go:build unguarded

package events

const checksExpected = false
