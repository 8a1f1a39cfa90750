// Package nodes gives nodes that are appended to a conversation their ids.
package nodes
