// Package guide runs the README, the user's guide and the operator's guide: its tests execute their blocks in order and
// compare the output.
package guide
