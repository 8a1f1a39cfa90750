// Package completion has what identifies a direct completion in a history, and bounds the pieces of its stream.
package completion
